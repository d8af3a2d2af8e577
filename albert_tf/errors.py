"""The exception for mistakes that users can correct, and helpers that format messages."""

import importlib.util
import re
import reprlib
from collections.abc import Iterable
from typing import Any, Final

MOST: Final = 20  # maximum number of names in a message
LINE_LENGTH: Final = 2000  # maximum number of characters in a line
SHORT: Final = 80  # maximum number of characters of a value in a message
# C0 and C1 codes, which can move the cursor; line breaks; bidirectional marks; lone surrogates.
_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class UserError(ValueError):
    """Raised for errors in data, paths, or options that the user can fix.

    The command line prints the message without a traceback and exits with status 2.
    """


class Interrupted(Exception):
    """Raised when SIGINT or SIGTERM ends a run that can resume.

    The command line prints the message and exits with status 130.
    """


# The modules that each extra must provide, in the order in which error messages list them.
_PACKAGES: Final = {"onnx": ("onnx", "onnxruntime", "tf2onnx"), "serving": ("tensorflow_serving",)}


def check_extra(extra: str, purpose: str) -> None:
    """Raises UserError if a package of an optional extra isn't installed; imports nothing."""
    missing = [name for name in _PACKAGES[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"{purpose} requires packages that are not installed: {', '.join(missing)}. "
            f"Run pip install 'albert_tf[{extra}]'."
        )


def check_tensorflow_text(
    purpose: str = "Text in a graph",
    way_out: str = "Tokenize outside the graph with AlbertTokenizer and export with "
    "ids_only=True, or use Linux or macOS.",
) -> None:
    """Raises UserError if tensorflow-text isn't installed, as on Windows; imports nothing."""
    if importlib.util.find_spec("tensorflow_text") is None:
        raise UserError(
            f"{purpose} requires tensorflow-text, which is not installed and has no wheel for "
            f"Windows. {way_out}"
        )


def listed(names: Iterable[object]) -> str:
    """Joins names with commas, up to `MOST` names or half of `LINE_LENGTH`, and counts the rest."""
    texts = [str(name) for name in names]
    shown, room = [], LINE_LENGTH // 2
    for name in texts[:MOST]:
        shown.append(name if len(name) <= room else f"{name[:room]}…")
        room -= len(name) + 2
        if room <= 0:
            break
    more = len(texts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def short_repr(value: Any) -> str:
    """Returns the beginning of `repr(value)` without computing the rest.

    A few bytes of YAML or nested lists can expand to gigabytes of text.
    """
    text = _SHORT.repr(value)
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


class _Short(reprlib.Repr):
    """A `repr` limited to a few items and levels."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.fillvalue = 3, SHORT, SHORT, "…"

    def repr_str(self, x: str, level: int) -> str:
        return repr(x[:SHORT])

    def repr_bytes(self, x: bytes, level: int) -> str:
        return repr(x[:SHORT])

    def repr_int(self, x: int, level: int) -> str:  # Python fails above 4,300 digits
        return repr(x) if abs(x) < 10**SHORT else f"a number with {x.bit_length():,} bits"


_SHORT: Final = _Short()


def escaped(text: object) -> str:
    """Escapes control characters, so that untrusted text can't move the cursor or break lines."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def one_line(text: str) -> str:
    """Returns text as one line, with control characters escaped and the middle of long text cut."""
    line = escaped(re.sub(r"\s*[\r\n]+\s*", " ", text.strip()))
    if len(line) <= LINE_LENGTH:
        return line
    cut = f" … ({len(line) - LINE_LENGTH:,} characters) … "
    return line[: LINE_LENGTH // 2] + cut + line[-LINE_LENGTH // 2 :]
