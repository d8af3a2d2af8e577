"""Texts for masked language modeling with `fit`, which are masked again in each training epoch."""

import copy
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from albert_tf.data.pretraining import rng
from albert_tf.data.pretraining.masking import Unmasked, mask, word_table
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.tasks.classification import text_sequences
from albert_tf.data.tasks.rows import Rows, features_of, padded_length
from albert_tf.tasks import IGNORED, INPUT_IDS
from albert_tf.text.base_tokenizer import BaseTokenizer

SHORTEST: Final = 8  # tokens, the minimum in `ExampleOptions`


class MaskedTexts(Rows):
    """Rows of single texts whose words are masked as in pretraining.

    The labels `[B, P]` are the original tokens at `masked_lm_positions`; P is the largest number of
    masked tokens in a row of the batch. Which tokens are masked depends only on the seed, the
    epoch, and the index of the text. Without a call to `in_epoch`, the masks are always the same.

    Args:
        tokenizer: the model's tokenizer.
        texts: one text per row. A text longer than `max_length` is truncated.
        max_length: maximum number of tokens per row.
    """

    def __init__(self, tokenizer: BaseTokenizer, texts: Sequence[str], max_length: int):
        sequences, cut = text_sequences(tokenizer, texts, None, max_length)
        arrays = features_of(sequences)
        labels = {"labels": arrays[INPUT_IDS.name]}
        super().__init__(arrays, labels, tokenizer.pad_token_id, tags=True)
        self.cut, self.max_length = cut, max_length
        self._table = word_table(tokenizer)
        self._options = ExampleOptions(max_seq_length=max(max_length, SHORTEST))
        self._key = rng.key(0)

    def in_epoch(self, epoch: int, seed: int) -> "MaskedTexts":
        rows = copy.copy(self)
        rows._key = rng.key(seed, epoch)
        return rows

    def batch(self, rows: np.ndarray, jit_compile: bool = False) -> Any:
        features = self.inputs(rows, jit_compile)
        lengths = self.lengths[rows].astype("int32")
        unmasked = Unmasked(features["input_ids"], lengths, lengths)
        keys = rng.fold_in(self._key, self.examples[rows])
        masked = mask(unmasked, keys, self._table, self._options)
        # Labels come first in a row. Other positions are dropped, because each one costs V logits.
        count = max(1, int((masked.labels != IGNORED).sum(axis=1).max()))
        used = slice(padded_length(count, jit_compile))
        features |= {"input_ids": masked.ids, "masked_lm_positions": masked.positions[:, used]}
        weights = None if self.weights is None else np.array([self.weights[row] for row in rows])
        return features, {"labels": masked.labels[:, used]}, weights
