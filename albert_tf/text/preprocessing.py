"""Preprocessing of raw strings in a graph, for tf.data, exported models, and TFLite."""

import base64
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import UserError, short_repr
from albert_tf.options import Range, check_number
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.model_file import describe
from albert_tf.text.sequences import Side, checked_side, special_count
from albert_tf.text.texts import as_text
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.windows import longest_first
from albert_tf.text.wordpiece import WordPieceTokenizer


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPreprocessor(keras.layers.Layer):
    """Preprocessing layer that converts strings to the inputs of a model.

    Example:

    >>> from albert_tf import AlbertPreprocessor, AlbertTokenizer
    >>> tokenizer = AlbertTokenizer.from_pretrained("small")
    >>> preprocessor = AlbertPreprocessor(tokenizer, max_length=16)
    >>> features = preprocessor(["A quiet delight.", "Broken on arrival."])
    >>> sorted((name, tuple(value.shape)) for name, value in features.items())
    [('attention_mask', (2, 16)), ('input_ids', (2, 16)), ('token_type_ids', (2, 16))]

    The layer returns the same ids as `AlbertTokenizer(split_special_tokens=True)`: special tokens
    that occur in a text are treated as plain text. Invalid UTF-8 bytes become unknown characters.
    Stray bytes can merge if there are only dropped characters (control characters or accents)
    between them.

    The graph contains one tensorflow-text operator (two for WordPiece). All other operators are
    built into TensorFlow Lite.

    The layer tokenizes whole texts before it truncates them. This takes about 30 bytes of memory
    per byte of English text, and up to 240 bytes per byte of a character that normalizes to many
    characters, such as U+FDFA. Limit the size of untrusted texts.

    Args:
        vocabulary: a tokenizer, or the bytes of a SentencePiece model from `vocabulary.bake`.
        max_length: maximum number of tokens in a sequence, including special tokens.
        padding: "max_length" to pad every sequence to `max_length`, or "longest" to pad to the
            longest sequence in the batch.
        truncation_side: "right" or "left", the side on which tokens are truncated. Default: the
            tokenizer's `truncation_side`, or "right" if `vocabulary` is bytes.
    Call arguments:
        inputs: strings `[B]` (a tensor, an array, or a list), or a tuple of two such batches for
            text pairs.
    Returns:
        A dict of `input_ids`, `attention_mask`, and `token_type_ids`, all int32 `[B, T]`. For
        pairs, tokens are removed from the longer text, or from the second if both are equally long,
        as in google-research/albert.
    Raises:
        UserError: if the vocabulary isn't from `vocabulary.bake`, or isn't an ALBERT vocabulary.
        tf.errors.InvalidArgumentError: if the numbers of first and second texts differ.
    """

    def __init__(
        self,
        vocabulary: bytes | BaseTokenizer,
        max_length: int = 128,
        padding: Literal["max_length", "longest"] = "max_length",
        truncation_side: Side | None = None,
        name: str | None = None,
    ):
        super().__init__(trainable=False, autocast=False, dtype="int32", name=name)
        if padding not in ("max_length", "longest"):
            raise ValueError(f"padding must be 'max_length' or 'longest'. Received: {padding!r}.")
        tokenizer = _tokenizer(vocabulary)
        special_tokens = tokenizer.num_special_tokens_to_add(pair=True)
        check_number("max_length", max_length, Range(minimum=special_tokens))
        self.vocabulary = tokenizer.model_bytes
        self.max_length = max_length
        self.padding = padding
        self.truncation_side = checked_side(
            truncation_side or tokenizer.truncation_side, "truncation_side"
        )
        self._special = tokenizer.special
        self._wordpiece = tokenizer.settings if isinstance(tokenizer, WordPieceTokenizer) else None
        self._pieces = tokenizer.in_graph()
        # As in the Keras text layers, strings reach `call` unchanged on every backend.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True

    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        batches = of_one_shape([_strings(texts) for texts in _batches(inputs)])
        return self.rows([self.tokenize(texts) for texts in batches])

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of strings `[B]` as ragged int32 `[B, T]`, without special tokens."""
        return self._pieces.tokenize(texts)

    def rows(self, tokens: Sequence[tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """Computes the features of a batch from the tokens of its texts, or of its text pairs.

        The graph computes the id at each position from dense tensors, because TensorFlow Lite has
        no ragged operators. This code is slower than the Python tokenizer and doesn't compute
        offsets or word ids.
        """
        special = self._special
        values = [tf.concat([ids.values, [special.pad_id]], axis=0) for ids in tokens]
        starts = [tf.cast(ids.row_splits, tf.int32)[:-1, None] for ids in tokens]
        sizes, kept = _sizes(tokens), self.kept_lengths(tokens)
        if self.truncation_side == "left":
            starts = [
                start + size - length
                for start, size, length in zip(starts, sizes, kept, strict=True)
            ]
        position = tf.range(self._width(kept))[None, :]

        ids = tf.where(position == 0, special.cls_id, special.pad_id)
        ids += tf.zeros_like(kept[0])
        types = tf.zeros_like(ids)
        end = tf.zeros_like(kept[0])  # position of the last special token so far
        for segment, (value, start, length) in enumerate(zip(values, starts, kept, strict=True)):
            for _ in range(special.separators - 1 if segment else 0):
                end = end + 1
                ids = tf.where(position == end, special.sep_id, ids)
            source = tf.clip_by_value(start + position - end - 1, 0, tf.shape(value)[0] - 1)
            is_text = (position > end) & (position <= end + length)
            ids = tf.where(is_text, tf.gather(value, source), ids)
            in_segment = (position > end) & (position <= end + length + 1)
            types = tf.where(in_segment, segment * special.second_type, types)
            end = end + length + 1
            ids = tf.where(position == end, special.sep_id, ids)
        mask = tf.cast(position <= end, tf.int32)
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}

    def kept_lengths(self, tokens: Sequence[tf.RaggedTensor]) -> list[tf.Tensor]:
        """Returns how many tokens of each text to keep, int32 `[B, 1]`."""
        lengths = _sizes(tokens)
        is_pair = len(lengths) == 2
        room = self.max_length - special_count(is_pair, self._special.separators)
        if not is_pair:
            return [tf.minimum(lengths[0], room)]
        first, second = lengths
        return list(longest_first(first, second, room, tf.minimum, tf.maximum))

    def _width(self, kept: list[tf.Tensor]) -> Any:
        if self.padding == "max_length":
            return self.max_length
        added = special_count(len(kept) == 2, self._special.separators)
        return tf.maximum(tf.reduce_max(tf.add_n(kept)), 0) + added

    def get_config(self) -> dict[str, Any]:
        compressed = base64.b64encode(zlib.compress(self.vocabulary, level=9)).decode("ascii")
        return {
            "vocabulary": compressed,
            "wordpiece": self._wordpiece,
            "max_length": self.max_length,
            "padding": self.padding,
            "truncation_side": self.truncation_side,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AlbertPreprocessor":
        options = dict(config)
        content = zlib.decompress(base64.b64decode(options.pop("vocabulary")))
        settings = options.pop("wordpiece", None)
        return cls(WordPieceTokenizer(content, **settings) if settings else content, **options)


def _sizes(tokens: Sequence[tf.RaggedTensor]) -> list[tf.Tensor]:
    """Returns the number of tokens in each text, int32 `[B, 1]`."""
    splits = [tf.cast(ids.row_splits, tf.int32) for ids in tokens]
    sizes = [ends[1:, None] - ends[:-1, None] for ends in splits]
    # Fails if the batch sizes differ, even in TFLite files, which contain no assertions.
    return sizes if len(sizes) == 1 else tf.unstack(tf.stack(sizes))


def _tokenizer(vocabulary: bytes | BaseTokenizer) -> BaseTokenizer:
    if isinstance(vocabulary, BaseTokenizer):
        return vocabulary
    if not isinstance(vocabulary, bytes):
        raise TypeError(
            "vocabulary must be a tokenizer or the bytes of a model from "
            f"albert_tf.text.vocabulary.bake. Received: {vocabulary!r}. For a path, pass "
            "AlbertTokenizer(path)."
        )
    if describe(vocabulary) is None:
        raise UserError(
            "The vocabulary doesn't contain its normalization, so the graph wouldn't normalize "
            "texts as Python does. "
            "Pass AlbertTokenizer(vocab_file), or the result of albert_tf.text.vocabulary.bake."
        )
    return AlbertTokenizer(vocabulary)


def _batches(inputs: Any) -> Sequence[Any]:
    """Returns one or two batches of texts. In a saved Keras model, a tuple becomes a list."""
    is_pair = isinstance(inputs, tuple) or (
        isinstance(inputs, list) and bool(inputs) and all(map(tf.is_tensor, inputs))
    )
    if is_pair and len(inputs) not in (1, 2):
        raise ValueError(f"Text pairs must be two batches of texts. Received: {len(inputs)}.")
    return inputs if is_pair else (inputs,)


def of_one_shape(batches: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns batches of texts, after asserting that their shapes match."""
    shapes = [tf.shape(texts) for texts in batches]
    rule = "text and text_pair must contain the same number of texts."
    checks = [tf.debugging.assert_equal(shapes[0], shape, rule) for shape in shapes[1:]]
    with tf.control_dependencies(checks):
        return [tf.identity(texts) for texts in batches]


