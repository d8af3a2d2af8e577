"""What callers give a pipeline: texts and pairs of texts, in any of their forms."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Texts(NamedTuple):
    """A text, or a pair of them."""

    text: str
    text_pair: str | None = None


def as_text(value: Any, name: str = "A text") -> str:
    """A str from a str, bytes in UTF-8, or a tensor of either.

    Raises:
        TypeError: none of these.
    """
    given = value
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(
            f"{name} must be a str. Received: {given!r} of type {type(given).__name__}."
        )
    return value


def as_texts(example: Any) -> Texts:
    """A text, a pair `(text, text_pair)`, or a dict with these keys.

    Raises:
        TypeError: something else, or a part that is no text.
    """
    if isinstance(example, Mapping):
        unknown = set(example) - {"text", "text_pair"}
        if unknown or "text" not in example:
            raise TypeError(
                "A dict must have the keys text and text_pair. "
                f"Received: {', '.join(map(repr, example)) or 'an empty one'}."
            )
        example = (example["text"], example.get("text_pair"))
    if isinstance(example, list) or (isinstance(example, tuple) and len(example) != 2):
        raise TypeError(
            "A pair of texts is a tuple of two, or a dict with text and text_pair. "
            f"Received: {example!r}."
        )
    if not isinstance(example, tuple):
        return Texts(as_text(example))
    text, pair = example
    return Texts(as_text(text), None if pair is None else as_text(pair, "A text_pair"))
