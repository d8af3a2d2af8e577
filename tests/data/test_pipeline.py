import itertools

import numpy as np
import pytest

from albert_tf.data.pipeline import (
    batch_order,
    evaluation_order,
    steps_per_epoch,
    training_batches,
)
from albert_tf.data.tasks.rows import Rows

N, BATCH = 23, 4
INPUTS = ("input_ids", "token_type_ids")


@pytest.fixture
def data():
    lengths = [3 + number * 7 % 5 for number in range(N)]
    arrays = {name: [np.arange(length) for length in lengths] for name in INPUTS}
    return Rows(arrays, {"labels": range(N)}, pad_id=0)


def test_each_epoch_has_every_row_once_in_another_order():
    lengths = np.random.default_rng(0).integers(3, 60, 1000)
    first, second = (np.concatenate(batch_order(lengths, 8, 5, epoch)) for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(1000))
    assert (first != second).mean() > 0.9
    np.testing.assert_array_equal(first, np.concatenate(batch_order(lengths, 8, 5, 0)))
    assert (first != np.concatenate(batch_order(lengths, 8, 6, 0))).mean() > 0.9


def test_a_batch_has_similar_lengths():
    lengths = np.random.default_rng(0).integers(3, 60, 1000)
    padded = sum(len(rows) * lengths[rows].max() for rows in batch_order(lengths, 8, 5, 0))
    assert padded < 1.1 * lengths.sum()


def test_a_run_resumes_in_the_middle(data):
    epoch = steps_per_epoch(N, BATCH)
    assert epoch == 6
    whole = list(itertools.islice(training_batches(data, BATCH, seed=1), 2 * epoch + 3))
    order = [rows for number in (0, 1) for rows in batch_order(data.lengths, BATCH, 1, number)]
    for rows, (_, found) in zip(order, whole, strict=False):
        assert found["labels"].numpy().tolist() == rows.tolist()
    for start in (1, epoch, epoch + 4):
        rest = itertools.islice(training_batches(data, BATCH, seed=1, start=start), 5)
        for (_, expected), (_, found) in zip(whole[start:], rest, strict=False):
            np.testing.assert_array_equal(found["labels"], expected["labels"])


def test_evaluation_sees_every_row_once_by_length(data):
    batches = evaluation_order(data.lengths, BATCH)
    assert [len(rows) for rows in batches] == [4, 4, 4, 4, 4, 3]
    order = np.concatenate(batches)
    assert sorted(order) == list(range(N))
    assert (np.diff(data.lengths[order]) >= 0).all()
