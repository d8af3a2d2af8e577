"""From the tokens of texts to a model's inputs: special tokens, truncation, padding, tensors."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeVar

import numpy as np
import optree

from albert_tf.errors import UserError, short_repr
from albert_tf.text.huggingface import EncodingNames

Text = str | bytes
Side = Literal["right", "left"]
Tensors = Literal["np", "tf", "pt"]
PaddingStrategy = Literal["longest", "max_length", "do_not_pad"]
TruncationStrategy = Literal["longest_first", "only_first", "only_second", "do_not_truncate"]
Choice = TypeVar("Choice", bound=str)
# Hugging Face's values of `padding` and `truncation`, and the strategies that they mean.
PADDING_STRATEGIES: Final[Mapping[Any, PaddingStrategy]] = {
    True: "longest",
    False: "do_not_pad",
    "longest": "longest",
    "max_length": "max_length",
    "do_not_pad": "do_not_pad",
}
TRUNCATION_STRATEGIES: Final[Mapping[Any, TruncationStrategy]] = {
    True: "longest_first",
    False: "do_not_truncate",
    "longest_first": "longest_first",
    "only_first": "only_first",
    "only_second": "only_second",
    "do_not_truncate": "do_not_truncate",
}
SPECIAL_TOKENS: Final = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
NO_TEXT = (0, 0)
STRIDE: Final = 64  # tokens
LONGEST = 1_000_000  # Hugging Face writes 1e30 where a tokenizer has no limit.
# The value of each feature at padded positions; `input_ids` get the padding token.
PADDING: dict[str, Any] = {
    "token_type_ids": 0,
    "attention_mask": 0,
    "special_tokens_mask": 1,
    "offset_mapping": NO_TEXT,
}


def chosen(name: str, value: Any, known: Mapping[Any, Choice]) -> Choice:
    """Returns what an argument of Hugging Face's means, after checking it."""
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


class Segment(NamedTuple):
    """A stretch of a text: `text[start:start + len(content)] == content`."""

    content: str
    start: int
    is_special: bool


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a vocabulary.

    Attributes:
        tokens: the padding, unknown, classification, separator and mask token, in this order.
        ids: their ids.
    """

    tokens: tuple[str, ...] = SPECIAL_TOKENS
    ids: tuple[int, ...] = (0, 1, 2, 3, 4)

    @property
    def pad_id(self) -> int:
        return self.ids[0]

    @property
    def unknown_id(self) -> int:
        return self.ids[1]

    @property
    def cls_id(self) -> int:
        return self.ids[2]

    @property
    def sep_id(self) -> int:
        return self.ids[3]

    @cached_property
    def _written(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(token) for token in self.tokens))

    def are_in(self, text: str) -> bool:
        """Returns whether a special token is written out in a text."""
        return any(token in text for token in self.tokens)

    def split(self, text: str) -> list[Segment]:
        """Cuts a text into special tokens and the text between them.

        White space beside a token stays in the text, where the vocabulary drops it: so `[MASK]`
        swallows the space on its left.
        """
        segments, end = [], 0
        for match in self._written.finditer(text):
            if match.start() > end:
                segments.append(Segment(text[end : match.start()], end, False))
            segments.append(Segment(match.group(), match.start(), True))
            end = match.end()
        if end < len(text) or not segments:
            segments.append(Segment(text[end:], end, False))
        return segments


class Tokens(NamedTuple):
    """The tokens of one text, as int32 arrays; offsets and words are empty unless requested.

    Attributes:
        ids: `[T]`.
        offsets: `[T, 2]`, start and end of each token in the raw text, in characters.
        words: `[T]`, the index of each token's word.
    """

    ids: np.ndarray
    offsets: np.ndarray = np.empty((0, 2), np.int32)
    words: np.ndarray = np.empty(0, np.int32)

    def cut(self, start: int, end: int) -> "Tokens":
        """Returns the tokens from `start` to before `end`."""
        return Tokens(self.ids[start:end], self.offsets[start:end], self.words[start:end])


class EncodedSequence(NamedTuple):
    """A sequence; each of its features is a list with one entry per position.

    Attributes:
        texts: the tokens of its one or two texts.
        special: the special tokens around them, or None.
        sample: the index of the text or pair that it was made from.
    """

    texts: Sequence[Tokens]
    special: SpecialTokens | None
    sample: int = 0

    @property
    def input_ids(self) -> list[int]:
        return Positions([self]).input_ids.tolist()

    @property
    def token_type_ids(self) -> list[int]:
        return Positions([self]).token_type_ids.tolist()

    @property
    def offset_mapping(self) -> list[tuple[int, int]]:
        return _as_list(Positions([self]).offset_mapping)

    @property
    def sequence_ids(self) -> list[int | None]:
        """The text (0 or 1) of each position; None for special tokens."""
        positions = Positions([self])
        texts = positions.token_type_ids[positions.is_text]
        return [None if text < 0 else text for text in positions.spread([texts], -1).tolist()]

    @property
    def word_ids(self) -> list[int | None]:
        """The index of each token's word in its text; None for special tokens."""
        words = Positions([self]).spread([text.words for text in self.texts], -1)
        return [None if word < 0 else word for word in words.tolist()]

    @property
    def has_words(self) -> bool:
        """Whether the tokens' words are known."""
        return all(len(text.words) == len(text.ids) for text in self.texts)


