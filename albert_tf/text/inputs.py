"""What callers give the tokenizer, as lists."""

from collections.abc import Mapping, Sequence
from typing import Any

Text = str | bytes


def as_lists(
    text: Text | Sequence[Text], pair: Text | Sequence[Text] | None
) -> tuple[list[Text], list[Text] | None]:
    """Both texts as lists of one length."""
    if isinstance(text, str | bytes):
        if pair is not None and not isinstance(pair, str | bytes):
            raise TypeError(
                "text and text_pair must both be texts or both be lists. "
                f"Received: a text and a {type(pair).__name__}."
            )
        return [text], None if pair is None else [pair]
    first, second = _listed("text", text), None if pair is None else _listed("text_pair", pair)
    if second is not None and len(first) != len(second):
        raise ValueError(
            "text and text_pair must be equally many. "
            f"Received: {len(first)} texts and {len(second)} text pairs."
        )
    return first, second


def _listed(name: str, texts: Any) -> list[Text]:
    """A list of texts from a list, a tuple or an array of them."""
    if isinstance(texts, str | bytes | Mapping) or not hasattr(texts, "__iter__"):
        raise TypeError(
            f"{name} must be a text or a list of texts. Received: {texts!r} of type "
            f"{type(texts).__name__}."
        )
    return list(texts)


def as_batch(encoded: Any) -> tuple[dict[str, list], bool]:
    """Features as lists of rows, and whether it was one row alone."""
    if not isinstance(encoded, Mapping):
        encoded = {name: [row[name] for row in encoded] for name in (encoded[0] if encoded else ())}
    if "input_ids" not in encoded:
        raise ValueError(
            f"Encodings must have input_ids to be padded. Received: {', '.join(encoded) or 'none'}."
        )
    features = {name: _plain(values) for name, values in encoded.items()}
    is_single = bool(features["input_ids"]) and isinstance(features["input_ids"][0], int)
    return {k: [v] for k, v in features.items()} if is_single else features, is_single


def _plain(values: Any) -> list:
    """A list of rows of numbers, from lists or arrays."""
    if hasattr(values, "numpy"):
        values = values.numpy()
    return [value.tolist() if hasattr(value, "tolist") else value for value in values]
