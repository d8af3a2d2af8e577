"""Tokenization in Python and in graphs, with vocabularies that normalize raw text themselves."""
