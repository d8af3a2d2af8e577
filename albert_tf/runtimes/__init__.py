"""Runs exported files, without TensorFlow if the format allows it."""
