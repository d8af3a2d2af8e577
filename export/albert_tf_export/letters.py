"""Finds the letters of texts (the characters of the normalized texts) and their offsets in a graph.

The operator that `AlbertPreprocessor.tokenize` uses returns no offsets. Another SentencePiece
operator returns the offset of each token. Here, its vocabulary consists of letters, and it
normalizes texts in the same way.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.quiet import import_tensorflow_text
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.model_file import ModelProto, split_rules

Piece: Final = ModelProto.SentencePiece
# In bytes. No normalization rule reads this far ahead, so later text doesn't affect a letter.
LOOKAHEAD: Final = 256


class Letters(NamedTuple):
    """The letters at the start of texts, `[B, L]` with padding.

    Attributes:
        are_known: bool, whether each letter is known; see `Alphabet`.
        first_bytes: index of the first byte of the character that the letter comes from, int32. For
            padding, the end of the text, or of the part that was read.
    """

    are_known: tf.Tensor
    first_bytes: tf.Tensor


class Alphabet:
    """The letters of a SentencePiece vocabulary.

    A letter is known if it is a token. An unknown token never contains a known letter, so known
    letters show where tokens are. An added token without known letters, such as a sequence of
    emoji, counts as one known letter.
    """

    def __init__(self, tokenizer: BaseTokenizer):
        self._model = ModelProto.FromString(tokenizer.model_bytes)
        kinds = (Piece.NORMAL, Piece.USER_DEFINED)
        self._special = [each for each in self._model.pieces if each.type not in kinds]
        self._tokens = [each.piece if each.type in kinds else "" for each in self._model.pieces]
        singles = {token for token in self._tokens if len(token) == 1}
        others = {token for token in self._tokens if token and singles.isdisjoint(token)}
        self._known = sorted(singles | others)

    def counts(self) -> np.ndarray:
        """Returns the number of known letters in each token, and of other letters around them.

        Returns:
            Unsigned integers `[V, 3]`: the number of known letters, of letters before the first
            known one, and of letters after the last known one.
        """
        known, counts = set(self._known), []
        for token in self._tokens:
            letters = [token] if token in known else token
            places = [at for at, letter in enumerate(letters) if letter in known]
            around = (places[0], len(letters) - 1 - places[-1]) if places else (0, 0)
            counts.append((len(places), *around))
        return np.array(counts, np.min_scalar_type(np.max(counts)))

    def read(self, texts: tf.Tensor, count: tf.Tensor) -> Letters:
        """Returns letters from the start of each text: more than `count` known ones if possible.

        The operator takes about 200 bytes of memory per letter, so only the start of a long text is
        read.

        Args:
            texts: string `[B]`.
            count: number of known letters in each text's tokens, int32 `[B]`.
        """
        # Created in the graph, so that the operator stores the vocabulary.
        operator = import_tensorflow_text().SentencepieceTokenizer(self._letter_model())
        lengths, first_id = tf.strings.length(texts), len(self._special)

        def is_short(size: tf.Tensor, are_known: tf.Tensor, first_bytes: tf.Tensor) -> tf.Tensor:
            are_certain = are_known & (first_bytes < size - LOOKAHEAD)
            found = tf.reduce_sum(tf.cast(are_certain, tf.int32), axis=1)
            return tf.reduce_any((found <= count) & (size < lengths))

        def read_more(size: tf.Tensor, *_: tf.Tensor) -> Sequence[tf.Tensor]:
            size = 2 * tf.maximum(size, tf.reduce_max(count) + LOOKAHEAD)
            sizes = tf.fill(tf.shape(lengths), size)
            starts = tf.strings.substr(texts, tf.zeros_like(lengths), sizes)
            found = operator.tokenize_with_offsets(starts)
            ids, first, last = (
                tf.pad(tf.cast(each.to_tensor(), tf.int32), [[0, 0], [0, 1]]) for each in found
            )
            are_letters = tf.sequence_mask(found[0].row_lengths(), tf.shape(ids)[1])
            first = tf.where(are_letters, first, tf.reduce_max(last, axis=1, keepdims=True))
            return size, (ids >= first_id) & (ids < first_id + len(self._known)), first

        nothing = tf.zeros_like(lengths)[:, None]
        shape = tf.TensorShape([None, None])
        _, are_known, first_bytes = tf.while_loop(
            is_short,
            read_more,
            (tf.constant(0), nothing > 0, nothing),
            shape_invariants=(tf.TensorShape([]), shape, shape),
        )
        return Letters(are_known, first_bytes)

    def _letter_model(self) -> bytes:
        """Returns a SentencePiece model that splits normalized texts into letters.

        Its pieces are the known letters, and then other letters that occur in tokens, or that come
        from a character that normalizes to several letters. The remaining letters form unknown
        tokens, which is enough, because no token boundary falls within a character that normalizes
        to a single letter.
        """
        rules = self._model.normalizer_spec
        texts = split_rules(rules.precompiled_charsmap)[1].decode().split("\0")
        long = [text for text in (*texts, *self._tokens) if len(text) > 1]
        others = sorted(set("".join(long)).difference(self._known))
        # With this score, a single piece is preferred to several pieces, and several pieces are
        # preferred to a user-defined piece, whose score is -0.1.
        letters = [Piece(piece=letter, score=-1e-3) for letter in (*self._known, *others)]
        pieces = [*self._special, *letters]
        names = {piece.piece for piece in pieces}
        # The normalizer needs these: all letters of such a piece have the offset of its start.
        pieces += [
            piece
            for piece in self._model.pieces
            if piece.type == Piece.USER_DEFINED and piece.piece not in names
        ]
        return ModelProto(pieces=pieces, normalizer_spec=rules).SerializeToString()
