"""A tokenizer's files by format; `tests/text/test_tokenizer_files.py` has their names."""

import pytest

from albert_tf.checkpoints import hugging_face
from albert_tf.checkpoints.conversion import convert, find_tokenizer_files
from albert_tf.checkpoints.finder import CheckpointLocation, find
from albert_tf.errors import UserError
from tests.checkpoints.tensors import draw

JSON = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@pytest.fixture
def put(tmp_path):
    """Returns a function that creates empty files in the folder `m`, and returns the folder."""

    def make(*names):
        for name in names:
            path = tmp_path / "m" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return tmp_path / "m"

    return make


@pytest.mark.parametrize(
    ("kind", "found", "others"),
    [
        ("hf", {name: name for name in ("spiece.model", "vocab.txt", *JSON)}, ["config.json"]),
        ("tf-hub", {"spiece.model": "assets/30k-clean.model"}, ["saved_model.pb"]),
        # KerasHub's tokenizer.json is something else.
        ("keras-hub", {"spiece.model": "assets/tokenizer/vocabulary.spm"}, ["tokenizer.json"]),
    ],
)
def test_the_files_beside_a_checkpoint(put, kind, found, others):
    folder = put(*found.values(), *others)
    expected = {name: folder / file for name, file in found.items()}
    assert find_tokenizer_files(CheckpointLocation(folder, kind)) == expected


def test_one_folder_up(put):
    folder = put("30k-clean.model", "run/model.ckpt-5.index")
    found = find_tokenizer_files(CheckpointLocation(folder / "run", "tf1"))
    assert found == {"spiece.model": folder / "30k-clean.model"}


def test_a_tagger_with_a_pooler_stays_a_tagger(small_config, tmp_path):
    """transformers 2 and 3 saved a pooler that the task doesn't use."""
    config = small_config.replace(num_labels=3)
    tensors = draw(config, "classifier")
    hugging_face.write(tmp_path / "old", config, tensors, "AlbertForTokenClassification")
    convert(tmp_path / "old", tmp_path / "new", format="hf")
    assert find(tmp_path / "new").architectures() == ["AlbertForTokenClassification"]


@pytest.mark.parametrize("name", JSON)
def test_a_damaged_file_of_the_tokenizer_is_not_copied(small_config, tmp_path, name):
    hugging_face.write(tmp_path / "model", small_config, draw(small_config), "AlbertModel")
    (tmp_path / "model" / name).write_text('{"a": ')
    with pytest.raises(UserError, match=f"{name} must contain a JSON object"):
        convert(tmp_path / "model", tmp_path / "new", format="hf")
    assert not (tmp_path / "new").exists()


def test_settings_that_have_no_place(small_config, tmp_path):
    fields = {"num_labels": 3, "problem_type": "multi_label_classification"}
    config = small_config.replace(**fields, thresholds=(0.2, 0.3, 0.4))
    hugging_face.write(tmp_path / "model", config, draw(config, "classifier"))
    report = convert(tmp_path / "model", tmp_path / "tf1", format="tf1")
    expected = ["problem_type=multi_label_classification", "thresholds=[0.2, 0.3, 0.4]"]
    assert sorted(report["left_out"]) == expected