class Positions:
    """The positions of sequences, end to end, in arrays: N positions of S sequences.

    Args:
        sequences: all of one text or all of pairs, with the same special tokens.
    Attributes:
        lengths: `[S]`, positions of each sequence.
        token_type_ids: int32 `[N]`, the text of each position; `[SEP]` ends its text.
        is_text: bool `[N]`, False for special tokens.
    """

    def __init__(self, sequences: Sequence[EncodedSequence]):
        self._texts = [text for sequence in sequences for text in sequence.texts]
        self._special = sequences[0].special if sequences else None
        count, edge = len(self._texts), int(self._special is not None)
        sizes = np.fromiter((len(text.ids) for text in self._texts), np.int64, count) + edge
        by_sequence = sizes.reshape(len(sequences), -1) if sequences else sizes.reshape(0, 1)
        by_sequence[:, 0] += edge
        self.lengths = by_sequence.sum(axis=1)
        numbers = np.arange(count, dtype=np.int32) % by_sequence.shape[1]
        self.token_type_ids = np.repeat(numbers, sizes)
        self.is_text = np.ones(len(self.token_type_ids), np.bool_)
        self._starts = np.cumsum(self.lengths) - self.lengths
        if edge:
            self.is_text[self._starts] = self.is_text[np.cumsum(sizes) - 1] = False

    @property
    def input_ids(self) -> np.ndarray:
        special = self._special or SpecialTokens()
        ids = self.spread([text.ids for text in self._texts], special.sep_id)
        if self._special:
            ids[self._starts] = special.cls_id
        return ids

    @property
    def attention_mask(self) -> np.ndarray:
        return np.ones(len(self.is_text), np.int32)

    @property
    def special_tokens_mask(self) -> np.ndarray:
        return (~self.is_text).astype(np.int32)

    @property
    def offset_mapping(self) -> np.ndarray:
        return self.spread([text.offsets for text in self._texts], NO_TEXT)

    def spread(self, values: Sequence[np.ndarray], other: Any) -> np.ndarray:
        """Returns the values of all tokens at their positions, and `other` at special tokens."""
        joined = np.concatenate(values or [np.empty(0, np.int32)])
        result = np.full((len(self.is_text), *joined.shape[1:]), other, np.int32)
        result[self.is_text] = joined
        return result


class RaggedRows(NamedTuple):
    """Rows of any length, end to end, and how to pad them.

    Attributes:
        values: int32 `[N]`, or `[N, 2]` for offsets.
        lengths: int64 `[S]`, the length of each row.
        width: length to pad rows to; a longer one stays as it is.
        padding: value of the padding.
        side: "right" or "left".
    """

    values: np.ndarray
    lengths: np.ndarray
    width: int = 0
    padding: Any = 0
    side: Side = "right"

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]]) -> "RaggedRows":
        """Joins lists of numbers, or of pairs of numbers."""
        values = np.array(list(chain.from_iterable(rows)), np.int32)
        return cls(values, np.fromiter(map(len, rows), np.int64, len(rows)))

    def lists(self) -> list[list[Any]]:
        """Returns each row as a list."""
        spans = pairwise([0, *np.cumsum(self.lengths).tolist()])
        if self.values.ndim == 1:
            values = self.values.tolist()
            rows = (values[start:end] for start, end in spans)
        else:
            rows = (_as_list(self.values[start:end]) for start, end in spans)
        if not self.width:
            return list(rows)
        return [pad(row, self.width, self.padding, self.side) for row in rows]

    def array(self) -> np.ndarray:
        """Returns the rows as int32 `[S, T]` or `[S, T, 2]`.

        Raises:
            ValueError: they have several lengths.
        """
        lengths = np.maximum(self.lengths, self.width)
        longest = int(lengths.max(initial=0))
        if (lengths < longest).any():
            raise ValueError(f"from {lengths.min()} to {longest}")
        shape = len(lengths), longest, *self.values.shape[1:]
        result = np.full(shape, self.padding, np.int32)
        columns, count = np.arange(longest), self.lengths[:, None]
        result[columns >= longest - count if self.side == "left" else columns < count] = self.values
        return result


