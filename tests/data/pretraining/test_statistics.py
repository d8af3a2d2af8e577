import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.pretraining.examples import ExampleMaker
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.records import decode
from albert_tf.data.pretraining.statistics import statistics
from albert_tf.text.tokenizer import AlbertTokenizer

RUNS = 10
# Flag sets of the golden statistics; True where lengths agree too. Elsewhere the original adds
# text of another document to a remaining sentence, under a wrong label.
FLAGS = {
    "default_ngram3_wwm": False,
    "ngram1_no_wwm": False,
    "ngram3_wwm_favor_longer": False,
    "seq512_pred77": False,
    "random_next_sentence": True,
}


def examples_of(maker, passages, copies):
    for copy in copies:
        for _, record in maker.records(passages, copy, Counter()):
            yield decode(record)


def measured(examples, longest):
    """Returns statistics under the golden file's names."""
    examples = list(examples)
    found = statistics(examples, mask_id=4)
    lengths = np.array([sum(example["input_mask"]) for example in examples])
    return {
        "instances": found["examples"],
        "length mean": lengths.mean(),
        "shorter": (lengths < longest).mean(),
        "shorter than half": (lengths < longest / 2).mean(),
        "predictions": found["predictions"],
        "predicted": found["predicted"],
        "label 1": found["labels"].get("swapped", 0) / found["examples"],
        **found["replaced"],
        **{f"runs of {length}": found["runs"].get(length, 0) for length in range(1, 6)},
    }


def expected(golden, with_lengths):
    lengths = golden["token_length"]
    label = "label_1_share" if with_lengths else "label_1_share_among_same_document_pairs"
    result = {"instances": golden["instances"], "label 1": golden[label]}
    result |= golden["replacement"]
    runs = golden["contiguous_masked_run_length"]
    result |= {f"runs of {length}": runs.get(str(length), 0) for length in range(1, 6)}
    if with_lengths:
        result |= {
            "length mean": lengths["mean"],
            "shorter": lengths["share_shorter_than_max_seq_length"],
            "shorter than half": lengths["share_shorter_than_half"],
            "predictions": golden["masked_per_instance"]["mean"],
            "predicted": golden["fraction_masked"]["of_all_tokens_incl_CLS_SEP"],
        }
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", FLAGS)
def test_statistics_agree_with_a_run_of_the_original(name, golden, published_vocabulary):
    """Expects each number of the original's run within four standard deviations of ten of our runs.

    All runs have the same size, 900 passes over documents, so that the spread of our runs is the
    sampling error of the original's. Our runs make over 20,000 examples (10,000 of 512 pieces).
    """
    folder = golden / "F_pretraining_data"
    its = json.loads((folder / "statistics.json").read_text("utf-8"))[name]
    text = (folder / "synthetic_corpus.txt").read_bytes()
    documents = [
        Document("corpus", number, part) for number, part in enumerate(text.strip().split(b"\n\n"))
    ]
    flags = {key: value for key, value in its["flags"].items() if key != "do_lower_case"}
    task = "nsp" if flags.pop("random_next_sentence") else "sop"
    options = ExampleOptions(mode="static", pair_task=task, **flags)
    maker = ExampleMaker(
        AlbertTokenizer(published_vocabulary),
        options,
        lambda document: document.text.decode().split("\n"),
    )
    passages = maker.read(documents, Counter())
    copies, passes = iter(range(10**6)), options.dupe_factor
    assert passes * len(documents) == its["document_passes"]
    runs = [
        measured(examples_of(maker, passages, islice(copies, passes)), options.max_seq_length)
        for _ in range(RUNS)
    ]
    assert sum(run["instances"] for run in runs) > 10_000 + 10_000 * (options.max_seq_length < 512)
    for what, value in expected(its, FLAGS[name]).items():
        ours = [run[what] for run in runs]
        assert abs(value - np.mean(ours)) < 4 * np.std(ours, ddof=1), what


