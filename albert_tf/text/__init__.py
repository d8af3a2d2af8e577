"""Tokenizers for Python and graphs, whose vocabularies normalize raw text themselves."""
