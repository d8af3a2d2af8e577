import dataclasses

import numpy as np
import pytest

from albert_tf.data.pretraining.masking import Draws, Rows, draw, mask
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.words import WordTable

LENGTH, VOCABULARY = 37, 61
CHOICES = {
    "as published": {},
    "single words": {"ngram": 1},
    "longer n-grams": {"favor_shorter_ngram": False, "masked_lm_prob": 0.4},
    "pieces": {"do_whole_word_mask": False},
    "few predictions": {"max_predictions_per_seq": 3},
    "spans": {"span_masking": True, "masked_lm_prob": 0.5},
    "permutation": {"do_permutation": True, "masked_lm_prob": 0.3},
    "everything": {"masked_lm_prob": 0.9},
}


@pytest.fixture
def table():
    starts = np.random.default_rng(1).random(VOCABULARY) < 0.6
    return WordTable(starts, np.arange(5, VOCABULARY, dtype=np.int32), 0, 2, 3, 4)


def options(**given):
    return ExampleOptions(**{"max_seq_length": LENGTH, **given})


def drawn_rows(count, seed=5):
    """Rows of random pieces: both segments of at least one."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(5, LENGTH + 1, count)
    first = 3 + (generator.random(count) * (lengths - 4)).astype(int)
    ids = generator.integers(5, VOCABULARY, (count, LENGTH)).astype(np.int32)
    at = np.arange(LENGTH)
    ids[:, 0] = 2
    ids[(at == first[:, None] - 1) | (at == lengths[:, None] - 1)] = 3
    ids[at >= lengths[:, None]] = 0
    return Rows(ids, lengths.astype(np.int32), first.astype(np.int32))


def plainly(ids, length, first, drawn, table, options):
    """One row, masked by the rule as it reads: words, turns, n-grams, pieces."""
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
    if options.do_permutation:
        wanted = min(wanted, options.predictions // 2)
    limits = np.cumsum(options.ngram_probabilities)
    turns = sorted(words, key=lambda word: drawn.order[word[0][word[1]][0]])

    def pick(taken):
        picked = {}
        for own, number in turns:
            head = own[number][0]
            size = 1 + sum(drawn.ngram[head] >= limit for limit in limits[:-1])
            size = min(size, len(own) - number)
            while size and len(picked) + sum(map(len, own[number : number + size])) > wanted:
                size -= 1
            pieces = [at for word in own[number : number + size] for at in word]
            if not any(at in picked or at in taken for at in pieces):
                picked |= dict.fromkeys(pieces, head)
        return picked

    masked, result = pick({}), list(ids)
    for at, head in masked.items():
        replace = drawn.replace[head if options.span_masking else at]
        if replace < 0.8:
            result[at] = table.mask_id
        elif replace >= 0.9:
            result[at] = int(table.random_ids[int(drawn.word[at] * len(table.random_ids))])
    if options.do_permutation:
        more = sorted(pick(masked))
        sources = sorted(more, key=lambda at: drawn.shuffle[at])
        for target, source in zip(more, sources, strict=True):
            result[target] = ids[source]
        masked |= dict.fromkeys(more)
    return result, sorted(masked), [ids[at] for at in sorted(masked)]


@pytest.mark.parametrize("choice", CHOICES)
def test_masks_are_what_the_rule_says(choice, table):
    given, rows = options(**CHOICES[choice]), drawn_rows(300)
    drawn = draw(np.arange(300, dtype=np.uint64))
    masked = mask(rows, drawn, table, given)
    at = np.arange(LENGTH)
    for row in range(300):
        one = Draws(*(numbers[row, at] for numbers in drawn))
        ids, positions, labels = plainly(*(each[row] for each in rows), one, table, given)
        count = masked.counts[row]
        assert masked.ids[row].tolist() == ids
        assert masked.positions[row].tolist() == positions + [0] * (given.predictions - count)
        assert masked.labels[row].tolist() == labels + [0] * (given.predictions - count)
    assert masked.counts.max() > 1


def test_rows_are_masked_alike_in_any_company(table):
    rows, keys = drawn_rows(90), np.arange(90, dtype=np.uint64) + 7
    together = mask(rows, draw(keys), table, options())
    for part in (slice(0, 1), slice(40, 61), slice(89, 90)):
        alone = mask(Rows(*(each[part] for each in rows)), draw(keys[part]), table, options())
        for whole, own in zip(together, alone, strict=True):
            np.testing.assert_array_equal(whole[part], own)


def test_as_many_as_the_probability_says(table):
    rows = drawn_rows(400)
    masked = mask(rows, draw(np.arange(400, dtype=np.uint64)), table, options(ngram=1))
    single = dataclasses.replace(options(), do_whole_word_mask=False)
    exact = mask(rows, draw(np.arange(400, dtype=np.uint64)), table, single)
    wanted = np.maximum(1, np.rint(0.15 * rows.lengths))
    np.testing.assert_array_equal(exact.counts, np.minimum(wanted, single.predictions))
    assert (masked.counts <= wanted).all()


def test_nothing_to_predict(table):
    given = options(masked_lm_prob=0.0)
    rows = drawn_rows(9)
    masked = mask(rows, draw(np.arange(9, dtype=np.uint64)), table, given)
    assert not masked.counts.any()
    assert masked.positions.shape == (9, 1)
    np.testing.assert_array_equal(masked.ids, rows.ids)


def test_no_row_at_all(table):
    masked = mask(drawn_rows(0), draw(np.zeros(0, np.uint64)), table, options())
    assert masked.ids.shape == (0, LENGTH)


def test_eighty_ten_ten(table):
    """Within four standard deviations, of pieces that are all words, so that none is left."""
    rows = drawn_rows(3000)
    given = options(do_whole_word_mask=False, masked_lm_prob=0.5)
    masked = mask(rows, draw(np.arange(3000, dtype=np.uint64)), table, given)
    real = np.arange(given.predictions) < masked.counts[:, None]
    after = np.take_along_axis(masked.ids, masked.positions, 1)[real]
    before = masked.labels[real]
    total = len(after)
    by_chance = 0.1 / len(table.random_ids)  # a random piece may be the one that stood there
    for share, expected in (
        ((after == 4).mean(), 0.8),
        ((after == before).mean(), 0.1 + by_chance),
    ):
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / total)
    assert after[after != 4].min() >= 5