def _strings(texts: Any) -> tf.Tensor:
    """Converts texts to a string tensor `[B]`, and keeps trailing NULs of Python or NumPy bytes.

    When Keras exports a model with a string signature, it also traces the model with float32
    inputs. That graph raises an error when it runs.
    """
    if not tf.is_tensor(texts):
        texts = tf.constant(
            [
                text if isinstance(text, bytes) else as_text(text).encode("utf-8")
                for text in _as_list(texts)
            ],
            tf.string,
        )
    rule = (
        "Texts must be strings of shape [B]. "
        f"Received: dtype {texts.dtype.name}, shape {texts.shape}. Batch single texts first."
    )
    if texts.dtype == tf.float32 and not tf.executing_eagerly():
        with tf.control_dependencies([tf.debugging.Assert(False, [rule])]):
            return tf.fill(tf.shape(texts)[:1], "")
    if texts.dtype != tf.string or texts.shape.rank != 1:
        raise ValueError(rule)
    return texts


def _as_list(texts: Any) -> Sequence[str | bytes]:
    if isinstance(texts, np.ndarray) and texts.ndim == 1:
        return texts.tolist()
    if isinstance(texts, list):
        return texts
    raise ValueError(
        "Texts must be a tensor, an array, or a list of strings of shape [B]. "
        f"Received: {short_repr(texts)}. Put a single text in a list; a tuple means text pairs."
    )
