"""Tokenizers for Python and graphs. Their vocabularies normalize raw text."""