def _as_list(values: np.ndarray) -> list[Any]:
    """Returns numbers, or pairs of them as tuples."""
    return values.tolist() if values.ndim == 1 else list(zip(*values.T.tolist(), strict=True))


def special_count(is_pair: bool) -> int:
    """Returns the number of special tokens in a sequence: `[CLS]`, and `[SEP]` after each text."""
    return 3 if is_pair else 2


def make_sequences(
    first: Sequence[Tokens],
    second: Sequence[Tokens] | None,
    special: SpecialTokens | None,
    truncation: TruncationStrategy,
    max_length: int,
    stride: int = 0,
    overflow: bool = False,
    side: Side = "right",
) -> list[EncodedSequence]:
    """Returns the sequences of all texts or pairs, in order.

    Args:
        first: the tokens of each text.
        second: the tokens of each second text of a pair; None without pairs.
        special: special tokens to add around the texts, or None.
        truncation: the text to truncate when a sequence is too long.
        max_length: maximum number of tokens in a sequence; unused without truncation.
        stride: number of tokens that a window shares with the one before it.
        overflow: return the truncated tokens as further sequences.
        side: the end of a text that loses tokens.
    Raises:
        ValueError: the special tokens alone exceed `max_length`, the text to truncate is too short,
            or `stride` and `truncation` don't fit the texts.
    """
    added = special_count(second is not None) if special else 0
    is_cut = truncation != "do_not_truncate"
    if first and is_cut and max_length < added:
        raise ValueError(
            f"max_length must leave room for {added} special tokens. "
            f"Received: max_length={max_length}. Use a larger one."
        )
    sequences: list[EncodedSequence] = []
    batch = zip(first) if second is None else zip(first, second, strict=True)
    for sample, texts in enumerate(batch):
        if is_cut and sum([len(text.ids) for text in texts]) > max_length - added:
            for cut in _truncated(texts, max_length - added, truncation, stride, overflow, side):
                sequences.append(EncodedSequence(cut, special, sample))
        else:
            sequences.append(EncodedSequence(texts, special, sample))
    return sequences


def _truncated(
    texts: Sequence[Tokens],
    room: int,
    truncation: TruncationStrategy,
    stride: int,
    overflow: bool,
    side: Side,
) -> Iterator[list[Tokens]]:
    """Yields the tokens of a text or pair that go into each of its sequences."""
    is_pair = len(texts) == 2
    lengths = len(texts[0].ids), len(texts[1].ids) if is_pair else 0
    if not is_pair and truncation == "only_second":
        raise ValueError(
            "truncation='only_second' must be given pairs. Received: a text that is too long, "
            "without text_pair. Use truncation=True."
        )
    kept = kept_lengths(*lengths, room, truncation)
    if not overflow:
        spans = [
            (0, size) if side == "right" else (length - size, length)
            for length, size in zip(lengths, kept, strict=True)
        ]
        yield [text.cut(*span) for text, span in zip(texts, spans, strict=False)]
    elif not is_pair or truncation == "only_first":
        for span in windows(lengths[0], kept[0], stride, side):
            yield [texts[0].cut(*span), *texts[1:]]
    elif truncation == "only_second":
        for span in windows(lengths[1], kept[1], stride, side):
            yield [texts[0], texts[1].cut(*span)]
    else:
        raise ValueError(
            "return_overflowing_tokens must know which text of a pair to cut. "
            "Received: truncation='longest_first'. Use 'only_first' or 'only_second'."
        )


