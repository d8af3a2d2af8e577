"""The exception for mistakes that a user can correct, and the text of messages."""

import importlib.util
import re
from collections.abc import Iterable
from typing import Final

MOST: Final = 20  # names in a message
LONGEST: Final = 2000  # characters of a line
# C0 and C1, which move a terminal's cursor; line ends; marks that reorder text; lone surrogates.
_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class UserError(ValueError):
    """A mistake in data, paths or options whose message needs no traceback.

    The command line prints it on one line and ends with exit status 2.
    """


# What each extra is checked by, in the order of messages.
_PACKAGES: Final = {"onnx": ("onnx", "onnxruntime", "tf2onnx"), "serving": ("tensorflow_serving",)}


def check_extra(extra: str, purpose: str) -> None:
    """Raises UserError where a package of an optional extra isn't installed; loads none."""
    missing = [name for name in _PACKAGES[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"{purpose} needs the packages of the extra {extra}. Received: no "
            f"{', '.join(missing)}. Run pip install 'albert_tf[{extra}]'."
        )


def listed(names: Iterable[object]) -> str:
    """Joins names with commas; counts those after the first `MOST`."""
    every = [str(name) for name in names]
    more = len(every) - MOST
    return ", ".join(every) if more <= 0 else f"{', '.join(every[:MOST])} and {more:,} more"


def one_line(text: str) -> str:
    """Returns text fit for a terminal: on one line, controls escaped, the middle cut if long."""
    line = re.sub(r"\s*[\r\n]+\s*", " ", text.strip())
    line = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), line)
    if len(line) <= LONGEST:
        return line
    cut = f" … ({len(line) - LONGEST:,} characters) … "
    return line[: LONGEST // 2] + cut + line[-LONGEST // 2 :]
