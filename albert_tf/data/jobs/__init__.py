"""Builds a directory of pretraining examples from a corpus, on one machine or on a cluster."""
