from collections import Counter

import numpy as np
import pytest

from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.pairs import IN_ORDER, SWAPPED, Passages, make_pairs, swapped

ROOM = 40 - 3


@pytest.fixture
def counts():
    return Counter()


def options(**given):
    return ExampleOptions(**{"max_seq_length": 40, **given})


def documents(sizes, longest=21, seed=3):
    """Returns documents with `sizes` sentences of 1 to `longest` pieces.

    Each piece equals its position; every second one begins a word.
    """
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, longest + 1, sum(sizes))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    starts = np.arange(bounds[-1]) % 2 == 0
    starts[bounds[:-1]] = True
    keys = generator.integers(0, 2**63, len(sizes)).astype(np.uint64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return Passages(keys, np.arange(bounds[-1], dtype=np.int32), starts, bounds, ends)


def test_pairs_cover_a_document_in_its_order(counts):
    given = documents([90, 55])
    pairs = make_pairs(given, options(short_seq_prob=0), counts)
    assert (pairs.labels == IN_ORDER).all()
    assert set(np.diff(pairs.first)[:, 0] + np.diff(pairs.second)[:, 0]) <= set(range(2, ROOM + 1))
    spans = np.concatenate([pairs.first, pairs.second], axis=1)
    assert (np.diff(spans.ravel()) >= 0).all()
    lost = given.bounds[-1] - (np.diff(pairs.first) + np.diff(pairs.second)).sum()
    assert 0 <= lost < 0.2 * given.bounds[-1]  # cut to fit
    assert counts["single_words"] == 0


def test_a_segment_ends_where_a_sentence_does(counts):
    """Skips segments that had to be cut to fit."""
    given = documents([60] * 9, longest=6)
    pairs = make_pairs(given, options(short_seq_prob=1), counts)
    whole = np.diff(pairs.first)[:, 0] + np.diff(pairs.second)[:, 0] < ROOM
    assert whole.sum() > 50
    assert (pairs.first[:, 1] == pairs.second[:, 0])[whole].all()
    assert np.isin(pairs.first[whole, 0], given.bounds).all()
    assert np.isin(pairs.second[whole, 1], given.bounds).all()
    inside = ~np.isin(pairs.first[whole, 1], given.bounds)
    sentences = np.searchsorted(given.bounds, [pairs.first[whole, 0], pairs.second[whole, 1]])
    np.testing.assert_array_equal(np.diff(sentences, axis=0)[0] == 1, inside)


def test_a_document_of_one_sentence_is_cut_between_words(counts):
    """Expects its halves in order, with a correct label (google-research/albert#234)."""
    given = documents([1] * 50)
    pairs = make_pairs(given, options(), counts)
    assert (pairs.labels == IN_ORDER).all()
    assert (pairs.first[:, 1] == pairs.second[:, 0]).all()
    assert given.starts[pairs.second[:, 0]].all()
    assert np.isin(pairs.first[:, 0], given.bounds).all()
    assert len(pairs.keys) == 50 - counts["single_words"] < 50


def test_a_target_applies_to_a_whole_document(counts):
    """Expects uniform targets between 2 and the maximum for a tenth of the documents."""
    given = documents([40] * 1500, longest=1)
    pairs = make_pairs(given, options(short_seq_prob=0.1), counts)
    number = np.searchsorted(given.bounds[given.documents], pairs.first[:, 0], side="right") - 1
    firsts = np.unique(number, return_index=True)[1]
    lengths = (np.diff(pairs.first) + np.diff(pairs.second))[firsts, 0]
    short = lengths < ROOM
    assert abs(short.mean() - 0.1) < 4 * np.sqrt(0.09 / 1500)
    assert abs(lengths[short].mean() - (2 + ROOM) / 2) < 4 * 10 / np.sqrt(short.sum())


def test_half_of_the_pairs_are_swapped(counts):
    pairs = make_pairs(documents([900] * 9), options(), counts)
    turned = swapped(pairs)
    swap = turned.labels == SWAPPED
    assert abs(swap.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(swap))
    np.testing.assert_array_equal(turned.first[swap], pairs.second[swap])
    np.testing.assert_array_equal(turned.second[swap], pairs.first[swap])
    np.testing.assert_array_equal(turned.first[~swap], pairs.first[~swap])
    assert (turned.labels[~swap] == IN_ORDER).all()


def test_the_boundary_of_segments_does_not_predict_their_order(counts):
    """Allows a segment to be longer by a piece, by chance."""
    turned = swapped(make_pairs(documents([9000]), options(short_seq_prob=0), counts))
    longer = np.diff(turned.first)[:, 0] - np.diff(turned.second)[:, 0]
    nearly_alike = np.abs(longer) == 1
    assert nearly_alike.sum() > 500
    is_guessed = (longer > 0) == (turned.labels == SWAPPED)
    assert abs(is_guessed[nearly_alike].mean() - 0.5) < 4 * 0.5 / np.sqrt(nearly_alike.sum())


def test_next_sentences_from_other_documents(counts):
    given = documents([60] * 40, longest=9)
    pairs = make_pairs(given, options(pair_task="nsp"), counts)
    edges = given.bounds[given.documents]
    first, second = (np.searchsorted(edges, segment[:, 0], side="right") for segment in pairs[1:3])
    other = first != second
    np.testing.assert_array_equal(pairs.labels == SWAPPED, other)
    assert abs(other.mean() - 0.5) < 0.08
    assert len(np.unique(second[other])) == 40
    nothing_lost = np.unique(np.concatenate([np.arange(*row) for row in pairs.first.tolist()]))
    assert len(nothing_lost) > 0.5 * given.bounds[-1]
    alone = make_pairs(documents([30]), options(pair_task="nsp"), counts)
    assert len(alone.labels) and (alone.labels == IN_ORDER).all()


def test_cuts_come_from_the_longer_segment(counts):
    """Cuts piece by piece, at random if both are equally long, as many as the original."""
    given = documents([2] * 300, longest=ROOM)
    pairs = make_pairs(given, options(short_seq_prob=0), counts)
    fronts = turned = 0
    for row, number in enumerate(np.searchsorted(given.bounds, pairs.first[:, 0], "right") - 1):
        lengths = np.diff(given.bounds[number : number + 3]).tolist()
        if number % 2 or len(lengths) < 2 or pairs.second[row, 1] <= given.bounds[number + 1]:
            continue
        tied = False
        while sum(lengths) > ROOM:
            tied |= lengths[0] == lengths[1]
            lengths[0 if lengths[0] > lengths[1] else 1] -= 1
        found = [int(np.diff(segment[row])[0]) for segment in (pairs.first, pairs.second)]
        assert found in ([lengths, lengths[::-1]] if tied else [lengths])
        fronts += pairs.first[row, 0] > given.bounds[number]
        turned += found != lengths
    assert fronts > 20
    assert turned > 10
