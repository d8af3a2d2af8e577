import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining import masking, numpy_ops, rng, tf_ops
from albert_tf.data.pretraining.masking import Unmasked, WordTable, as_rows, mask
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.pairs import Pairs

SEED = int(os.environ["ALBERT_TF_SEED"])
LENGTH, VOCABULARY = 37, 61
CHOICES = {
    "as published": {},
    "single words": {"ngram": 1},
    "longer n-grams": {"favor_shorter_ngram": False, "masked_lm_prob": 0.4},
    "pieces": {"do_whole_word_mask": False},
    "few predictions": {"max_predictions_per_seq": 3},
    "everything": {"masked_lm_prob": 0.9},
}


@pytest.fixture
def table():
    starts = np.random.default_rng(1).random(VOCABULARY) < 0.6
    return WordTable(starts, np.arange(5, VOCABULARY, dtype=np.int32), 0, 2, 3, 4)


def options(**given):
    return ExampleOptions(**{"max_seq_length": LENGTH, **given})


def keys(count):
    return rng.fold_in(rng.key(SEED), np.arange(count))


def random_rows(count, seed=SEED):
    """Returns rows of random pieces with at least one in each segment."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(5, LENGTH + 1, count)
    first = 3 + (generator.random(count) * (lengths - 4)).astype(int)
    ids = generator.integers(5, VOCABULARY, (count, LENGTH)).astype(np.int32)
    at = np.arange(LENGTH)
    ids[:, 0] = 2
    ids[(at == first[:, None] - 1) | (at == lengths[:, None] - 1)] = 3
    ids[at >= lengths[:, None]] = 0
    return Unmasked(ids, lengths.astype(np.int32), first.astype(np.int32))


def in_graph(rows, keys, table, options):
    """Returns NumPy arrays of `mask` in `tf.data`."""

    def masked(ids, lengths, first, keys):
        return mask(Unmasked(ids, lengths, first), keys, table, options, tf_ops)

    dataset = tf.data.Dataset.from_tensors((*rows, keys)).map(masked)
    return next(dataset.as_numpy_iterator())


def plainly(ids, length, first, key, table, options):
    """Masks one row by a direct transcription of the rule."""
    order, ngram, replace, random = (
        rng.uniform(key[None], stream, np.arange(LENGTH))[0] for stream in range(16, 20)
    )
    ids, length, first = ids.tolist(), int(length), int(first)
    words = []
    for segment in (range(1, first - 1), range(first, length - 1)):
        own = []
        for at in segment:
            if not own or not options.do_whole_word_mask or table.starts[ids[at]]:
                own.append([])
            own[-1].append(at)
        words += [(own, number) for number in range(len(own))]
    wanted = min(options.predictions, max(1, round(options.masked_lm_prob * length)))
    limits = np.cumsum(options.ngram_probabilities)
    masked = []
    for own, number in sorted(words, key=lambda word: order[word[0][word[1]][0]]):
        size = 1 + sum(ngram[own[number][0]] >= limit for limit in limits[:-1])
        size = min(size, len(own) - number)
        while size and len(masked) + sum(map(len, own[number : number + size])) > wanted:
            size -= 1
        pieces = [at for word in own[number : number + size] for at in word]
        if not set(pieces) & set(masked):
            masked += pieces
    result = list(ids)
    for at in masked:
        if replace[at] < 0.8:
            result[at] = table.mask_id
        elif replace[at] >= 0.9:
            result[at] = int(table.random_ids[int(random[at] * len(table.random_ids))])
    return result, sorted(masked), [ids[at] for at in sorted(masked)]


@pytest.mark.parametrize("choice", CHOICES)
def test_masks_follow_the_rule(choice, table):
    given, rows = options(**CHOICES[choice]), random_rows(300)
    masked = mask(rows, keys(300), table, given)
    for row in range(300):
        one = (*(each[row] for each in rows), keys(300)[row])
        ids, positions, labels = plainly(*one, table, given)
        count = masked.counts[row]
        assert masked.ids[row].tolist() == ids
        assert masked.positions[row].tolist() == positions + [0] * (given.predictions - count)
        assert masked.labels[row].tolist() == labels + [0] * (given.predictions - count)
    assert masked.counts.max() > 1


@pytest.mark.parametrize("choice", [*CHOICES, "nothing", "equal draws"])
def test_the_graph_masks_as_numpy_does(choice, table, monkeypatch):
    given, rows = options(**CHOICES.get(choice, {"masked_lm_prob": 0.0})), random_rows(40)
    if choice == "equal draws":
        given = options()
        monkeypatch.setattr(masking.rng, "MANTISSA", 0.0)
    expected = mask(rows, keys(40), table, given)
    found = in_graph(rows, keys(40), table, given)
    for name, one, other in zip(expected._fields, expected, found, strict=True):
        assert one.dtype == other.dtype == np.int32, name
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_masks_do_not_depend_on_the_other_rows(table):
    rows, drawn = random_rows(90), keys(90)
    together = mask(rows, drawn, table, options())
    for part in (slice(0, 1), slice(40, 61), slice(89, 90)):
        alone = mask(Unmasked(*(each[part] for each in rows)), drawn[part], table, options())
        for whole, own in zip(together, alone, strict=True):
            np.testing.assert_array_equal(whole[part], own)


def test_the_share_of_predictions_is_the_probability(table):
    rows = random_rows(400)
    masked = mask(rows, keys(400), table, options(ngram=1))
    single = dataclasses.replace(options(), do_whole_word_mask=False)
    exact = mask(rows, keys(400), table, single)
    wanted = np.maximum(1, np.rint(0.15 * rows.lengths))
    np.testing.assert_array_equal(exact.counts, np.minimum(wanted, single.predictions))
    assert (masked.counts <= wanted).all()


def test_nothing_to_predict(table):
    given = options(masked_lm_prob=0.0)
    rows = random_rows(9)
    masked = mask(rows, keys(9), table, given)
    assert not masked.counts.any()
    assert masked.positions.shape == (9, 1)
    np.testing.assert_array_equal(masked.ids, rows.ids)


def test_no_row_at_all(table):
    rows, drawn = random_rows(1), keys(1)
    none = Unmasked(*(each[:0] for each in rows))
    for masked in (
        mask(none, drawn[:0], table, options()),
        in_graph(none, drawn[:0], table, options()),
    ):
        assert masked.ids.shape == (0, LENGTH)
        assert masked.positions.shape == (0, options().predictions)


def test_eighty_ten_ten(table):
    """Allows four standard deviations; every piece is a word, so that none is left over."""
    rows = random_rows(3000)
    given = options(do_whole_word_mask=False, masked_lm_prob=0.5)
    masked = mask(rows, keys(3000), table, given)
    real = np.arange(given.predictions) < masked.counts[:, None]
    after = np.take_along_axis(masked.ids, masked.positions, 1)[real]
    before = masked.labels[real]
    total = len(after)
    by_chance = 0.1 / len(table.random_ids)  # a random piece may equal the original one
    for share, expected in (
        ((after == 4).mean(), 0.8),
        ((after == before).mean(), 0.1 + by_chance),
    ):
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / total)
    assert after[after != 4].min() >= 5


def test_pairs_become_rows_with_special_pieces_and_padding(table):
    pairs = Pairs(
        np.array([1, 2], np.uint64),
        np.array([[0, 2], [9, 10]]),
        np.array([[2, 5], [3, 9]]),
        np.array([0, 1], np.int32),
    )
    for xp in (numpy_ops, tf_ops):
        ids = xp.cast(np.arange(10, 20), np.int32)
        rows = Unmasked(*map(np.asarray, as_rows(pairs, ids, table, 11, xp)))
        assert rows.ids.tolist() == [
            [2, 10, 11, 3, 12, 13, 14, 3, 0, 0, 0],
            [2, 19, 3, 13, 14, 15, 16, 17, 18, 3, 0],
        ]
        assert rows.ids.dtype == np.int32
        assert rows.lengths.tolist() == [8, 10]
        assert rows.first.tolist() == [4, 3]
