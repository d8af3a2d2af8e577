"""Raw strings to features in the graph: for tf.data, exported models and TFLite."""

import base64
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.text.pieces import as_text
from albert_tf.text.special_tokens import CLASSIFY_ID, PAD_ID, SEPARATE_ID
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import describe


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPreprocessor(keras.layers.Layer):
    """Strings to `input_ids`, `attention_mask` and `token_type_ids`.

    The ids are those of `AlbertTokenizer(split_special_tokens=True)`: a special token that is
    written out in a text is plain text. Bytes that aren't UTF-8 are unknown characters. The graph
    has one operator of tensorflow-text, otherwise such as TensorFlow Lite has built in.

    The whole text is read, however long: 30 bytes of memory for a byte of English, up to 240 for
    one of characters that normalise to many (U+FDFA). Limit what strangers may send.

    Args:
        vocabulary: a baked SentencePiece model, or the tokenizer that has it.
        max_length: the most pieces of a row, special tokens included.
        padding: "max_length" pads every row to it, "longest" to the longest row of the batch.
    Call arguments:
        inputs: strings `[B]` (a tensor, an array or a list), or a tuple of two: pairs of texts.
    Returns:
        A dict of int32 `[B, T]`. A row that is too long loses pieces from the end of its longer
        text, the second when both are equally long, as in google-research/albert.
    Raises:
        UserError: the vocabulary isn't baked, or is no vocabulary.
    """

    def __init__(
        self,
        vocabulary: bytes | AlbertTokenizer,
        max_length: int = 128,
        padding: Literal["max_length", "longest"] = "max_length",
        name: str | None = None,
    ):
        super().__init__(trainable=False, autocast=False, dtype="int32", name=name)
        if max_length < 3:
            raise ValueError(
                "max_length must be at least 3, for the special tokens of a pair. "
                f"Received: {max_length}."
            )
        if padding not in ("max_length", "longest"):
            raise ValueError(f"padding must be 'max_length' or 'longest'. Received: {padding!r}.")
        self.vocabulary = _baked(vocabulary)
        self.max_length = max_length
        self.padding = padding
        self._segmenter = _segmenter(self.vocabulary)
        # As in Keras' own text layers: strings reach `call` as they are, on every backend.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True

    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        rows = [self._segmenter.tokenize(_strings(texts)) for texts in _segments(inputs)]
        values = [tf.concat([row.values, [PAD_ID]], axis=0) for row in rows]
        splits = [tf.cast(row.row_splits, tf.int32) for row in rows]
        starts = [each[:-1, None] for each in splits]
        kept = self._kept([each[1:, None] - each[:-1, None] for each in splits])
        place = tf.range(self._width(kept))[None, :]

        ids = tf.where(place == 0, CLASSIFY_ID, PAD_ID) + tf.zeros_like(kept[0])
        types = tf.zeros_like(ids)
        end = tf.zeros_like(kept[0])  # The place of the last special token so far.
        for segment, (value, start, length) in enumerate(zip(values, starts, kept, strict=True)):
            source = tf.clip_by_value(start + place - end - 1, 0, tf.shape(value)[0] - 1)
            is_text = (place > end) & (place <= end + length)
            ids = tf.where(is_text, tf.gather(value, source), ids)
            types = tf.where((place > end) & (place <= end + length + 1), segment, types)
            end = end + length + 1
            ids = tf.where(place == end, SEPARATE_ID, ids)
        mask = tf.cast(place <= end, tf.int32)
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}

    def _kept(self, lengths: list[tf.Tensor]) -> list[tf.Tensor]:
        """`truncation.kept_lengths` with "longest_first", row by row."""
        room = self.max_length - 1 - len(lengths)
        if len(lengths) == 1:
            return [tf.minimum(lengths[0], room)]
        first = tf.minimum(lengths[0], tf.maximum(room - lengths[1], (room + 1) // 2))
        return [first, tf.minimum(lengths[1], room - first)]

    def _width(self, kept: list[tf.Tensor]) -> Any:
        if self.padding == "max_length":
            return self.max_length
        return tf.maximum(tf.reduce_max(tf.add_n(kept)), 0) + 1 + len(kept)

    def get_config(self) -> dict[str, Any]:
        compressed = base64.b64encode(zlib.compress(self.vocabulary, level=9)).decode("ascii")
        return {
            "vocabulary": compressed,
            "max_length": self.max_length,
            "padding": self.padding,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AlbertPreprocessor":
        vocabulary = zlib.decompress(base64.b64decode(config["vocabulary"]))
        return cls(**{**config, "vocabulary": vocabulary})


def _baked(vocabulary: bytes | AlbertTokenizer) -> bytes:
    model = vocabulary.model_bytes if isinstance(vocabulary, AlbertTokenizer) else vocabulary
    if not isinstance(model, bytes):
        raise TypeError(
            "vocabulary must be the bytes of a baked model, or an AlbertTokenizer. "
            f"Received: {vocabulary!r}. For a path, pass AlbertTokenizer(path)."
        )
    if describe(model) is None:
        raise UserError(
            "The vocabulary must be baked, so that the graph normalises text as Python does. "
            "Received: a model as it was trained. Pass AlbertTokenizer(vocab_file), or the result "
            "of albert_tf.text.vocabulary.bake."
        )
    return model


def _segmenter(model: bytes) -> Any:
    import tensorflow_text  # Its operators are registered by this import.

    with tf.init_scope():
        return tensorflow_text.FastSentencepieceTokenizer(model)


def _segments(inputs: Any) -> Sequence[Any]:
    """One batch of texts, or two; a saved Keras model gives back a tuple of tensors as a list."""
    is_pair = isinstance(inputs, tuple) or (
        isinstance(inputs, list) and bool(inputs) and all(map(tf.is_tensor, inputs))
    )
    if is_pair and len(inputs) not in (1, 2):
        raise ValueError(f"Pairs must be two batches of texts. Received: {len(inputs)} of them.")
    return inputs if is_pair else (inputs,)


def _strings(texts: Any) -> tf.Tensor:
    """A string tensor `[B]`; from Python and NumPy without losing NULs at the end of bytes."""
    if not tf.is_tensor(texts):
        texts = tf.constant([_utf8(text) for text in _listed(texts)], tf.string)
    if texts.dtype != tf.string or texts.shape.rank != 1:
        raise ValueError(
            "Texts must be strings of shape [B]. "
            f"Received: dtype {texts.dtype.name}, shape {texts.shape}. Batch single texts first."
        )
    return texts


def _listed(texts: Any) -> Sequence[str | bytes]:
    if isinstance(texts, np.ndarray) and texts.ndim == 1:
        return texts.tolist()
    if isinstance(texts, list):
        return texts
    raise ValueError(
        "Texts must be a tensor, an array or a list of strings, of shape [B]. "
        f"Received: {texts!r}. Put a single text in a list; a tuple is a pair of batches."
    )


def _utf8(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else as_text(text).encode("utf-8")
