import itertools

import numpy as np
import pytest

from albert_tf.data import features
from albert_tf.data.pipeline import (
    EncodedExamples,
    batch_order,
    evaluation_batches,
    evaluation_order,
    steps_per_epoch,
    training_batches,
)
from albert_tf.data.readers import Example

N, BATCH = 23, 4


@pytest.fixture
def data(tiny_tokenizer):
    examples = [
        Example(" ".join(["the old square"] * (1 + number * 7 % 5)), None, str(number))
        for number in range(N)
    ]
    return EncodedExamples(examples, tiny_tokenizer, 16, lambda example: int(example.label))


def test_batches_follow_the_schema(data):
    inputs, labels = data.batch(np.array([0, 1, 2]))
    assert list(inputs) == [feature.name for feature in features.INPUTS]
    assert {array.dtype.name for array in inputs.values()} == {"int32"}
    assert {array.shape for array in inputs.values()} == {(3, 16)}
    assert labels.tolist() == [0, 1, 2]
    assert inputs["attention_mask"].sum(axis=1).tolist() == data.lengths[:3].tolist()
    assert (inputs["input_ids"][inputs["attention_mask"] == 0] == 0).all()


def test_rows_are_truncated_to_max_length(data):
    assert data.lengths.max() == 16


def test_pairs_have_two_types(tiny_tokenizer):
    pair = EncodedExamples([Example("one", "two", "1")], tiny_tokenizer, 16, lambda _: 1)
    assert set(pair.token_type_ids[0].tolist()) == {0, 1}


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
        np.testing.assert_array_equal(found, data.labels[rows])
    for start in (1, epoch, epoch + 4):
        rest = itertools.islice(training_batches(data, BATCH, seed=1, start=start), 5)
        for (_, expected), (_, found) in zip(whole[start:], rest, strict=False):
            np.testing.assert_array_equal(found, expected)


def test_evaluation_sees_every_example_once(data):
    batches = list(evaluation_batches(data, BATCH))
    assert len(batches) == int(evaluation_batches(data, BATCH).cardinality()) == 6
    labels = np.concatenate([labels for _, labels in batches])
    np.testing.assert_array_equal(labels, data.labels[evaluation_order(data)])
    assert sorted(labels) == list(range(N))
