"""ALBERT for Keras 3 and TensorFlow, from raw text to the phone."""
