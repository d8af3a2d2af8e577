import json
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining import masking, numpy_ops, rng, tf_ops
from albert_tf.data.pretraining.masking import (
    Unmasked,
    WordTable,
    as_rows,
    mask,
    word_starts,
    word_table,
)
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.pairs import Pairs
from albert_tf.tasks import IGNORED
from albert_tf.text.tokenizer import AlbertTokenizer

SEED = int(os.environ["ALBERT_TF_SEED"])
LENGTH, VOCABULARY = 37, 61
CHOICES = {
    "as published": {},
    "single words": {"ngram": 1},
    "longer n-grams": {"favor_shorter_ngram": False, "masked_lm_prob": 0.4},
    "pieces": {"do_whole_word_mask": False},
    "few predictions": {"max_predictions_per_seq": 3},
    "everything": {"masked_lm_prob": 0.9},
    "nothing": {"masked_lm_prob": 0.0},
}


@pytest.fixture
def table():
    starts = np.random.default_rng(1).random(VOCABULARY) < 0.6
    return WordTable(starts, np.arange(5, VOCABULARY, dtype=np.int32), 0, 2, 3, 4)


def options(**given):
    return ExampleOptions(**{"max_seq_length": LENGTH, **given})


def keys(count):
    return rng.fold_in(rng.key(SEED), np.arange(count))


def random_rows(count):
    """Returns rows of random pieces with at least one in each segment."""
    generator = np.random.default_rng(SEED)
    lengths = generator.integers(5, LENGTH + 1, count)
    first = 3 + (generator.random(count) * (lengths - 4)).astype(int)
    ids = generator.integers(5, VOCABULARY, (count, LENGTH)).astype(np.int32)
    at = np.arange(LENGTH)
    ids[:, 0] = 2
    ids[(at == first[:, None] - 1) | (at == lengths[:, None] - 1)] = 3
    ids[at >= lengths[:, None]] = 0
    return Unmasked(ids, lengths.astype(np.int32), first.astype(np.int32))


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
    wanted = wanted if options.masked_lm_prob else 0
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
    given, rows = options(**CHOICES[choice]), random_rows(100)
    masked = mask(rows, keys(100), table, given)
    for row in range(100):
        one = (*(each[row] for each in rows), keys(100)[row])
        ids, positions, labels = plainly(*one, table, given)
        missing = given.predictions - len(labels)
        assert masked.ids[row].tolist() == ids
        assert masked.positions[row].tolist() == positions + [0] * missing
        assert masked.labels[row].tolist() == labels + [IGNORED] * missing
    assert ((masked.labels != IGNORED).sum(1).max() > 1) == (choice != "nothing")


@pytest.mark.parametrize("choice", [*CHOICES, "equal draws"])
def test_tensorflow_masks_as_numpy_does(choice, table, monkeypatch):
    """test_batches.py compares the published choice in a graph."""
    given, rows = options(**CHOICES.get(choice, {})), random_rows(40)
    if choice == "equal draws":
        monkeypatch.setattr(masking.rng, "MANTISSA", 0.0)
    expected = mask(rows, keys(40), table, given)
    found = mask(Unmasked(*map(tf.constant, rows)), tf.constant(keys(40)), table, given, tf_ops)
    for name, one, other in zip(expected._fields, expected, found, strict=True):
        assert one.dtype == other.dtype.as_numpy_dtype == np.int32, name
        np.testing.assert_array_equal(one, other, err_msg=name)


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


@pytest.mark.parametrize(
    ("rule", "begin", "go_on"),
    [
        (
            "original",
            ["▁the", "▁", ".", ",", "-", "'", "1912", "5%", "é", "<unk>", "£", "?'"],
            ["ing", "s", "th", "B", "e-", ".com"],
        ),
        (
            "spaces",
            ["▁про", "▁", ".", ",", "£", "?'", "第", "の", "ガス", "ก", "▁đại", "ក"],
            ["ing", "ют", "é", "ст-", "1912", "5%", "ей.", "्या", "ा", "้า", "가", "ιών"],
        ),
        ("wordpiece", ["[PAD]", "the", ".", "中"], ["##ing", "##s"]),
    ],
)
def test_pieces_that_begin_a_word(rule, begin, go_on):
    assert word_starts(begin, rule).all()
    assert not word_starts(go_on, rule).any()


def test_the_published_vocabulary(golden, published_vocabulary):
    """Compares each piece with the original's function."""
    listing = json.loads((golden / "F_pretraining_data/is_start_piece.json").read_text("utf-8"))
    tokenizer = AlbertTokenizer(published_vocabulary)
    table = word_table(tokenizer)
    assert table.rule == "original"
    starts = table.starts
    # Ids that the references lack have private-use characters as pieces.
    pieces = tokenizer.convert_ids_to_tokens(range(len(starts)))
    known = {number for number, piece in enumerate(pieces) if piece < chr(0x100000)}
    assert len(known) > 2900
    expected = known & set(listing["non_start_piece_ids"])
    assert known & set(np.flatnonzero(~starts).tolist()) == expected


def test_no_special_piece_is_drawn_at_random(tiny_tokenizer):
    table = word_table(tiny_tokenizer)
    assert table.random_ids.tolist() == list(range(5, tiny_tokenizer.vocab_size))
    assert table[2:] == (0, 2, 3, 4, "spaces")
    assert table.starts[tiny_tokenizer.unk_token_id]


def test_a_table_as_json(tiny_tokenizer):
    table = word_table(tiny_tokenizer)
    stored = json.loads(json.dumps(table.as_json()))
    read = WordTable.from_json(stored)
    for name, one, other in zip(table._fields, table, read, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert read.starts.dtype == bool and read.random_ids.dtype == np.int32
    del stored["rule"]  # as build-data wrote it before
    assert WordTable.from_json(stored).rule == "original"
