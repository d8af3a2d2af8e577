import functools
import json

import pytest

from albert_tf.models import AlbertForTokenClassification, AlbertModel


@pytest.fixture
def run(run):
    return functools.partial(run, "sizes")


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


@pytest.mark.parametrize("form", ["directory", "file", "google"])
def test_a_model_on_disk(run, small_config, tmp_path, form):
    path = tmp_path / "model"
    AlbertForTokenClassification(small_config).save_pretrained(path)
    if form == "file":
        path = path / "config.json"
    if form == "google":
        path = tmp_path / "albert_config.json"
        names = ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers")
        names += ("num_attention_heads", "intermediate_size", "max_position_embeddings")
        path.write_text(json.dumps({name: getattr(small_config, name) for name in names}))
    _, row, *_ = run("--model", path)[1].splitlines()
    parameters = AlbertModel(small_config).count_params()
    assert row.split()[:3] == [str(path), "6", "20"]
    assert row.split()[6:8] == ["all", f"{parameters:,}"]


def test_mistakes(run, tmp_path):
    for arguments, message in (
        (("--model", tmp_path), "Received"),
        (("--model", "bass"), "Received: bass"),
    ):
        status, output, errors = run(*arguments)
        assert (status, output) == (2, "")
        assert message in errors
        assert errors.count("\n") == 1