def test_numbers_of_masked_examples():
    example = {
        "input_ids": [2, 4, 9, 3, 17, 8, 3, 0, 0, 0],
        "input_mask": [1] * 7 + [0] * 3,
        "segment_ids": [0] * 5 + [1] * 2 + [0] * 3,
        "masked_lm_positions": [1, 2, 4, 0],
        "masked_lm_ids": [6, 9, 7, 0],
        "masked_lm_weights": [1.0, 1.0, 1.0, 0.0],
        "next_sentence_labels": [1],
    }
    other = example | {"input_mask": [1] * 10, "next_sentence_labels": [0]}
    assert statistics([example, other, other], mask_id=4) == {
        "examples": 3,
        "labels": {"in order": 2, "swapped": 1},
        "length": {"mean": 9.0, "min": 7, "max": 10},
        "short": 0.0,
        "told_by_lengths": pytest.approx(2.5 / 3),  # ties cannot be predicted
        "padding": pytest.approx(0.1),
        "predictions": 3.0,
        "predicted": pytest.approx(1 / 3),
        "replaced": {"mask": 1 / 3, "random": 1 / 3, "kept": 1 / 3},
        "runs": {1: 0.5, 2: 0.5},
    }


def test_words_in_a_run():
    """The last run begins amid a word, as a second segment may."""
    example = {
        "input_ids": [2, 4, 4, 4, 4, 8, 3, 4, 4, 3],
        "input_mask": [1] * 10,
        "token_boundary": [1, 1, 0, 1, 0, 1, 1, 0, 1, 1],
        "segment_ids": [0] * 7 + [1] * 3,
        "masked_lm_positions": [1, 2, 3, 4, 7, 8],
        "masked_lm_ids": [6, 9, 7, 8, 9, 9],
        "masked_lm_weights": [1.0] * 6,
        "next_sentence_labels": [1],
    }
    one_word = example | {"masked_lm_weights": [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]}
    found = statistics([example, one_word, one_word], mask_id=4)
    assert found["words_per_run"] == {1: 0.5, 2: 0.5}


def test_numbers_of_segments():
    example = {"segment_a": [9, 9], "segment_b": [7], "next_sentence_labels": [-100]}
    assert statistics([example], mask_id=4) == {
        "examples": 1,
        "labels": {"none": 1},
        "length": {"mean": 6.0, "min": 6, "max": 6},
        "short": 0.0,
    }


@pytest.mark.parametrize(
    ("pairs", "share"),
    [
        ([(5, 4, 0)] * 20, 1.0),  # swapped by the reader
        ([(5, 4, 0), (5, 4, 0), (4, 5, 0), (4, 5, 0)] * 20, 0.5),
        ([(5, 5, 0)] * 20, 0.5),
        ([(5, 4, 0), (5, 4, 0), (5, 4, 1), (5, 4, 1)] * 20, 0.5),
        ([(3, 4, 0), (3, 4, 0), (9, 4, 1), (9, 4, 1)] * 20, 1.0),
        (([(4, 4, 0)] * 5 + [(4, 4, 1)]) * 20, 5 / 6),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_the_share_of_labels_that_lengths_predict(pairs, share, masked):
    examples = [
        {
            "input_ids": [0] * 20,
            "input_mask": [1] * (first + second + 3),
            "segment_ids": [0] * (first + 2) + [1] * (second + 1),
            "masked_lm_positions": [1],
            "masked_lm_ids": [6],
            "masked_lm_weights": [1.0],
            "next_sentence_labels": [label],
        }
        if masked
        else {"segment_a": [9] * first, "segment_b": [9] * second, "next_sentence_labels": [label]}
        for first, second, label in pairs
    ]
    assert statistics(examples, mask_id=4)["told_by_lengths"] == pytest.approx(share)


def test_numbers_of_nothing():
    assert statistics([], mask_id=4) == {"examples": 0}
