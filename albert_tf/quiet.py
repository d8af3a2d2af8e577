"""Hides the lines that TensorFlow's libraries print, and keeps them from writing files."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from albert_tf.errors import check_tensorflow_text

# TensorFlow's own variable: it prints lines of this level and above, of 0 to 3.
LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
DEBUG: Final = "ALBERT_TF_LOG"  # "debug" shows all lines


def set_level() -> bool:
    """Hides TensorFlow's lines of every level by its variable, unless the user wants them.

    Returns:
        Whether the user wants none: `TF_CPP_MIN_LOG_LEVEL` isn't 0 or 1, nor `ALBERT_TF_LOG` debug.
    """
    if os.environ.get(DEBUG) == "debug":
        return False
    return os.environ.setdefault(LEVEL, "3") not in ("0", "1")


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras, but not matplotlib, which Keras imports for pictures."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(hidden_stderr())
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
def hidden_stderr() -> Iterator[None]:
    """Hides what libraries in C++ print; an exception prints it after all.

    What Python prints to `sys.stderr` is shown. `set_level` isn't enough: absl prints before it
    knows the level, and LiteRT doesn't read it.
    """
    had_level = LEVEL in os.environ
    with contextlib.ExitStack() as stack:
        if set_level():
            with contextlib.suppress(OSError):  # The caller closed it.
                stack.enter_context(_redirected())
        yield
    if not had_level and "tensorflow" not in sys.modules:
        os.environ.pop(LEVEL, None)  # Whoever imports TensorFlow later chooses.


@contextlib.contextmanager
def _redirected() -> Iterator[None]:
    real = os.dup(2)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, real)
        lines = stack.enter_context(tempfile.TemporaryFile())
        if sys.stderr is sys.__stderr__ and sys.stderr is not None:
            sys.stderr.flush()
            ours = stack.enter_context(
                os.fdopen(os.dup(real), "w", 1, sys.stderr.encoding, "backslashreplace")
            )
            stack.enter_context(contextlib.redirect_stderr(ours))
        os.dup2(lines.fileno(), 2)
        stack.callback(os.dup2, real, 2)
        try:
            yield
        except BaseException:
            lines.seek(0)
            with open(real, "wb", closefd=False) as stderr:
                stderr.write(lines.read())
            raise


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