def longest_first(
    first: Any,
    second: Any,
    room: Any,
    minimum: Callable[[Any, Any], Any] = min,
    maximum: Callable[[Any, Any], Any] = max,
) -> tuple[Any, Any]:
    """Returns how many tokens each text keeps, so that both fit in `room`.

    Removes one token at a time from the longer text, from the second when both are equally
    long, as google-research/albert's `_truncate_seq_pair` does. Python passes integers, the graph
    passes tensors with `tf.minimum` and `tf.maximum`.
    """
    kept = minimum(first, maximum(room - second, (room + 1) // 2))
    return kept, minimum(second, room - kept)


def kept_lengths(
    first: int, second: int, room: int, strategy: TruncationStrategy
) -> tuple[int, int]:
    """Returns how many tokens each text keeps, so that both fit in `room`.

    Raises:
        ValueError: the text to truncate is too short to make both fit.
    """
    if first + second <= room or strategy == "do_not_truncate":
        return first, second
    if strategy == "longest_first":
        return longest_first(first, second, room)
    kept_first = room - second if strategy == "only_first" else first
    kept_second = room - first if strategy == "only_second" else second
    if kept_first < 0 or kept_second < 0:
        raise ValueError(
            f"truncation={strategy!r} must be able to make the texts fit. Received: texts of "
            f"{first} and {second} tokens for {room} positions. "
            "Use truncation='longest_first', or a larger max_length."
        )
    return kept_first, kept_second


def windows(length: int, size: int, stride: int, side: Side = "right") -> Iterator[tuple[int, int]]:
    """Yields start and end of spans of `size` that cover `length`; neighbours share `stride`.

    The first span is the one that truncation on this side keeps.

    Raises:
        ValueError: `stride` is negative, or as large as a span.
    """
    if length > size and not 0 <= stride < size:
        raise ValueError(
            "stride must be at least 0 and smaller than the number of tokens in a window. "
            f"Received: stride={stride}, {size} tokens a window. Use a smaller stride."
        )
    start = 0
    while start + size < length:
        yield (start, start + size) if side == "right" else (length - start - size, length - start)
        start += size - stride
    yield (start, length) if side == "right" else (0, length - start)


def default_stride(length: int) -> int:
    """Returns `STRIDE`, or a quarter of a window's text if that is less."""
    return min(STRIDE, (length - special_count(False)) // 4)


class BatchEncoding(EncodingNames, dict[str, Any]):
    """Named features, read as `encoding["input_ids"]` or `encoding.input_ids`.

    The methods align tokens with the words and characters of the texts; those of transformers are
    in `EncodingNames`. They work on the tokenizer's own result; a copied or unpickled encoding has
    only the features.

    Args:
        features: lists or arrays by name.
        sequences: the sequences without padding.
        lengths: the sequences' lengths with padding.
        padding_side: "right" or "left".
        encode_with_offsets: makes the same sequences with offsets and words, if `sequences` lack
            them. It is called once, when a method first needs them.
    """

    def __init__(
        self,
        features: Mapping[str, Any] = MappingProxyType({}),  # TensorFlow makes an empty one
        sequences: Sequence[EncodedSequence] | None = None,
        lengths: Sequence[int] = (),
        padding_side: Side = "right",
        encode_with_offsets: Callable[[], Sequence[EncodedSequence]] | None = None,
    ):
        super().__init__(features)
        self._sequences, self._lengths = sequences, lengths
        self._padding_side = padding_side
        self._encode_with_offsets = encode_with_offsets

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"There is no feature {name!r}. Received: {', '.join(self)}."
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchEncoding, (dict(self),)

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """Returns the text (0 or 1) of each position; None for special tokens and padding."""
        return self._padded(batch_index, self._sequence(batch_index).sequence_ids, None)

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """Returns the index of each position's word; None for special tokens and padding.

        Words are those passed with `is_split_into_words`; otherwise the vocabulary's tokens decide
        where a word begins.
        """
        sequence = self._sequence(batch_index)
        if not sequence.has_words:
            sequence = self._with_offsets[batch_index]
        return self._padded(batch_index, sequence.word_ids, None)

    @cached_property
    def _with_offsets(self) -> Sequence[EncodedSequence]:
        sequences = self._known()
        if self._encode_with_offsets is None:
            return sequences
        return self._encode_with_offsets()

    def _offsets(self, index: int) -> list[tuple[int, int]]:
        self._sequence(index)
        return self._padded(index, self._with_offsets[index].offset_mapping, NO_TEXT)

    def _sequence(self, index: int) -> EncodedSequence:
        sequences = self._known()
        if not 0 <= index < len(sequences):
            raise IndexError(
                f"The sequence must exist. Received: sequence {index} of {len(sequences)}. "
                "Sequences count from 0."
            )
        return sequences[index]

    def _known(self) -> Sequence[EncodedSequence]:
        if self._sequences is None:
            raise ValueError(
                "Words and characters are known only for the tokenizer's own result. Received: an "
                "encoding from `pad`, a copy or a pickle. Call the method before that step."
            )
        return self._sequences

    def _padded(self, index: int, values: list[Any], padding: Any) -> list[Any]:
        return pad(values, self._lengths[index], padding, self._padding_side)


def as_leaves(encoding: BatchEncoding) -> tuple[list[Any], tuple[str, ...]]:
    """Returns an encoding's features as the leaves of a nested structure, and their names."""
    names = tuple(sorted(encoding))
    return [encoding[name] for name in names], names


def from_leaves(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Returns the dict that `as_leaves` took apart."""
    return dict(zip(names, values, strict=True))


# Keras reads it as a dict: in functional models, and in `fit` of any model. On torch it has another
# registry, in `models/batch.py`.
optree.register_pytree_node(BatchEncoding, as_leaves, from_leaves, namespace="keras")


def collect(
    sequences: Sequence[EncodedSequence], requested: Mapping[str, bool]
) -> dict[str, RaggedRows | list[int]]:
    """Returns the requested features, each with a row or a number for each sequence."""
    positions = Positions(sequences)
    features: dict[str, RaggedRows | list[int]] = {}
    for name in (name for name, is_requested in requested.items() if is_requested):
        if name == "overflow_to_sample_mapping":
            features[name] = [sequence.sample for sequence in sequences]
        else:
            features[name] = RaggedRows(getattr(positions, name), positions.lengths)
    return features


def pad(values: list[Any], length: int, value: Any, side: str = "right") -> list[Any]:
    """Returns a sequence padded to `length` with `value`; a longer one is returned unchanged."""
    padding = [value] * (length - len(values))
    return padding + values if side == "left" else values + padding


def padded_length(longest: int, jit_compile: bool) -> int:
    """Returns the length of a batch: its longest sequence's, for XLA a multiple of 8.

    XLA compiles anew for each length; TensorFlow's own graphs take any.
    """
    return -(-longest // 8) * 8 if jit_compile else longest


def pad_rows(
    features: Mapping[str, Any],
    strategy: PaddingStrategy,
    length: int,
    multiple_of: int | None = None,
    *,
    pad_id: int,
    side: Side = "right",
) -> dict[str, Any]:
    """Pads every feature in `RaggedRows` to the same length; other features are returned unchanged.

    Args:
        features: by name; "input_ids" is among them.
        length: the length for "max_length". Longer sequences are not truncated.
        multiple_of: multiple to round the length up to.
        pad_id: the padding token.
        side: "right" or "left".
    """
    if strategy == "do_not_pad":
        return dict(features)
    if strategy == "longest":
        length = int(features["input_ids"].lengths.max(initial=0))
    elif length > LONGEST:
        raise ValueError(
            f"padding='max_length' requires a max_length. Received: {length}, the tokenizer's "
            "model_max_length, which means no limit."
        )
    if multiple_of:
        length = -(-length // multiple_of) * multiple_of
    values = {"input_ids": pad_id, **PADDING}
    return {
        name: rows._replace(width=length, padding=values[name], side=side)
        if isinstance(rows, RaggedRows)
        else rows
        for name, rows in features.items()
    }


def as_tensors(features: Mapping[str, Any], framework: Tensors | None) -> dict[str, Any]:
    """Returns lists, int32 arrays of NumPy ("np") or TensorFlow ("tf"), or int64 of torch ("pt").

    Raises:
        ValueError: sequences of different lengths, or another value of `framework`.
    """
    if framework is None:
        return {
            name: rows.lists() if isinstance(rows, RaggedRows) else rows
            for name, rows in features.items()
        }
    if framework not in ("np", "tf", "pt"):
        raise ValueError(
            f"return_tensors must be None, 'np', 'tf' or 'pt'. Received: {framework!r}."
        )
    arrays = {name: _array(name, rows) for name, rows in features.items()}
    if framework == "np":
        return arrays
    if framework == "pt":
        return {name: _torch().from_numpy(array).long() for name, array in arrays.items()}
    import tensorflow as tf

    return {name: tf.constant(array) for name, array in arrays.items()}


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise UserError(
            "return_tensors='pt' needs torch. Received: none is installed. Install torch, or use "
            "'np', which models on every backend take."
        ) from error
    return torch


def _array(name: str, rows: RaggedRows | Sequence[Any]) -> np.ndarray:
    try:
        return rows.array() if isinstance(rows, RaggedRows) else np.array(rows, dtype=np.int32)
    except (TypeError, ValueError) as error:
        way_out = "Use padding=True, and truncation=True with a max_length."
        lengths = str(error)
        if not isinstance(rows, RaggedRows):  # labels, of which the tokenizer knows no padding
            lengths = ", ".join(map(str, sorted({np.size(row) for row in rows})))
            way_out = "Pad them with -100, as albert_tf.data's data sets do."
        raise ValueError(
            "Sequences must have the same length to become one array. "
            f"Received: {name} with lengths {lengths}. {way_out}"
        ) from None
