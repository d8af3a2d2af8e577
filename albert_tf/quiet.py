"""Hides TensorFlow's log lines and keeps libraries from writing to the home folder."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from albert_tf.errors import check_tensorflow_text

# TensorFlow prints log lines of this level (0 to 3) and above.
LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
DEBUG: Final = "ALBERT_TF_LOG"  # "debug" shows all lines


def set_level() -> bool:
    """Sets `TF_CPP_MIN_LOG_LEVEL` to hide all log lines, unless the user has chosen a level.

    Returns:
        Whether log lines are hidden: False if `TF_CPP_MIN_LOG_LEVEL` is 0 or 1, or `ALBERT_TF_LOG`
        is debug.
    """
    if os.environ.get(DEBUG) == "debug":
        return False
    return os.environ.setdefault(LEVEL, "3") not in ("0", "1")


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras, but not matplotlib, which Keras imports for plots."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(hidden_stderr())
        if "matplotlib" not in sys.modules:  # importing matplotlib writes a file
            sys.modules["matplotlib"] = None  # type: ignore[assignment]
            stack.callback(sys.modules.pop, "matplotlib")
        import tensorflow as tf

        tf.config.list_physical_devices()  # loads the GPU libraries, which also print


def import_tensorflow_text(*purpose: str) -> Any:
    """Imports tensorflow-text, which registers the operators that tokenize text in a graph.

    Args:
        *purpose: arguments of `check_tensorflow_text`, which is called first.
    """
    check_tensorflow_text(*purpose)
    import tensorflow_text

    return tensorflow_text


@contextlib.contextmanager
def hidden_stderr() -> Iterator[None]:
    """Hides the stderr output of C++ libraries and prints it if the block raises an exception.

    Python's own output to `sys.stderr` is shown. `set_level` isn't enough, because absl prints
    before it knows the level, and LiteRT ignores the level.
    """
    had_level = LEVEL in os.environ
    with contextlib.ExitStack() as stack:
        if set_level():
            with contextlib.suppress(OSError):  # the caller closed stderr
                stack.enter_context(_redirect_stderr())
        yield
    if not had_level and "tensorflow" not in sys.modules:
        os.environ.pop(LEVEL, None)  # leaves the level to whoever imports TensorFlow later


class _Stream:
    """Forwards to a replaceable stream, because TensorFlow's log handlers keep this object."""

    def __init__(self, target: IO[str]):
        self.target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)


@contextlib.contextmanager
def _redirect_stderr() -> Iterator[None]:
    real = os.dup(2)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, real)
        lines = stack.enter_context(tempfile.TemporaryFile())
        if sys.stderr is sys.__stderr__ and sys.stderr is not None:
            sys.stderr.flush()
            ours = stack.enter_context(
                os.fdopen(os.dup(real), "w", 1, sys.stderr.encoding, "backslashreplace")
            )
            shown = _Stream(ours)
            stack.callback(setattr, shown, "target", sys.stderr)
            stack.enter_context(contextlib.redirect_stderr(shown))
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
    """Keeps Keras and matplotlib from writing to the home folder, also in child processes.

    The user's existing `keras.json` and matplotlib folders are still used.
    """
    home, changes = Path(os.path.expanduser("~")), {}
    keras = Path(os.environ.get("KERAS_HOME") or home / ".keras").expanduser()
    if not (keras / "keras.json").exists():
        changes["KERAS_HOME"] = os.path.join(os.devnull, "keras")  # a path that can't be written
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
