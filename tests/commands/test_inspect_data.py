import functools
import json
import os
import re
import subprocess
import sys

import pytest

from albert_tf.data.jobs.run import build_data
from albert_tf.data.pretraining.records import encode, frame
from tests.conftest import SENTENCES


@pytest.fixture
def run(run):
    return functools.partial(run, "inspect-data")


@pytest.fixture
def folder(tiny_tokenizer, tmp_path):
    """Returns a folder of build-data with some hundred examples."""
    (tmp_path / "vocabulary").mkdir()
    tiny_tokenizer.save_pretrained(tmp_path / "vocabulary")
    (tmp_path / "a.txt").write_text("\n\n".join(["\n".join(SENTENCES * 3)] * 60), "utf-8")
    build_data(
        input=str(tmp_path / "a.txt"),
        output=str(tmp_path / "examples"),
        vocab=str(tmp_path / "vocabulary"),
        max_seq_length=40,
        workers=1,
    )
    return tmp_path / "examples"


def listing(output):
    """Returns the counts at the end of the output by name."""
    lines = output[output.index("examples  ") :].splitlines()
    return dict(re.split("  +", line.strip(), maxsplit=1) for line in lines)


def test_examples_of_build_data(run, folder):
    status, output, _ = run(folder, "--examples", 20)
    assert status == 0
    shown = re.findall(
        r"^example (\d+): (in order|swapped), (\d+) tokens\n  A  (.*)\n  B  (.*)\n\n",
        output,
        re.MULTILINE,
    )
    assert [int(number) for number, *_ in shown] == [*range(20)]
    assert {label for _, label, *_ in shown} == {"in order", "swapped"}
    for _, _, length, first, second in shown:
        tokens = re.sub(r"\{(\S+) → \S+\}", r"\1", f"{first} {second}").split(" ")
        assert len(tokens) == int(length) <= 40
        assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]" and first.endswith("[SEP]")
        assert f"{first} {second}".count(" → ") == max(1, round(0.15 * len(tokens)))
        assert not {"[PAD]", "<pad>", "[MASK]"} & {*tokens}
    counts = listing(output)
    number = {
        name: int(counts[name].replace(",", "")) for name in ("in order", "swapped", "examples")
    }
    assert number["in order"] + number["swapped"] == number["examples"] > 300
    assert float(counts["predicted"].split("%")[0]) == pytest.approx(15, abs=1)
    shares = [float(counts[name].split("%")[0]) for name in ("masked", "unchanged", "random")]
    assert shares == pytest.approx([80, 10, 10], abs=4)
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_the_original_s_file(run, golden, published_vocabulary):
    path = golden / "F_pretraining_data/sample_seq64_pred10.tfrecord"
    instances = json.loads(path.with_suffix(".json").read_text("utf-8"))["instances"]
    output = run(path, "--vocab", published_vocabulary, "--examples", 150)[1]
    shown = re.findall(r"^example \d+: (.*?), \d+ tokens\n  A  (.*)\n  B  (.*)\n", output, re.M)
    for (label, *segments), instance in zip(shown, instances, strict=True):
        after = re.sub(r"\{\S+ → (\S+)\}", r"\1", " ".join(segments)).split(" ")
        assert after == instance["tokens"]
        assert (label == "swapped") == instance["is_random_next"]
    assert listing(output)["examples"] == "150"


def test_mistakes(run, folder, golden, tmp_path):
    records = golden / "F_pretraining_data/sample_seq64_pred10.tfrecord"
    empty = tmp_path / "empty"
    empty.mkdir()
    text = tmp_path / "other.tfrecord"
    text.write_bytes(b"a text")
    other = tmp_path / "x.tfrecord"
    other.write_bytes(frame(encode({"label": [1], "x": [2]})))
    for arguments, message in (
        ((folder, "--examples", "-1"), "examples must be 0 or more. Received: -1."),
        ((records,), "need --vocab"),
        ((records, "--vocab", folder), "Records must be"),
        ((empty,), "matches no file"),
        ((tmp_path / "none",), "matches no file"),
        ((text,), "record 0 of"),
        ((other,), "with label, x."),
    ):
        status, _, errors = run(*arguments)
        assert status == 2
        assert message in errors


def test_no_vocabulary(run, folder):
    (folder / "spiece.model").unlink()
    status, _, errors = run(folder)
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
