"""What callers give the tokenizer, as lists."""

from collections.abc import Mapping
from typing import Any

from albert_tf.text.segmenter import Text


def as_lists(text: Any, pair: Any) -> tuple[list[Text], list[Text] | None]:
    """Both texts as lists of one length."""
    if isinstance(text, str | bytes):
        if pair is not None and not isinstance(pair, str | bytes):
            raise TypeError(
                "text and text_pair must both be texts or both be lists. "
                f"Received: a text and a {type(pair).__name__}."
            )
        return [text], None if pair is None else [pair]
    first, second = _listed("text", text), None if pair is None else _listed("text_pair", pair)
    return first, _as_many(first, second)


def as_words(text: Any, pair: Any) -> tuple[list[list[Text]], list[list[Text]] | None, bool]:
    """Both texts as lists of lists of words, and whether they are a batch."""
    first = _words(text)
    is_batch = bool(first) and not isinstance(first[0], str | bytes)
    samples = [_words(words) for words in (first if is_batch else [first])]
    if pair is None:
        return samples, None, is_batch
    second = _words(pair)
    others = [_words(words) for words in (second if is_batch else [second])]
    return samples, _as_many(samples, others), is_batch


def _as_many(first: list, second: list | None) -> list | None:
    if second is not None and len(first) != len(second):
        raise ValueError(
            "text and text_pair must be equally many. "
            f"Received: {len(first)} texts and {len(second)} text pairs."
        )
    return second


def _words(words: Any) -> list[Text]:
    if isinstance(words, str | bytes):
        raise TypeError(
            "With is_split_into_words=True a text must be a list of words. "
            f"Received: {words!r}. Split it, or leave is_split_into_words out."
        )
    return _listed("text", words)


def _listed(name: str, texts: Any) -> list:
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
