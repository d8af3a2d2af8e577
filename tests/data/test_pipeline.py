import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pipeline import Batches, Share, batch_order, steps_per_epoch
from albert_tf.data.tasks.rows import ArrayRows, Rows, evaluation_order

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


def test_a_run_resumes_in_the_middle(data):
    batches = Batches(data, BATCH, 1)
    assert len(batches) == steps_per_epoch(N, BATCH) == 6
    whole = [batches[number][1].tolist() for number in range(15)]
    order = [rows for number in (0, 1) for rows in batch_order(data.lengths, BATCH, 1, number)]
    assert whole[:12] == [rows.tolist() for rows in order]
    for start in (1, 6, 10):
        rest = itertools.islice(batches.endless(start), 5)
        assert [found.numpy().tolist() for _, found in rest] == whole[start : start + 5]


def test_no_tuner_delays_the_end_of_an_iterator(data):
    assert Batches(data, BATCH, 1).epochs().options().autotune.enabled is False


def test_evaluation_sees_every_row_once_by_length(data):
    found = evaluation_order(data.lengths, BATCH)
    assert [len(rows) for rows in found] == [4, 4, 4, 4, 4, 3]
    assert sorted(np.concatenate(found)) == list(range(N))
    assert (np.diff(data.lengths[np.concatenate(found)]) >= 0).all()


@pytest.mark.parametrize("shape", [(), (3,)])
def test_texts_pairs_and_choices_share_batches_by_length(shape):
    """Pads little, whether a row is `[T]` or, for choices, `[C, T]`."""
    lengths = np.random.default_rng(0).integers(3, 100, 400)
    arrays = {name: [np.ones((*shape, length)) for length in lengths] for name in INPUTS}
    rows = Rows(arrays, {"labels": [0] * 400}, pad_id=0)
    batches = Batches(rows, 8, 5)
    found = [batches[number][0]["input_ids"].shape for number in range(len(batches))]
    padded = sum(size * length for size, *_, length in found)
    assert lengths.sum() < padded < 1.2 * lengths.sum()


def test_epochs_are_the_stretches_of_an_endless_run(data):
    batches = Batches(data, BATCH, 1)
    whole = [batches[number][1].tolist() for number in range(24)]
    batches.next_epoch = 1
    by_epochs = batches.epochs()
    assert len(by_epochs) == 6 and by_epochs.batches is batches
    found = [labels.numpy().tolist() for _ in range(2) for _, labels in by_epochs]
    assert found == whole[6:18]
    batches.next_epoch = 3
    assert [labels.numpy().tolist() for _, labels in by_epochs] == whole[18:]


@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_batches_that_several_share_are_filled_up(data, kind):
    """Padding examples don't change sums over labels; hosts split each batch."""
    data.labels["labels"] = [np.asarray(label, kind) for label in data.labels["labels"]]
    plain, whole = Batches(data, BATCH, 1), Batches(data, BATCH, 1, share=Share(6))
    hosts = [Batches(data, BATCH, 1, share=Share(6, host, 2)) for host in range(2)]
    for number in range(7):
        _, expected = plain[number]
        features, labels, *weights = batch = whole[number]
        count, size = len(expected), len(labels)
        assert size == len(features["input_ids"]) == 6 > count
        np.testing.assert_array_equal(labels[:count], expected)
        if kind == "int32":
            assert not weights and (labels[count:] == -100).all()
        else:
            np.testing.assert_allclose(weights[0], [6 / count] * count + [0] * (6 - count))
        parts = [tf.nest.flatten(host[number]) for host in hosts]
        for values, *own in zip(tf.nest.flatten(batch), *parts, strict=True):
            np.testing.assert_array_equal(np.concatenate(own), values)
            assert len(own[0]) == 3


def test_weights_of_classes(data):
    data.labels["labels"] = [np.int32(number % 3) for number in range(N)]
    data.weight_by_class([0.5, 1, 4])
    batches = Batches(data, BATCH, 1, shuffle=False, share=Share(3))
    for number in range(len(batches)):
        _, labels, weights = batches[number]
        expected = np.array([0.5, 1, 4])[labels[labels >= 0]]
        np.testing.assert_array_equal(weights[labels >= 0], expected)


def test_arrays_are_shuffled_evenly():
    """A row's position in the first batches doesn't depend on its neighbors."""
    rows = ArrayRows({"input_ids": np.arange(N)[:, None]}, np.arange(N), None)
    batches = Batches(rows, BATCH, 1)
    found = np.concatenate([batches[number][1] for number in range(len(batches))])
    assert sorted(found) == list(range(N)) and (np.diff(found) == 1).sum() < 5
    assert batches[0][0]["input_ids"][:, 0].tolist() == found[:BATCH].tolist()
