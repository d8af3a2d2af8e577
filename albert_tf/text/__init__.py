"""Tokenizers for Python code and TensorFlow graphs. Their vocabularies normalize raw text."""
