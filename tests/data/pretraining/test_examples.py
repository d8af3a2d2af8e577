from collections import Counter

import numpy as np
import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.pretraining.examples import ExampleMaker, as_passages
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.records import decode
from tests.conftest import SENTENCES

LENGTH = 48


def documents(count):
    generator = np.random.default_rng(11)
    return [
        Document("a.txt", 100 * number, "\n".join(generator.choice(SENTENCES, size)).encode())
        for number, size in enumerate(generator.integers(1, 30, count).tolist())
    ]


def lines(document):
    return document.text.decode().split("\n")


@pytest.fixture
def make(tiny_tokenizer):
    def maker(**options):
        given = {"max_seq_length": LENGTH, "mode": "static", **options}
        return ExampleMaker(tiny_tokenizer, ExampleOptions(**given), lines)

    return maker


def records(maker, given, copy=0):
    counts = Counter()
    return list(maker.records(maker.read(given, counts), copy, counts)), counts


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_the_records_of_a_document_depend_on_it_alone(make, mode):
    maker, given = make(mode=mode), documents(60)
    together, _ = records(maker, given)
    assert together == [record for one in given for record in records(maker, [one])[0]]
    assert len({rank for rank, _ in together}) == len(together)


def test_draws_depend_on_name_copy_and_seed(make):
    (document,) = documents(1)
    maker = make()
    own, _ = records(maker, [document])
    for other in (
        records(maker, [document._replace(offset=7)])[0],
        records(maker, [document._replace(source="b.txt")])[0],
        records(maker, [document], copy=1)[0],
        records(make(random_seed=9), [document])[0],
    ):
        assert {rank for rank, _ in own}.isdisjoint(rank for rank, _ in other)
        assert [record for _, record in own] != [record for _, record in other]


def test_masked_records_have_the_original_s_features(make, tiny_tokenizer):
    found, counts = records(make(), documents(40))
    examples = [decode(record) for _, record in found]
    assert counts["examples"] == len(examples) > 100
    places = {"input_ids", "input_mask", "segment_ids", "token_boundary"}
    predictions = {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
    for example in examples:
        assert example.keys() == {*places, *predictions, "next_sentence_labels"}
        assert {len(example[name]) for name in places} == {LENGTH}
        assert {len(example[name]) for name in predictions} == {7}
        assert len(example["next_sentence_labels"]) == 1
    assert counts["masked"] == sum(sum(example["masked_lm_weights"]) for example in examples)
    for example in examples:
        restored = np.array(example["input_ids"])
        count = int(sum(example["masked_lm_weights"]))
        restored[example["masked_lm_positions"][:count]] = example["masked_lm_ids"][:count]
        length = sum(example["input_mask"])
        first = length - sum(example["segment_ids"])
        assert np.flatnonzero(restored == tiny_tokenizer.sep_token_id).tolist() == [
            first - 1,
            length - 1,
        ]
        assert restored[0] == tiny_tokenizer.cls_token_id
        assert not restored[length:].any()
        assert example["token_boundary"][0] == example["token_boundary"][first - 1] == 1


def test_swapped_segments_are_in_the_other_order(make):
    """Returns the same pairs with the task of sentence order and without a task."""
    given = documents(40)
    plain = [decode(record) for _, record in records(make(pair_task="none"), given)[0]]
    drawn = [decode(record) for _, record in records(make(), given)[0]]
    labels = [example["next_sentence_labels"] for example in drawn]
    assert 0.3 < np.mean(labels) < 0.7
    assert all(example["next_sentence_labels"] == [-100] for example in plain)
    for one, other, (label,) in zip(plain, drawn, labels, strict=True):
        segments = [sum(each["segment_ids"]) for each in (one, other)]
        first = sum(one["input_mask"]) - segments[0]
        assert segments[1] == (first - 1 if label else segments[0])


def test_dynamic_segments_are_in_the_order_of_the_text(make):
    given = documents(40)
    stored = [decode(record) for _, record in records(make(mode="dynamic"), given)[0]]
    plain = [decode(record) for _, record in records(make(pair_task="none"), given)[0]]
    for segments, example in zip(stored, plain, strict=True):
        assert segments.keys() == {"segment_a", "segment_b", "next_sentence_labels"}
        assert segments["next_sentence_labels"] == [0]
        assert len(segments["segment_b"]) + 1 == sum(example["segment_ids"])
        assert len(segments["segment_a"]) + len(segments["segment_b"]) <= LENGTH - 3


def test_special_tokens_in_texts_are_plain_text(make, tiny_tokenizer):
    document = Document("a", 0, b"A boat [MASK] and [SEP] a film.\nThe [CLS] room smelled.")
    ((_, record),), _ = records(make(mode="dynamic"), [document])
    example = decode(record)
    assert not set(example["segment_a"] + example["segment_b"]) & {0, 2, 3, 4}


def test_counts(make):
    given = [
        Document("a", 0, b"A warm story."),
        Document("a", 50, "\n".join(SENTENCES * 9).encode()),
        Document("a", 9999, b" \n "),
    ]
    found, counts = records(make(), given)
    assert counts["examples"] == len(found)
    assert counts["empty_documents"] == 1
    assert counts["sentences"] == 1 + 8 * 9 + 2
    assert counts["tokens"] > 500
    assert not records(make(), [])[0]


STARTS = np.array([True, True, False, True, True, False])  # of ids 0 … 5


def arrays(*sentences):
    return [np.array(sentence, np.int32) for sentence in sentences]


def test_documents_in_one_call():
    counts = Counter()
    sentences = arrays([1, 2, 2], [3], [], [4, 5])
    whole = as_passages([7, 8, 9], [2, 1, 1], sentences, STARTS, 10, counts)
    assert whole.keys.tolist() == [7, 9]
    assert whole.ids.tolist() == [1, 2, 2, 3, 4, 5]
    assert whole.starts.tolist() == [True, False, False, True, True, False]
    assert whole.bounds.tolist() == [0, 3, 4, 6]
    assert whole.documents.tolist() == [0, 2, 3]
    assert counts == {"tokens": 6, "empty_documents": 1}


def test_a_sentence_begins_with_a_word():
    counts = Counter()
    whole = as_passages([7], [2], arrays([2, 2], [5, 2]), STARTS, 10, counts)
    assert whole.starts.tolist() == [True, False, True, False]


def test_long_sentences_are_cut_between_words():
    counts = Counter()
    sentences = arrays([3], [1, 2, 3, 4, 5, 3, 2, 2, 2, 2, 2, 3], [4])
    whole = as_passages([7, 8], [2, 1], sentences, STARTS, 4, counts)
    assert whole.bounds.tolist() == [0, 1, 4, 6, 10, 13, 14]  # a word of six pieces is cut too
    assert whole.documents.tolist() == [0, 5, 6]
    assert whole.starts[whole.bounds[:-1]].all()
    assert counts["long_sentences"] == 1
    assert counts["tokens"] == 14


def test_no_piece_at_all():
    counts = Counter()
    whole = as_passages([7], [0], [], STARTS, 4, counts)
    assert [len(array) for array in whole] == [0, 0, 0, 1, 1]
    assert counts["empty_documents"] == 1
