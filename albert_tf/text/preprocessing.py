"""Raw strings to features in the graph: for tf.data, exported models and TFLite."""

import base64
import zlib
from typing import Any, Literal

import keras
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.text.strings import segments, strings
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import describe
from albert_tf.text.wordpiece.tokenizer import WordPieceTokenizer


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPreprocessor(keras.layers.Layer):
    """Strings to `input_ids`, `attention_mask` and `token_type_ids`.

    The ids are those of `AlbertTokenizer(split_special_tokens=True)`: a special token that is
    written out in a text is plain text. Bytes that aren't UTF-8 are unknown characters. The graph
    has one operator of tensorflow-text, or two for WordPiece, otherwise such as TensorFlow Lite has
    built in.

    The whole text is read, however long: 30 bytes of memory for a byte of English, up to 240 for
    one of characters that normalise to many (U+FDFA). Limit what strangers may send.

    Args:
        vocabulary: a tokenizer, or a baked SentencePiece model.
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
        tokenizer = _tokenizer(vocabulary)
        self.vocabulary = tokenizer.model_bytes
        self.max_length = max_length
        self.padding = padding
        self._special = tokenizer.special
        self._wordpiece = tokenizer.settings if isinstance(tokenizer, WordPieceTokenizer) else None
        self._pieces = tokenizer.in_graph()
        # As in Keras' own text layers: strings reach `call` as they are, on every backend.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True

    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        special = self._special
        rows = [self._pieces.tokenize(strings(texts)) for texts in segments(inputs)]
        values = [tf.concat([row.values, [special.pad_id]], axis=0) for row in rows]
        splits = [tf.cast(row.row_splits, tf.int32) for row in rows]
        starts = [each[:-1, None] for each in splits]
        kept = self._kept([each[1:, None] - each[:-1, None] for each in splits])
        place = tf.range(self._width(kept))[None, :]

        ids = tf.where(place == 0, special.classify_id, special.pad_id) + tf.zeros_like(kept[0])
        types = tf.zeros_like(ids)
        end = tf.zeros_like(kept[0])  # The place of the last special token so far.
        for segment, (value, start, length) in enumerate(zip(values, starts, kept, strict=True)):
            source = tf.clip_by_value(start + place - end - 1, 0, tf.shape(value)[0] - 1)
            is_text = (place > end) & (place <= end + length)
            ids = tf.where(is_text, tf.gather(value, source), ids)
            types = tf.where((place > end) & (place <= end + length + 1), segment, types)
            end = end + length + 1
            ids = tf.where(place == end, special.separate_id, ids)
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
            "wordpiece": self._wordpiece,
            "max_length": self.max_length,
            "padding": self.padding,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AlbertPreprocessor":
        options = dict(config)
        content = zlib.decompress(base64.b64decode(options.pop("vocabulary")))
        settings = options.pop("wordpiece", None)
        return cls(WordPieceTokenizer(content, **settings) if settings else content, **options)


def _tokenizer(vocabulary: bytes | AlbertTokenizer) -> AlbertTokenizer:
    if isinstance(vocabulary, AlbertTokenizer):
        return vocabulary
    if not isinstance(vocabulary, bytes):
        raise TypeError(
            "vocabulary must be the bytes of a baked model, or an AlbertTokenizer. "
            f"Received: {vocabulary!r}. For a path, pass AlbertTokenizer(path)."
        )
    if describe(vocabulary) is None:
        raise UserError(
            "The vocabulary must be baked, so that the graph normalises text as Python does. "
            "Received: a model as it was trained. Pass AlbertTokenizer(vocab_file), or the result "
            "of albert_tf.text.vocabulary.bake."
        )
    return AlbertTokenizer(vocabulary)
