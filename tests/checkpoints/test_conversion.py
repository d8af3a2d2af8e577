"""A tokenizer's files by format; `tests/text/test_tokenizer_files.py` has their names."""

import pytest

from albert_tf.checkpoints.conversion import find_tokenizer_files
from albert_tf.checkpoints.finder import CheckpointLocation

JSON = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@pytest.fixture
def put(tmp_path):
    """Returns a function that makes empty files in the folder `m`, which it returns."""

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
