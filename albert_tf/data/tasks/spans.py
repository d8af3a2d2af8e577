"""Entities as character spans of a text, as doccano, Prodigy, and spaCy write them."""

import re
import unicodedata
from typing import Any, Final

from albert_tf.data.readers import Row
from albert_tf.errors import UserError, short_repr
from albert_tf.evaluation.entities import OUTSIDE

_SPANS: Final = ("spans", "entities", "label", "labels")  # column names
_KEYS: Final = (("start", "start_offset"), ("end", "end_offset"), ("label",))


def words_of_text(row: Row, column: str | None) -> dict[tuple[int, int], str]:
    """Returns the words of a row's text, keyed by span, or {} for a row with lists of words.

    The words are Prodigy's tokens, if there are any. Otherwise, punctuation marks, symbols, and
    wide characters, such as Chinese ones, are words of their own.
    """
    text, tokens = row.get(column or "text"), row.get("tokens")
    if isinstance(tokens, list) and tokens and isinstance(tokens[0], dict):
        spans = [_span(token, row)[:2] for token in tokens]
    elif isinstance(text, str) and (column or not row.fields.keys() & {"words", "tokens"}):
        spans = [word.span() for word in re.finditer("w+|p", "".join(map(_kind, text)))]
    else:
        return {}
    return {(start, end): str(text)[start:end] for start, end in spans}


def _kind(character: str) -> str:
    if character.isspace():
        return " "
    is_wide = unicodedata.east_asian_width(character) in "WF"
    return "p" if is_wide or unicodedata.category(character)[0] in "PS" else "w"


def tags_of_spans(row: Row, column: str | None, words: list[tuple[int, int]]) -> tuple[str, ...]:
    """Returns a tag for each word: "O", or "B-" or "I-" and the label of the word's span.

    Raises:
        UserError: a span starts or ends inside a word, two spans overlap, or the row was rejected
            or ignored in Prodigy.
    """
    if (answer := row.get("answer")) in ("reject", "ignore"):
        raise UserError(f"'answer' must be 'accept'. Received: {answer!r} ({row.location}).")
    tags = [OUTSIDE] * len(words)
    for value in row.items(column or next(filter(row.fields.__contains__, _SPANS), _SPANS[0])):
        start, end, label = _span(value, row)
        inside = [at for at, (first, last) in enumerate(words) if first < end and start < last]
        is_whole = inside and start <= words[inside[0]][0] and words[inside[-1]][1] <= end
        if not is_whole or any(tags[at] != OUTSIDE for at in inside):
            raise UserError(
                "A span must begin and end between words, and must not overlap with another. "
                f"Received: {short_repr(value)} ({row.location})."
            )
        tags[inside[0] : inside[-1] + 1] = [f"B-{label}", *[f"I-{label}"] * (len(inside) - 1)]
    return tuple(tags)


def _span(value: Any, row: Row) -> tuple[int, int, str]:
    """Returns the start, end, and label of a span in a file. The label of a token is ""."""
    if isinstance(value, dict):
        value = [next((value[key] for key in keys if key in value), "") for keys in _KEYS]
    if isinstance(value, list) and [*map(type, value)] == [int, int, str]:
        return value[0], value[1], value[2]
    raise UserError(
        "A span must be [start, end, label], or an object with these keys. "
        f"Received: {short_repr(value)} ({row.location})."
    )
