"""Running exported files, without TensorFlow where the format allows it."""
