"""A damaged file reads as a checkpoint that fits its configuration, or raises UserError."""

import functools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.checkpoints import google, hugging_face, names
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.weights import check_backbone
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from tests.checkpoints.presets import write_preset
from tests.checkpoints.tensors import draw
from tests.checkpoints.test_hugging_face import FILES, SAVERS, save_shards
from tests.fuzz.conftest import JSON_VALUES, mutated

SHARDS = "model.safetensors.index.json"
FORMATS = [SHARDS, *SAVERS, "google", "keras-hub"]


@pytest.fixture(scope="module")
def folders(small_config, tmp_path_factory):
    """Returns a function that writes a checkpoint in a format once, and returns its folder."""
    tensors = draw(small_config, "classifier")

    @functools.cache
    def written(format):
        folder = tmp_path_factory.mktemp(format) / "model"
        if format == "google":
            google.write(folder, small_config, tensors)
        elif format == "keras-hub":
            write_preset(folder, small_config, tensors)
        else:
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(small_config.to_dict()))
            if format == SHARDS:
                save_shards(folder, "model.safetensors", tensors)
            else:
                file = next(file for file in FILES if file.endswith(format))
                SAVERS[format](folder / file, tensors)
        assert read(folder) is not None
        return folder

    return written


def read(folder):
    """Returns a checkpoint, or None if there is a UserError."""
    try:
        checkpoint = find(folder).read()
        check_backbone(checkpoint)
    except UserError as error:
        assert len(str(error)) < 20_000
        return None
    hugging_face.architecture(checkpoint.config, checkpoint.tensors)
    return checkpoint


@pytest.mark.parametrize(
    "format",
    [pytest.param(name, marks=pytest.mark.peers) if name == ".bin" else name for name in FORMATS],
)
@given(data=st.data())
def test_every_file(folders, format, data):
    folder = folders(format)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files), label="file")
    content = path.read_bytes()
    try:
        path.write_bytes(data.draw(mutated(content), label="content"))
        checkpoint = read(folder)
        if checkpoint is not None:
            assert isinstance(checkpoint.config, AlbertConfig)
            for name in names.shapes(checkpoint.config).keys() & checkpoint.tensors.keys():
                assert isinstance(checkpoint.tensors[name], np.ndarray)
    finally:
        path.write_bytes(content)


@given(data=st.data())
def test_every_value_of_a_configuration(small_config, tmp_path_factory, data):
    values = small_config.to_dict()
    keys = [*values, "num_labels", "id2label", "problem_type", "share", "answerability"]
    changes = data.draw(st.dictionaries(st.sampled_from(keys), JSON_VALUES, min_size=1, max_size=3))
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_text(json.dumps({**values, **changes}))
    try:
        config = AlbertConfig.from_json_file(path)
    except UserError:
        return
    assert AlbertConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    hash(config)
