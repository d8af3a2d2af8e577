"""Imports TensorFlow without the lines that its libraries print as they load."""

import os


def import_tensorflow() -> None:
    """Imports TensorFlow; hides its lines if `TF_CPP_MIN_LOG_LEVEL`, which commands set, is 2 or 3.

    The level alone doesn't: absl prints lines of level 0 before it knows of one.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") in ("0", "1"):
        return
    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import tensorflow as tf

        tf.config.list_physical_devices()  # Loads the GPU libraries, which print too.
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
