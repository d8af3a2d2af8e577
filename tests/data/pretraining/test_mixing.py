"""Batches of several sets of records."""

import dataclasses
import itertools

import numpy as np
import pytest

from albert_tf.data.pretraining.batches import pretraining_batches
from albert_tf.data.pretraining.mixing import mixed_batches, taken, turns
from albert_tf.data.pretraining.sources import find_records


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((1,), [0]), ((1, 1), [0, 1]), ((2, 1), [0, 1, 0]), ((3, 1, 2), [0, 2, 0, 1, 2, 0])],
)
def test_turns(weights, expected):
    assert turns(weights) == expected
    for steps in range(3 * len(expected)):
        first = list(itertools.islice(itertools.cycle(expected), steps))
        assert taken(weights, steps) == [first.count(at) for at in range(len(weights))]


def test_batches_take_turns_and_resume(dynamic):
    short = find_records(dynamic.path)
    long = dataclasses.replace(short, max_seq_length=short.max_seq_length + 8)

    def batches(start, count):
        mixed = mixed_batches([short, long], (2, 1), 4, 7, start, (0, 1))
        return list(mixed.take(count).as_numpy_iterator())

    def ids(batch):
        return batch[0]["input_ids"]

    whole = batches(0, 6)
    widths = [ids(batch).shape[1] - short.max_seq_length for batch in whole]
    assert widths == [0, 8, 0, 0, 8, 0]
    alone = [
        iter(pretraining_batches(source, 4, seed).as_numpy_iterator())
        for source, seed in zip((short, long), (7, 8), strict=True)
    ]
    for batch, source in zip(whole, (0, 1, 0, 0, 1, 0), strict=True):
        np.testing.assert_array_equal(ids(batch), ids(next(alone[source])))
    for resumed, batch in zip(batches(4, 2), whole[4:], strict=True):
        np.testing.assert_array_equal(ids(resumed), ids(batch))
        np.testing.assert_array_equal(resumed[1]["labels"], batch[1]["labels"])
