"""Parses the texts that callers pass: a text, a text pair, a batch of either, or lists of words."""

import re
from collections.abc import Mapping
from typing import Any, Final

from albert_tf.errors import short_repr

Text = str | bytes
NO_CHARACTER: Final = "\U0010ffff"  # replaces stray bytes; no vocabulary contains it
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def as_text(text: Text) -> str:
    """Converts a text to a str. Replaces stray bytes and lone surrogates with `NO_CHARACTER`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise TypeError(
            "A text must be a str or UTF-8 bytes. "
            f"Received: {short_repr(text)} of type {type(text).__name__}. Pass a text, a list of "
            "texts, or a list of pairs (tuples); for lists of words, pass is_split_into_words=True."
        )
    return text if text.isascii() else _SURROGATES.sub(NO_CHARACTER, text)


def as_texts(text: Any, pair: Any) -> tuple[list[Text], list[Text] | None, bool]:
    """Returns the first texts, the second texts, and whether the caller passed a batch."""
    if isinstance(text, str | bytes):
        if pair is not None and not isinstance(pair, str | bytes):
            raise TypeError(
                "text and text_pair must both be texts or both be lists. "
                f"Received: a text and a {type(pair).__name__}."
            )
        return [text], None if pair is None else [pair], False
    first, second = _as_list("text", text), None if pair is None else _as_list("text_pair", pair)
    if second is None and first and all(isinstance(e, tuple | list) and len(e) == 2 for e in first):
        first, second = map(list, zip(*first, strict=True))
    return first, _require_same_length(first, second), True


def as_words(text: Any, pair: Any) -> tuple[list[list[Text]], list[list[Text]] | None, bool]:
    """Returns the words of the first and of the second texts, and whether they are a batch."""
    first = _words(text)
    is_batch = bool(first) and not isinstance(first[0], str | bytes)
    samples = [_words(words) for words in (first if is_batch else [first])]
    if pair is None:
        return samples, None, is_batch
    second = _words(pair)
    others = [_words(words) for words in (second if is_batch else [second])]
    return samples, _require_same_length(samples, others), is_batch


def _require_same_length(first: list[Any], second: list[Any] | None) -> list[Any] | None:
    if second is not None and len(first) != len(second):
        raise ValueError(
            "text and text_pair must have the same length. "
            f"Received: lengths {len(first)} and {len(second)}."
        )
    return second


def _words(words: Any) -> list[Text]:
    if isinstance(words, str | bytes):
        raise TypeError(
            "With is_split_into_words=True, a text must be a list of words. "
            f"Received: {short_repr(words)}. Split the text, or drop is_split_into_words."
        )
    return _as_list("text", words)


def _as_list(name: str, texts: Any) -> list[Any]:
    if isinstance(texts, str | bytes | Mapping) or not hasattr(texts, "__iter__"):
        raise TypeError(
            f"{name} must be a text or a list of texts. Received: {short_repr(texts)} of type "
            f"{type(texts).__name__}."
        )
    return list(texts)
