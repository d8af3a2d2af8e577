import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.datasets import epochs
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


def test_no_generator_makes_memory_return_to_the_system(data, monkeypatch):
    monkeypatch.delattr(tf.data.Dataset, "from_generator")
    assert len(list(training_batches(data, BATCH, seed=1).take(2))) == 2
    assert len(list(epochs(data, BATCH, seed=1))) == steps_per_epoch(N, BATCH)


def test_the_end_of_an_iterator_waits_for_no_tuner(data):
    assert training_batches(data, 4, seed=1).options().autotune.enabled is False


def test_evaluation_sees_every_row_once_by_length(data):
    batches = evaluation_order(data.lengths, BATCH)
    assert [len(rows) for rows in batches] == [4, 4, 4, 4, 4, 3]
    order = np.concatenate(batches)
    assert sorted(order) == list(range(N))
    assert (np.diff(data.lengths[order]) >= 0).all()


@pytest.mark.parametrize("shape", [(), (3,)])
def test_texts_pairs_and_choices_share_batches_by_length(shape):
    """Pads little, whether a row is `[T]` or, for choices, `[C, T]`."""
    lengths = np.random.default_rng(0).integers(3, 100, 400)
    arrays = {name: [np.ones((*shape, length)) for length in lengths] for name in INPUTS}
    rows = Rows(arrays, {"labels": [0] * 400}, pad_id=0)
    batches = itertools.islice(training_batches(rows, 8, seed=5), 50)
    padded = sum(
        features["input_ids"].shape[0] * features["input_ids"].shape[-1] for features, _ in batches
    )
    assert lengths.sum() < padded < 1.2 * lengths.sum()


def test_batches_that_several_share_are_filled_up(data):
    """Compares the rows that count with those of one device; hosts share each batch."""
    plain = training_batches(data, BATCH, seed=1).take(7)
    whole = list(training_batches(data, BATCH, seed=1, parts=6).take(7))
    hosts = [
        training_batches(data, BATCH, seed=1, parts=6, part=(number, 2)).take(7)
        for number in range(2)
    ]
    for (_, expected), (features, labels), *parts in zip(plain, whole, *hosts, strict=True):
        counts = labels["sample_weight"].numpy() == 1
        assert counts.shape == (6,) and len(features["input_ids"]) == 6
        np.testing.assert_array_equal(labels["labels"][counts], expected["labels"])
        assert set(labels["labels"].numpy()) == set(expected["labels"].numpy())
        for name, values in {**features, **labels}.items():
            own = [{**part[0], **part[1]}[name] for part in parts]
            np.testing.assert_array_equal(np.concatenate(own), values)
            assert len(own[0]) == 3
