import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining import draws, draws_graph, masking, masking_graph
from albert_tf.data.pretraining.masking import Rows
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.words import WordTable

R, T, V = 23, 37, 101
SEED = int(os.environ["ALBERT_TF_SEED"])
TABLE = WordTable(
    starts=np.arange(V) % 5 < 2,
    random_ids=np.arange(5, V, dtype="int32"),
    pad_id=0,
    classify_id=2,
    separate_id=3,
    mask_id=4,
)


def random_rows(seed, rows=R, length=T):
    """Rows of any lengths, the shortest (`[CLS] a [SEP] b [SEP]`) and full ones among them."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(5, length + 1, rows)
    lengths[:3] = 5, length, length
    first = generator.integers(3, lengths - 1)
    ids = generator.integers(5, V, (rows, length))
    at = np.arange(length)
    ids[:, 0] = TABLE.classify_id
    ids[(at == first[:, None] - 1) | (at == lengths[:, None] - 1)] = TABLE.separate_id
    ids[at >= lengths[:, None]] = TABLE.pad_id
    return Rows(*(array.astype("int32") for array in (ids, lengths, first)))


def random_options(seed):
    generator = np.random.default_rng(seed)
    return ExampleOptions(
        max_seq_length=T,
        masked_lm_prob=float(generator.choice([0.0, 0.1, 0.15, 0.4])),
        max_predictions_per_seq=int(generator.integers(1, 14)),
        ngram=int(generator.integers(1, 5)),
        favor_shorter_ngram=bool(generator.integers(2)),
        do_whole_word_mask=bool(generator.integers(4)),
        do_permutation=bool(generator.integers(2)),
        span_masking=bool(generator.integers(2)),
    )


def tensors(named):
    return type(named)(*map(tf.constant, named))


def assert_same(found, expected):
    for name, one, other in zip(expected._fields, found, expected, strict=True):
        assert one.dtype.as_numpy_dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("stream", [0, 7])
def test_draws_are_those_of_numpy_bit_by_bit(stream):
    keys = np.array([0, 1, 2**63, 2**64 - 1, draws.key(SEED)], np.uint64)
    found = draws_graph.uniform(tf.constant(keys), stream, 11)
    np.testing.assert_array_equal(found, draws.uniform(keys, stream, 11))
    numbers = np.array([0, 1, 5, 2**40, 3])
    np.testing.assert_array_equal(
        draws_graph.child(keys, numbers, 4), draws.child(keys, numbers, 4)
    )


def test_an_order_has_every_number_once():
    first, second = (draws_graph.order(draws_graph.child(SEED, n), 50).numpy() for n in (0, 1))
    assert sorted(first) == sorted(second) == list(range(50))
    assert (first != second).sum() > 40


def numpys_draws(keys):
    """All of what NumPy would draw for rows, as arrays."""
    rows = np.arange(len(keys))[:, None]
    return masking.Draws(*(numbers[rows, np.arange(T)] for numbers in masking.draw(keys)))


def test_what_is_drawn_for_masking_is_what_numpy_draws():
    keys = draws.child(draws.key(SEED), np.arange(R))
    for found, expected in zip(
        masking_graph.draw(tf.constant(keys), T), numpys_draws(keys), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", range(12))
def test_masks_are_those_of_numpy(case):
    rows, options = random_rows((SEED, case)), random_options((SEED, case))
    drawn = numpys_draws(draws.child(SEED, case, np.arange(R)))
    expected = masking.mask(rows, drawn, TABLE, options)
    found = masking_graph.mask(tensors(rows), tensors(drawn), TABLE, options)
    assert_same(found, expected)
    assert options.masked_lm_prob == 0 or options.predictions == 1 or expected.counts.any()


def test_equal_draws_go_by_position():
    rows, options = random_rows(SEED), ExampleOptions(max_seq_length=T)
    drawn = masking.Draws(*(np.full((R, T), value) for value in (0.5, 0.9, 0.85, 0.999, 0.1)))
    found = masking_graph.mask(tensors(rows), tensors(drawn), TABLE, options)
    assert_same(found, masking.mask(rows, drawn, TABLE, options))


def test_in_a_dataset_shapes_are_static_where_they_are_known():
    rows, options = random_rows(SEED), ExampleOptions(max_seq_length=T)
    keys = draws.child(SEED, np.arange(R))

    def masked(ids, lengths, first, keys):
        drawn = masking_graph.draw(keys, tf.shape(ids)[1])
        return masking_graph.mask(Rows(ids, lengths, first), drawn, TABLE, options)

    whole = tf.data.Dataset.from_tensors((*rows, keys)).map(masked)
    assert whole.element_spec.ids.shape == (R, T)
    assert whole.element_spec.positions.shape == (R, options.predictions)
    expected = masking.mask(rows, masking.draw(keys), TABLE, options)
    assert_same(next(iter(whole)), expected)
    single = tf.data.Dataset.from_tensor_slices((*rows, keys)).batch(1).map(masked)
    assert single.element_spec.positions.shape == (None, options.predictions)
    for number, found in enumerate(single):
        for name, one, other in zip(expected._fields, found, expected, strict=True):
            np.testing.assert_array_equal(one[0], other[number], err_msg=name)


def test_no_rows_give_no_masks():
    rows, options = random_rows(SEED), ExampleOptions(max_seq_length=T)
    none = Rows(*(tf.constant(array[:0]) for array in rows))
    found = masking_graph.mask(
        none, masking_graph.draw(tf.zeros([0], tf.uint64), T), TABLE, options
    )
    assert found.positions.shape == (0, options.predictions)
