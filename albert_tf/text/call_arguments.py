"""The tokenizer's call arguments, checked and brought to one form."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from albert_tf.errors import UserError, short_repr

Text = str | bytes
PaddingStrategy = Literal["longest", "max_length", "do_not_pad"]
Side = Literal["right", "left"]
TruncationStrategy = Literal["longest_first", "only_first", "only_second", "do_not_truncate"]
Strategy = TypeVar("Strategy", bound=str)

_PADDING: dict[Any, PaddingStrategy] = {
    True: "longest",
    False: "do_not_pad",
    "longest": "longest",
    "max_length": "max_length",
    "do_not_pad": "do_not_pad",
}
_TRUNCATION: dict[Any, TruncationStrategy] = {
    True: "longest_first",
    False: "do_not_truncate",
    "longest_first": "longest_first",
    "only_first": "only_first",
    "only_second": "only_second",
    "do_not_truncate": "do_not_truncate",
}


def padding_strategy(padding: bool | str) -> PaddingStrategy:
    """Returns Hugging Face's `padding` argument as one word."""
    return _strategy("padding", padding, _PADDING)


def truncation_strategy(truncation: bool | str) -> TruncationStrategy:
    """Returns Hugging Face's `truncation` argument as one word."""
    return _strategy("truncation", truncation, _TRUNCATION)


def _strategy(name: str, value: Any, known: Mapping[Any, Strategy]) -> Strategy:
    if value not in known:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, known))}. Received: {short_repr(value)}."
        )
    return known[value]


def checked_side(side: str, name: str = "padding_side") -> Side:
    """Returns a side to pad or to truncate after checking it."""
    if side not in ("right", "left"):
        raise UserError(f"{name} must be 'right' or 'left'. Received: {side!r}.")
    return side  # type: ignore[return-value]


def as_texts(text: Any, pair: Any) -> tuple[list[Text], list[Text] | None, bool]:
    """Returns both arguments as lists of texts, and whether they are a batch."""
    if isinstance(text, str | bytes):
        if pair is not None and not isinstance(pair, str | bytes):
            raise TypeError(
                "text and text_pair must both be texts or both be lists. "
                f"Received: a text and a {type(pair).__name__}."
            )
        return [text], None if pair is None else [pair], False
    first, second = _listed("text", text), None if pair is None else _listed("text_pair", pair)
    if second is None and first and all(isinstance(e, tuple) and len(e) == 2 for e in first):
        first, second = map(list, zip(*first, strict=True))
    return first, _of_one_length(first, second), True


def as_words(text: Any, pair: Any) -> tuple[list[list[Text]], list[list[Text]] | None, bool]:
    """Returns both texts as lists of lists of words, and whether they are a batch."""
    first = _words(text)
    is_batch = bool(first) and not isinstance(first[0], str | bytes)
    if pair is None and is_batch and all(map(_is_pair_of_words, first)):
        first, pair = map(list, zip(*first, strict=True))
    samples = [_words(words) for words in (first if is_batch else [first])]
    if pair is None:
        return samples, None, is_batch
    second = _words(pair)
    others = [_words(words) for words in (second if is_batch else [second])]
    return samples, _of_one_length(samples, others), is_batch


def _is_pair_of_words(sample: Any) -> bool:
    """Whether a sample is a tuple of two lists of words."""
    is_pair = isinstance(sample, tuple) and len(sample) == 2
    return is_pair and all(isinstance(words, list | tuple) for words in sample)


def _of_one_length(first: list[Any], second: list[Any] | None) -> list[Any] | None:
    if second is not None and len(first) != len(second):
        raise ValueError(
            "text and text_pair must have the same length. "
            f"Received: {len(first)} texts and {len(second)} text pairs."
        )
    return second


def _words(words: Any) -> list[Text]:
    if isinstance(words, str | bytes):
        raise TypeError(
            "With is_split_into_words=True a text must be a list of words. "
            f"Received: {short_repr(words)}. Split it, or leave is_split_into_words out."
        )
    return _listed("text", words)


def _listed(name: str, texts: Any) -> list[Any]:
    if isinstance(texts, str | bytes | Mapping) or not hasattr(texts, "__iter__"):
        raise TypeError(
            f"{name} must be a text or a list of texts. Received: {short_repr(texts)} of type "
            f"{type(texts).__name__}."
        )
    return list(texts)


def as_batch(encoded: Any) -> tuple[dict[str, list[Any]], bool]:
    """Returns encodings as lists of rows by name, and whether they were a single row."""
    if not isinstance(encoded, Mapping):
        encoded = {name: [row[name] for row in encoded] for name in (encoded[0] if encoded else ())}
    if "input_ids" not in encoded:
        raise ValueError(
            f"Encodings must have input_ids to be padded. Received: {', '.join(encoded) or 'none'}."
        )
    features = {name: _plain(values) for name, values in encoded.items()}
    is_single = bool(features["input_ids"]) and isinstance(features["input_ids"][0], int)
    return {k: [v] for k, v in features.items()} if is_single else features, is_single


def _plain(values: Any) -> list[Any]:
    """Returns rows of numbers (lists or arrays) as lists."""
    if hasattr(values, "numpy"):
        values = values.numpy()
    return [value.tolist() if hasattr(value, "tolist") else value for value in values]
