import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pipeline import batch_order, batches, evaluation_order, steps_per_epoch
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


def test_a_run_resumes_in_the_middle(data):
    epoch = steps_per_epoch(N, BATCH)
    assert epoch == 6
    whole = list(itertools.islice(batches(data, BATCH, 1, endless=True), 2 * epoch + 3))
    order = [rows for number in (0, 1) for rows in batch_order(data.lengths, BATCH, 1, number)]
    for rows, (_, found) in zip(order, whole, strict=False):
        assert found.numpy().tolist() == rows.tolist()
    for start in (1, epoch, epoch + 4):
        rest = itertools.islice(batches(data, BATCH, 1, endless=True, start=start), 5)
        for (_, expected), (_, found) in zip(whole[start:], rest, strict=False):
            np.testing.assert_array_equal(found, expected)


def test_no_generator_makes_memory_return_and_no_tuner_delays_the_end(data, monkeypatch):
    monkeypatch.delattr(tf.data.Dataset, "from_generator")
    assert len(list(batches(data, BATCH, 1, endless=True).take(2))) == 2
    assert len(list(batches(data, BATCH, 1))) == steps_per_epoch(N, BATCH)
    assert batches(data, BATCH, 1).options().autotune.enabled is False


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
    found = [features["input_ids"].shape for features, _ in batches(rows, 8, 5)]
    padded = sum(size * length for size, *_, length in found)
    assert lengths.sum() < padded < 1.2 * lengths.sum()


def test_epochs_are_the_stretches_of_an_endless_run(data):
    epoch = steps_per_epoch(N, BATCH)
    whole = [found for _, found in batches(data, BATCH, 1, endless=True).take(4 * epoch)]
    by_epochs = batches(data, BATCH, 1, start=epoch)
    assert len(by_epochs) == epoch
    found = [labels for _ in range(3) for _, labels in by_epochs]
    for one, other in zip(whole[epoch:], found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_batches_that_several_share_are_filled_up(data, kind):
    """Rows that fill up change no sum over the labels that count; hosts share each batch."""
    data.labels["labels"] = [np.asarray(label, kind) for label in data.labels["labels"]]
    plain = batches(data, BATCH, 1, endless=True).take(7)
    whole = list(batches(data, BATCH, 1, endless=True, parts=6).take(7))
    hosts = [
        batches(data, BATCH, 1, endless=True, parts=6, part=(number, 2)).take(7)
        for number in range(2)
    ]
    for (_, expected), batch, *parts in zip(plain, whole, *hosts, strict=True):
        features, labels, *weights = (
            part["input_ids"].numpy() if isinstance(part, dict) else part.numpy() for part in batch
        )
        count, size = len(expected), len(labels)
        assert size == len(features) == 6 > count
        np.testing.assert_array_equal(labels[:count], expected)
        if kind == "int32":
            assert not weights and (labels[count:] == -100).all()
        else:
            np.testing.assert_allclose(weights[0], [6 / count] * count + [0] * (6 - count))
        for number, values in enumerate(tf.nest.flatten(batch)):
            own = [tf.nest.flatten(part)[number] for part in parts]
            np.testing.assert_array_equal(np.concatenate(own), values)
            assert len(own[0]) == 3


def test_weights_of_examples_and_of_classes(data):
    data.labels["labels"] = [np.int32(number % 3) for number in range(N)]
    by_row = batches(data, BATCH, 1, shuffle=False, sample_weight=np.arange(N))
    assert np.concatenate([weights for *_, weights in by_row]).tolist() == list(range(N))
    by_class = batches(data, BATCH, 1, shuffle=False, class_weight=[0.5, 1, 4], parts=3)
    for _, labels, weights in by_class:
        known = labels.numpy() >= 0
        expected = np.array([0.5, 1, 4])[labels.numpy()[known]]
        np.testing.assert_array_equal(weights.numpy()[known], expected)
