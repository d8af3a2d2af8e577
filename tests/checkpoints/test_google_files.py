import json

import pytest

from albert_tf.checkpoints import google, tf_checkpoint
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.google import to_google
from albert_tf.errors import UserError


@pytest.fixture
def folder(tmp_path, small_config):
    """Two checkpoints by name, and a configuration."""
    for name in ("model.ckpt-3", "model.ckpt-best"):
        for ending in ("index", "meta", "data-00000-of-00001"):
            (tmp_path / f"{name}.{ending}").touch()
    (tmp_path / "albert_config.json").write_text(json.dumps(to_google(small_config)))
    return tmp_path


def names_latest(folder, text):
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{text}"\nall_model_checkpoint')


@pytest.mark.parametrize(
    "name",
    [
        "model.ckpt-best",
        "model.ckpt-best.index",
        "model.ckpt-best.meta",
        "model.ckpt-best.data-00000-of-00001",
    ],
)
def test_a_prefix_and_its_files(folder, name):
    assert tf_checkpoint.find_prefix(folder / name) == folder / "model.ckpt-best"


@pytest.mark.parametrize(
    "latest", ["model.ckpt-3", "/gone/since/model.ckpt-3", r"C:\gone\model.ckpt-3"]
)
def test_a_directory_whose_latest_is_named(folder, latest):
    names_latest(folder, latest.replace("\\", "\\\\"))
    assert tf_checkpoint.find_prefix(folder) == folder / "model.ckpt-3"


def test_a_directory_of_several_lists_them(folder):
    with pytest.raises(UserError, match=r"with model.ckpt-3, model.ckpt-best. Give one of these"):
        tf_checkpoint.find_prefix(folder)
    names_latest(folder, "model.ckpt-9")
    with pytest.raises(UserError, match="or a file 'checkpoint' that names one of them"):
        tf_checkpoint.find_prefix(folder)


def test_a_directory_of_one(folder):
    for path in folder.glob("model.ckpt-3*"):
        path.unlink()
    names_latest(folder, "model.ckpt-3")
    assert tf_checkpoint.find_prefix(folder) == folder / "model.ckpt-best"


@pytest.mark.parametrize("name", ["model.ckpt", "model.ckpt-best.txt", "missing/model.ckpt-3"])
def test_what_is_no_checkpoint(folder, name):
    assert not tf_checkpoint.find_prefix(folder / name)


def test_folders_that_are_no_checkpoint(folder):
    (folder / "empty").mkdir()
    assert not tf_checkpoint.find_prefix(folder / "empty")
    assert not tf_checkpoint.find_prefix(folder / "missing")


@pytest.mark.parametrize(
    "name", ["albert_config.json", "bert_config.json", "config.json", "albert_config_tiny.json"]
)
@pytest.mark.parametrize("up", [False, True])
def test_a_configuration_beside_or_one_folder_up(folder, small_config, name, up):
    inner = folder / "inner"
    inner.mkdir()
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "albert_config.json").rename((folder if up else inner) / name)
    found = google.read_config(google.find_config((inner, folder)))
    assert found.hidden_size == small_config.hidden_size
    assert found.hidden_act == "gelu_new", "Google's gelu is the tanh approximation"


def test_several_configurations(folder):
    (folder / "albert_config.json").rename(folder / "albert_config_base.json")
    (folder / "albert_config_tiny.json").write_text("{}")
    with pytest.raises(
        UserError, match=r"albert_config_base.json, .*albert_config_tiny.json. Name"
    ):
        google.read_config(google.find_config((folder,)))
    (folder / "albert_config.json").write_text((folder / "albert_config_base.json").read_text())
    assert google.read_config(google.find_config((folder,))).hidden_size == 20


def test_no_configuration(folder):
    (folder / "albert_config.json").unlink()
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(UserError, match=f"albert_config.json, beside it .* Received: {folder}"):
        find(folder / "model.ckpt-best").read()


def test_berts_configuration(folder, small_config):
    values = to_google(small_config)
    del values["embedding_size"]
    (folder / "albert_config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="has embedding_size. Received: .* as BERT's are"):
        google.read_config(google.find_config((folder,)))
