import functools
import json

import pytest

from albert_tf.commands.sizes import NAMES
from albert_tf.models import AlbertForTokenClassification, AlbertModel


@pytest.fixture
def run(run):
    return functools.partial(run, "sizes")


@pytest.fixture
def report(run):
    return lambda *arguments: json.loads(run(*arguments, "--json")[1])


def test_every_size(run):
    status, output, _ = run()
    assert status == 0
    rows = [line.split() for line in output.splitlines()]
    for row in (
        "base 128 768 12 12 3072 all 11,683,584 89M",
        "large 128 1024 24 16 4096 all 17,683,968 307M",
        "xlarge 128 2048 24 16 8192 all 58,724,864 1216M",
        "xxlarge 128 4096 12 64 16384 all 222,595,584 2437M",
    ):
        assert row.split() in rows
    assert max(map(len, output.splitlines())) <= 100


def test_memory(report):
    arguments = ("--model", "base", "--batch-size", 7, "--max-length", 50)
    base = report(*arguments)["models"][0]
    assert base["weights_bytes"] == {
        "float32": 4 * 11_683_584,
        "float16": 2 * 11_683_584,
        "int8": 11_683_584,
    }
    training = base["training_bytes"]
    assert training["weights"] + training["gradients"] + training["slots"] == 16 * 11_683_584
    assert training["total"] == sum(training.values()) - training["total"]
    # 7 rows of 50, 12 layers of 8 H + 2 I + A·T numbers, and two of width E.
    numbers = 7 * 50 * (12 * (8 * 768 + 2 * 3072 + 12 * 50) + 2 * 128)
    assert training["activations"] == 4 * numbers
    smaller = report(*arguments, "--gradient-checkpointing")["models"][0]["training_bytes"]
    assert smaller["activations"] < training["activations"] / 7
    assert smaller["waiting"] == training["waiting"] > 0


def test_dropout_takes_memory(report):
    with_dropout, without = (
        report("--model", name)["models"][0]["training_bytes"]["activations"]
        for name in ("base-v1", "base-v2")
    )
    assert with_dropout > without


@pytest.mark.parametrize("form", ["directory", "file", "google"])
def test_a_model_on_disk(report, run, small_config, tmp_path, form):
    """The default length is the model's limit, where that is less than 128."""
    path = tmp_path / "model"
    AlbertForTokenClassification(small_config).save_pretrained(path)
    if form == "file":
        path = path / "config.json"
    if form == "google":
        path = tmp_path / "albert_config.json"
        names = ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers")
        names += ("num_attention_heads", "intermediate_size", "max_position_embeddings")
        path.write_text(json.dumps({name: getattr(small_config, name) for name in names}))
    found = report("--model", path)
    assert found["max_length"] == small_config.max_position_embeddings < 128
    (counted,) = found["models"]
    assert (counted["name"], counted["hidden_size"], counted["share"]) == (str(path), 20, "all")
    assert counted["parameters"] == AlbertModel(small_config).count_params()
    assert f"{counted['parameters']:,}" in run("--model", path)[1]


def test_mistakes(run, tmp_path):
    for arguments, message in (
        (("--batch-size", 0), "batch_size must be 1 or more. Received: 0."),
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
    assert names == [name for name in NAMES if name != "tiny"]
