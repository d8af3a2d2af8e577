"""Pairs as rows of ids."""

import numpy as np

from albert_tf.data.pretraining.masking import Rows
from albert_tf.data.pretraining.pairs import Pairs
from albert_tf.data.pretraining.words import WordTable


def laid_out(pairs: Pairs, ids: np.ndarray, table: WordTable, length: int) -> Rows:
    """`[CLS] A [SEP] B [SEP]` and padding, `[R, length]`, for pairs that fit.

    Args:
        ids: int32 `[N]`, the pieces that `pairs` count in.
    """
    at = np.arange(length)
    sizes = [np.diff(segment).astype(np.int32) for segment in (pairs.first, pairs.second)]
    first = sizes[0] + 2
    lengths = first + sizes[1] + 1
    source = np.where(at < first, pairs.first[:, :1] + at - 1, pairs.second[:, :1] + at - first)
    rows = ids[np.clip(source, 0, len(ids) - 1)]
    rows[:, 0] = table.classify_id
    rows[(at == first - 1) | (at == lengths - 1)] = table.separate_id
    rows[at >= lengths] = table.pad_id
    return Rows(rows, lengths[:, 0], first[:, 0])
