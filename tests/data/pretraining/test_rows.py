import numpy as np

from albert_tf.data.pretraining.pairs import Pairs
from albert_tf.data.pretraining.rows import laid_out
from albert_tf.data.pretraining.words import WordTable


def test_pairs_with_special_pieces_and_padding():
    table = WordTable(np.ones(40, bool), np.arange(5, 40), 0, 2, 3, 4)
    pairs = Pairs(
        np.array([1, 2], np.uint64),
        np.array([[0, 2], [9, 10]]),
        np.array([[2, 5], [3, 9]]),
        np.array([0, 1], np.int32),
    )
    rows = laid_out(pairs, np.arange(10, 20, dtype=np.int32), table, 11)
    assert rows.ids.tolist() == [
        [2, 10, 11, 3, 12, 13, 14, 3, 0, 0, 0],
        [2, 19, 3, 13, 14, 15, 16, 17, 18, 3, 0],
    ]
    assert rows.ids.dtype == np.int32
    assert rows.lengths.tolist() == [8, 10]
    assert rows.first.tolist() == [4, 3]
