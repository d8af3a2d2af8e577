"""Imports TensorFlow without the lines that its libraries print, or the files that they write."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albert_tf.errors import check_tensorflow_text


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras, without matplotlib, which Keras imports for pictures of data.

    Hides their lines if `TF_CPP_MIN_LOG_LEVEL`, which commands set, is 2 or 3. The level alone
    doesn't: absl prints lines of level 0 before it knows of one.
    """
    with contextlib.ExitStack() as stack:
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") not in ("0", "1"):
            stack.enter_context(_without_lines())
        if "matplotlib" not in sys.modules:  # Keras imports it, which lists all fonts in a file.
            sys.modules["matplotlib"] = None  # type: ignore[assignment]
            stack.callback(sys.modules.pop, "matplotlib")
        import tensorflow as tf

        tf.config.list_physical_devices()  # Loads the GPU libraries, which print too.


def import_tensorflow_text(*purpose: str) -> Any:
    """Returns tensorflow-text, whose import registers the operators that read text in a graph.

    Args:
        *purpose: arguments of `check_tensorflow_text`.
    Raises:
        UserError: it isn't installed, as on Windows.
    """
    check_tensorflow_text(*purpose)
    import tensorflow_text

    return tensorflow_text


@contextlib.contextmanager
def without_home_files() -> Iterator[None]:
    """Keeps Keras and matplotlib from writing into the home folder, here and in child processes.

    Files of the user's own are honoured: `keras.json`, and matplotlib's folders.
    """
    home, changes = Path(os.path.expanduser("~")), {}
    keras = Path(os.environ.get("KERAS_HOME") or home / ".keras").expanduser()
    if not (keras / "keras.json").exists():
        changes["KERAS_HOME"] = os.path.join(os.devnull, "keras")  # where nothing can be written
    folders = (
        home / ".matplotlib",
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "matplotlib",
        Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "matplotlib",
    )
    with contextlib.ExitStack() as stack:
        if "MPLCONFIGDIR" not in os.environ and not any(map(Path.exists, folders)):
            changes["MPLCONFIGDIR"] = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="albert_tf-", ignore_cleanup_errors=True)
            )
        before = {name: os.environ.get(name) for name in changes}
        os.environ.update(changes)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@contextlib.contextmanager
def _without_lines() -> Iterator[None]:
    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
