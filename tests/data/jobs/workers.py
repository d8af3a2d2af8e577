"""Functions for worker processes, which start faster because this file doesn't load TensorFlow."""

import os
import signal
import time
from pathlib import Path


def split(paragraph):
    """Returns a paragraph as one sentence.

    If the environment variable BUSY names a file, creates the file and waits.
    """
    if "BUSY" in os.environ:
        Path(os.environ["BUSY"]).touch()
        time.sleep(60)
    return [paragraph]


def kill_itself(file):
    os.kill(os.getpid(), signal.SIGKILL)


def fail(file):
    os._exit(1)
