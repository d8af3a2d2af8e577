import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from albert_tf.data.jobs.run import build_data
from albert_tf.data.pretraining.records import encode, frame
from tests.conftest import SENTENCES

SAMPLE = "F_pretraining_data/sample_seq64_pred10.tfrecord"


@pytest.fixture(scope="module")
def folder(tiny_vocabulary, tmp_path_factory):
    """Returns a folder of build-data with a hundred examples."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "spiece.model").write_bytes(tiny_vocabulary)
    (folder / "a.txt").write_text("\n\n".join(["\n".join(SENTENCES * 3)] * 12), "utf-8")
    build_data(
        input=str(folder / "a.txt"),
        output=str(folder / "out"),
        vocab=str(folder / "spiece.model"),
        max_seq_length=40,
        workers=1,
    )
    return folder / "out"


def shown_examples(output):
    """Returns the label, the length, and the two segments of each example."""
    pattern = r"^example \d+: (.*?), (\d+) tokens\n  A  (.*)\n  B  (.*)\n\n"
    return re.findall(pattern, output, re.MULTILINE)


def listing(output):
    """Returns the counts at the end of the output, keyed by name."""
    lines = output[output.index("examples  ") :].splitlines()
    return dict(re.split("  +", line.strip(), maxsplit=1) for line in lines)


def test_examples_of_build_data(run, folder):
    status, output, _ = run("inspect-data", folder, "--examples", 20)
    assert status == 0
    shown = shown_examples(output)
    assert len(shown) == 20
    assert {label for label, *_ in shown} == {"in order", "swapped"}
    for _, length, first, second in shown:
        tokens = re.sub(r"\{(\S+) → \S+\}", r"\1", f"{first} {second}").split(" ")
        assert len(tokens) == int(length) <= 40
        assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]" and first.endswith("[SEP]")
        assert f"{first} {second}".count(" → ") == max(1, round(0.15 * len(tokens)))
        assert not {"[PAD]", "<pad>", "[MASK]"} & {*tokens}


def test_the_original_s_file(run, golden, published_vocabulary):
    path = golden / SAMPLE
    instances = json.loads(path.with_suffix(".json").read_text("utf-8"))["instances"]
    output = run("inspect-data", path, "--vocab", published_vocabulary, "--examples", 150)[1]
    counts = Counter()
    for (label, _, *segments), instance in zip(shown_examples(output), instances, strict=True):
        tokens = instance["tokens"]
        assert re.sub(r"\{\S+ → (\S+)\}", r"\1", " ".join(segments)).split(" ") == tokens
        assert label == ("swapped" if instance["is_random_next"] else "in order")
        counts["tokens"] += len(tokens)
        for position, original in zip(
            instance["masked_lm_positions"], instance["masked_lm_labels"], strict=True
        ):
            counts["predicted"] += 1
            counts["masked"] += tokens[position] == "[MASK]"
            counts["unchanged"] += tokens[position] == original
    found = listing(output)
    assert found["examples"] == "150"
    assert found["predicted"] == f"{counts['predicted'] / counts['tokens']:.1%} of the tokens"
    for name in ("masked", "unchanged"):
        assert found[name] == f"{counts[name] / counts['predicted']:.1%} of these"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sample.tfrecord", "(--vocab)"),
        ("sample.tfrecord --vocab examples", "Invalid pretraining record"),
        ("empty", "'empty'"),
        ("text.tfrecord", "/text.tfrecord is damaged"),
        ("other.tfrecord", "with label, x."),
        ("without-vocabulary", "vocabulary"),
    ],
)
def test_mistakes(run, folder, golden, tmp_path, monkeypatch, line, message):
    monkeypatch.chdir(tmp_path)
    Path("sample.tfrecord").symlink_to(golden / SAMPLE)
    Path("examples").symlink_to(folder)
    Path("empty").mkdir()
    Path("text.tfrecord").write_bytes(b"a text")
    Path("other.tfrecord").write_bytes(frame(encode({"label": [1], "x": [2]})))
    shutil.copytree(folder, "without-vocabulary", ignore=shutil.ignore_patterns("spiece.model"))
    status, _, errors = run("inspect-data", *line.split())
    assert status == 2 and message in errors
