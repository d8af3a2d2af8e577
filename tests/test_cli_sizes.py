import json
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.commands import size_tables
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForTokenClassification

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def run(capsys):
    """A function that runs `albert-tf sizes` in this process: its status, output and errors."""

    def main(*arguments):
        status = cli.main(["sizes", *map(str, arguments)])
        return status, *capsys.readouterr()

    return main


@pytest.fixture
def report(run):
    return lambda *arguments: json.loads(run(*arguments, "--json")[1])


def test_every_size(run):
    status, output, _ = run()
    assert status == 0
    cells = {line.split()[0]: line.split() for line in output.splitlines() if line.split()}
    assert cells["base"][0] == "base"
    rows = [line.split() for line in output.splitlines()]
    for row in (
        "base 128 768 12 12 3072 all 11,683,584 12M 89M",
        "large 128 1024 24 16 4096 all 17,683,968 18M 307M",
        "xlarge 128 2048 24 16 8192 all 58,724,864 60M 1216M",
        "xxlarge 128 4096 12 64 16384 all 222,595,584 235M 2437M",
    ):
        assert row.split() in rows
    assert max(map(len, output.splitlines())) <= 100


def test_tables_of_the_paper(report):
    """Every figure within 2 % of the paper's, the rounding of small ones aside."""
    found = report()
    assert len(found["table_3"]) == len(found["table_4"]) == 8
    for row in found["table_3"] + found["table_4"]:
        parameters = row["parameters"]
        if row["embedding_size"] == 768:
            parameters -= 590_592  # the original has no projection there
        assert abs(parameters / 1e6 - row["paper_millions"]) < 1.1, row
    twice = [row for row in found["table_3"] if row in found["table_4"]]
    assert len(twice) == 4  # E = 128 and E = 768, all shared and not shared


def test_memory(report):
    base = report("--model", "base", "--batch-size", 7, "--max-length", 50)["models"][0]
    assert base["weights_bytes"] == {
        "float32": 4 * 11_683_584,
        "float16": 2 * 11_683_584,
        "int8": 11_683_584,
    }
    training = base["training_bytes"]
    assert training["weights"] + training["gradients"] + training["slots"] == 16 * 11_683_584
    assert training["total"] == sum(training.values()) - training["total"]
    # 7 rows of 50, 12 layers of 10 H + 5 I + A·T numbers, and three of width E.
    numbers = 7 * 50 * (12 * (10 * 768 + 5 * 3072 + 12 * 50) + 3 * 128)
    assert training["activations"] == 4 * numbers
    smaller = report(
        "--model", "base", "--batch-size", 7, "--max-length", 50, "--gradient-checkpointing"
    )["models"][0]["training_bytes"]
    assert smaller["activations"] < training["activations"] / 8
    assert smaller["waiting"] == training["waiting"] > 0


def test_dropout_takes_memory(report):
    with_dropout, without = (
        report("--model", name)["models"][0]["training_bytes"]["activations"]
        for name in ("base-v1", "base-v2")
    )
    assert with_dropout > without


@pytest.mark.parametrize("form", ["directory", "file", "google"])
def test_a_model_of_ones_own(report, run, small_config, tmp_path, form):
    model = AlbertForTokenClassification(small_config)
    path = tmp_path / "model"
    model.save_pretrained(path)
    if form == "file":
        path = path / "config.json"
    if form == "google":
        path = tmp_path / "albert_config.json"
        path.write_text(
            json.dumps(
                {
                    "vocab_size": 31,
                    "hidden_size": 20,
                    "embedding_size": 6,
                    "num_attention_heads": 5,
                    "num_hidden_layers": 3,
                    "intermediate_size": 24,
                    "max_position_embeddings": 11,
                }
            )
        )
    found = report("--model", path, "--max-length", 7)
    counted = found["models"][0]
    assert (counted["name"], counted["hidden_size"], counted["share"]) == (str(path), 20, "all")
    assert "table_3" not in found
    if form != "google":
        assert found["with_heads"]["AlbertForTokenClassification"] == model.count_params()
    status, output, _ = run("--model", path, "--max-length", 7)
    assert status == 0
    assert f"{counted['parameters']:,}" in output
    assert "AlbertForTokenClassification" in output


def test_mistakes(run, tmp_path):
    for arguments, message in (
        (("--batch-size", 0), "batch_size must be 1 or more. Received: 0."),
        (("--max-length", -3), "max_length must be 1 or more. Received: -3."),
        (("--max-length", 513), "max_position_embeddings, 512. Received: 513."),
        (("--model", "tiny", "--max-length", 129), "max_position_embeddings, 128."),
        (("--model", tmp_path), "Received"),
        (("--model", "bass"), "Received: bass"),
    ):
        status, output, errors = run(*arguments)
        assert (status, output) == (2, "")
        assert message in errors
        assert errors.count("\n") == 1


def test_models_too_short_are_left_out(report):
    names = [model["name"] for model in report("--max-length", 512)["models"]]
    assert names == [*size_tables.PAPER, "mini"]


@pytest.mark.slow
def test_takes_no_memory(tmp_path):
    """xxlarge without sharing would be 9.8 GB."""
    config = AlbertConfig.from_size("xxlarge", share="none")
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    code = "import resource, sys; from albert_tf import cli; "
    code += "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
    code += "assert cli.main(sys.argv[1:]) == 0; "
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    command = [sys.executable, "-c", code, "sizes", "--model", str(tmp_path / "config.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "2,437,773,824" in done.stdout
    assert int(done.stdout.splitlines()[-1]) < 1.5e6  # kB; TensorFlow itself takes 0.7 GB


def test_the_default_length_is_the_models_if_that_is_shorter(report, small_config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(small_config.to_dict()))
    found = report("--model", tmp_path)
    assert found["max_length"] == small_config.max_position_embeddings < 128
    assert report("--model", "base")["max_length"] == 128
