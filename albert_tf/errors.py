"""The exception for mistakes that a user can correct, and the text of messages."""

import importlib.util
import re
import reprlib
from collections.abc import Iterable
from typing import Any, Final

MOST: Final = 20  # names in a message
LONGEST: Final = 2000  # characters of a line
SHORT: Final = 80  # characters of a value in a message
# C0 and C1, which move a terminal's cursor; line ends; marks that reorder text; lone surrogates.
_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class UserError(ValueError):
    """Raised for errors in data, paths or options that the user can fix.

    The command line prints it without a traceback and exits with status 2.
    """


class Interrupted(Exception):
    """SIGINT or SIGTERM ended a run, which the same program resumes; the message says where.

    The command line prints it and exits with status 130.
    """


# The packages of an extra that are checked, in the order of messages.
_PACKAGES: Final = {"onnx": ("onnx", "onnxruntime", "tf2onnx"), "serving": ("tensorflow_serving",)}


def check_extra(extra: str, purpose: str) -> None:
    """Raises UserError where a package of an optional extra isn't installed; loads none."""
    missing = [name for name in _PACKAGES[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"{purpose} needs the packages of the extra {extra}. Received: no "
            f"{', '.join(missing)}. Run pip install 'albert_tf[{extra}]'."
        )


def check_tensorflow_text(
    purpose: str = "Text in a graph",
    way_out: str = "Make the ids outside the graph, with AlbertTokenizer, and export with "
    "ids_only=True; or use Linux or macOS.",
) -> None:
    """Raises UserError where tensorflow-text isn't installed, as on Windows; loads nothing."""
    if importlib.util.find_spec("tensorflow_text") is None:
        raise UserError(
            f"{purpose} needs the package tensorflow-text, which has no wheel for Windows. "
            f"Received: a Python without it. {way_out}"
        )


def listed(names: Iterable[object]) -> str:
    """Joins names with commas; counts those after the first `MOST`, or `LONGEST / 2` characters."""
    texts = [str(name) for name in names]
    shown, room = [], LONGEST // 2
    for name in texts[:MOST]:
        shown.append(name if len(name) <= room else f"{name[:room]}…")
        room -= len(name) + 2
        if room <= 0:
            break
    more = len(texts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def short_repr(value: Any) -> str:
    """Returns the beginning of `repr(value)`, without making the rest of it.

    A few bytes of YAML, or of nested lists, can stand for gigabytes of text.
    """
    text = _SHORT.repr(value)
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


class _Short(reprlib.Repr):
    """Repr of a few items, a few levels deep."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.fillvalue = 3, SHORT, SHORT, "…"

    def repr_str(self, x: str, level: int) -> str:
        return repr(x[:SHORT])

    def repr_bytes(self, x: bytes, level: int) -> str:
        return repr(x[:SHORT])

    def repr_int(self, x: int, level: int) -> str:  # Python refuses to print 4,300 digits.
        return repr(x) if abs(x) < 10**SHORT else f"a number of {x.bit_length():,} bits"


_SHORT: Final = _Short()


def escaped(text: object) -> str:
    """Returns text as a person may read it: a stranger's label can neither move a terminal's
    cursor nor end a line."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def one_line(text: str) -> str:
    """Returns text fit for a terminal: on one line, controls escaped, the middle cut if long."""
    line = escaped(re.sub(r"\s*[\r\n]+\s*", " ", text.strip()))
    if len(line) <= LONGEST:
        return line
    cut = f" … ({len(line) - LONGEST:,} characters) … "
    return line[: LONGEST // 2] + cut + line[-LONGEST // 2 :]
