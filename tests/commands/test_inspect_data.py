import functools
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict

import pytest

from albert_tf.commands.inspect_data import statistics
from albert_tf.data.corpus.documents import Document
from albert_tf.data.pretraining.examples import ExampleMaker
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.records import encode, frame
from tests.conftest import SENTENCES


@pytest.fixture
def run(run):
    return functools.partial(run, "inspect-data")


@pytest.fixture
def folder(tiny_tokenizer, tmp_path):
    """Returns a function from a mode to a folder with two files of records and the vocabulary."""

    def make(mode):
        options = ExampleOptions(max_seq_length=40, mode=mode)
        maker = ExampleMaker(tiny_tokenizer, options, lambda one: one.text.decode().split("\n"))
        folder = tmp_path / mode
        folder.mkdir()
        tiny_tokenizer.save_pretrained(folder)
        for number in range(2):
            document = Document("a", number, "\n".join(SENTENCES * 3).encode())
            passages = maker.read([document], Counter())
            records = [record for _, record in maker.records(passages, 0, Counter())]
            path = folder / f"examples-{number:05d}-of-00002.tfrecord"
            path.write_bytes(b"".join(map(frame, records)))
        return folder

    return make


def test_masked_examples(run, folder, tiny_tokenizer):
    status, output, _ = run(folder("static"), "--json", "--examples", 4)
    assert status == 0
    report = json.loads(output)
    assert len(report["examples"]) == 4
    assert report["statistics"]["examples"] > 20
    for example in report["examples"]:
        assert example["label"] in ("in order", "swapped")
        assert example["pieces"] == len(example["segment_a"] + example["segment_b"])
        assert example["segment_a"][0] == "[CLS]"
        assert example["segment_a"][-1] == example["segment_b"][-1] == "[SEP]"
        marked = [piece for piece in example["segment_a"] + example["segment_b"] if "→" in piece]
        assert marked
        before = [piece[1:-1].split(" → ")[0] for piece in marked]
        assert not set(tiny_tokenizer.convert_tokens_to_ids(before)) & {0, 1, 2, 3, 4}


def test_the_listing(run, folder):
    status, output, _ = run(folder("static") / "examples-00001-of-00002.tfrecord")
    assert status == 0
    lines = output.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("record")] == [
        "record 0",
        "record 1",
        "record 2",
    ]
    assert lines[1].startswith("  A  [CLS] ")
    assert " → [MASK]}" in output
    [replaced] = [line for line in lines if line.startswith("replaced")]
    assert replaced.split()[1] == "mask" and replaced.split()[2].startswith(("7", "8"))
    places = {line.index(line.split("  ", 1)[1].strip()) for line in lines[-4:]}
    assert len(places) == 1, lines[-4:]  # the numbers begin at the same place


def test_dynamic_examples(run, folder):
    status, output, _ = run(folder("dynamic"), "--examples", 1, "--skip", 2)
    assert status == 0
    assert output.startswith("record 2: in order, ")
    assert "→" not in output
    assert "replaced" not in output


def test_dynamic_examples_are_masked_as_in_an_epoch(run, folder, tiny_tokenizer):
    """The manifest beside them has the options."""
    path = folder("dynamic")
    settings = {"examples": asdict(ExampleOptions(max_seq_length=40))}
    (path / "manifest.json").write_text(json.dumps({"settings": settings, "shards": []}))
    report = json.loads(run(path, "--json", "--examples", 20)[1])
    for example in report["examples"]:
        shown = example["segment_a"] + example["segment_b"]
        assert example["pieces"] == len(shown) <= 40
        marked = [piece for piece in shown if "→" in piece]
        assert len(marked) == max(1, round(0.15 * len(shown)))
    numbers = report["statistics"]
    assert numbers["predicted"] == pytest.approx(0.15, abs=0.01)
    assert numbers["replaced"]["mask"] == pytest.approx(0.8, abs=0.08)
    assert sum(numbers["words_per_run"].values()) == pytest.approx(1)
    assert numbers["words_per_run"]["1"] > numbers["words_per_run"]["2"] > 0.1
    # The masked text is the one that is shown without masks.
    before = [piece[1:-1].split(" → ")[0] if "→" in piece else piece for piece in shown]
    (path / "manifest.json").unlink()
    plain = json.loads(run(path, "--json", "--examples", 20)[1])["examples"][-1]
    assert before == ["[CLS]", *plain["segment_a"], "[SEP]", *plain["segment_b"], "[SEP]"]


def test_the_original_s_file(run, golden, published_vocabulary):
    path = golden / "F_pretraining_data/sample_seq64_pred10.tfrecord"
    listing = json.loads(path.with_suffix(".json").read_text("utf-8"))["instances"]
    arguments = (path, "--vocab", published_vocabulary, "--json", "--examples", 150)
    report = json.loads(run(*arguments)[1])
    for example, instance in zip(report["examples"], listing, strict=True):
        shown = example["segment_a"] + example["segment_b"]
        after = [piece[1:-1].split(" → ")[1] if " → " in piece else piece for piece in shown]
        assert after == instance["tokens"]
        assert (example["label"] == "swapped") == instance["is_random_next"]


def test_a_negative_limit(run, tmp_path):
    status, _, errors = run(tmp_path, "--limit", "-1")
    assert status == 2
    assert "limit must be 0 or more. Received: -1." in errors


def test_no_examples(run, tmp_path):
    status, _, errors = run(tmp_path)
    assert status == 2
    assert "Examples must be a TFRecord file, or a folder of TFRecord files. Received: " in errors


def test_other_files(run, folder, tmp_path):
    path = folder("static") / "other.tfrecord"
    for content, message in (
        (b"a text", "record 0 of"),
        (frame(encode({"label": [1], "x": [2]})), "with label, x."),
        (frame(b"\xff\xff"), "with no features."),
        (frame(encode({"segment_a": [7], "segment_b": [9]})), "and no next_sentence_labels."),
        (
            frame(encode({"segment_a": [7], "segment_b": [9999], "next_sentence_labels": [0]})),
            "an id beyond its",
        ),
    ):
        path.write_bytes(content)
        status, _, errors = run(path)
        assert status == 2
        assert message in errors


def test_no_vocabulary(run, folder):
    path = folder("static")
    (path / "spiece.model").unlink()
    status, _, errors = run(path)
    assert status == 2
    assert "vocabulary" in errors


@pytest.mark.slow
def test_a_wordpiece_vocabulary_loads_tensorflow_quietly(tmp_path):
    letters = [f"{mark}{letter}" for letter in "abcdefghijklmnopqrstuvwxyz" for mark in ("", "##")]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *letters]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    (tmp_path / "a.txt").write_text("\n".join(SENTENCES * 9), encoding="utf-8")
    given = ("--input", "a.txt", "--vocab", "vocab.txt", "--output", "out")
    settings = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    for arguments in (("build-data", *given), ("inspect-data", "out")):
        command = [sys.executable, "-m", "albert_tf.cli", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


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
