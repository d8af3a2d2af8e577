"""Tokenizers for Python and TensorFlow graphs. Vocabularies include the normalization rules."""
