"""WordPiece by two operators of tensorflow-text, in Python and in graphs alike."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.text.wordpiece.rules import Rules
from albert_tf.text.wordpiece.tables import BYTES, LONGEST_WORD, compile_tables
from albert_tf.text.wordpiece.vocabulary import SUFFIX, Vocabulary


class Spans(NamedTuple):
    """The pieces of a text: ids, and their first and last byte in the text; int64 `[T]` each."""

    ids: np.ndarray
    first: np.ndarray
    last: np.ndarray
    origins: np.ndarray


class WordPiece(tf.Module):
    """Strings to ids.

    Args:
        vocabulary: the pieces.
        rules: what happens to text before.
    """

    def __init__(self, vocabulary: Vocabulary, rules: Rules):
        super().__init__()
        import tensorflow_text  # Its operators are registered by this import.

        table, pieces = compile_tables(vocabulary, rules)
        with tf.init_scope():
            model = tf.constant(np.frombuffer(table, np.uint8))
            self._normalizer = tensorflow_text.FastBertNormalizer(model_buffer=model)
            self._pieces = tensorflow_text.FastWordpieceTokenizer(
                list(pieces),
                suffix_indicator=SUFFIX,
                max_bytes_per_word=LONGEST_WORD * BYTES,
                unknown_token=pieces[vocabulary.special.unknown_id],
                token_out_type=tf.int32,
            )

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """Strings `[B]` to int32 ids `[B, T]`, ragged."""
        return self._pieces.tokenize(self._normalizer.normalize(texts))

    def spans(self, text: str) -> Spans:
        """The pieces of one text with the bytes that they were made from."""
        normalized, origins = self._normalizer.normalize_with_offsets([text.encode("utf-8")])
        ids, starts, ends = self._pieces.tokenize_with_offsets(normalized)
        origin = origins.values.numpy()
        first, last = origin[starts.values.numpy()], origin[ends.values.numpy() - 1]
        return Spans(ids.values.numpy(), first, last, origin)
