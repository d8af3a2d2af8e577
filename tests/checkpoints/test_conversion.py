import pytest

from albert_tf.checkpoints.conversion import find_tokenizer_files
from albert_tf.checkpoints.finder import CheckpointLocation
from albert_tf.errors import UserError


@pytest.fixture
def files(tmp_path):
    """Returns a function that makes empty files in the folder `m`, which it returns."""

    def make(*names):
        for name in names:
            path = tmp_path / "m" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
        return tmp_path / "m"

    return make


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("hf", "spiece.model"),
        ("tf1", "30k-clean.model"),
        ("tf1", "korean.model"),
        ("tf-hub", "assets/30k-clean.model"),
        ("keras-hub", "assets/tokenizer/vocabulary.spm"),
    ],
)
def test_a_vocabulary_by_its_places(files, kind, place):
    folder = files(place, "model.ckpt.index")
    assert find_tokenizer_files(CheckpointLocation(folder, kind)) == {
        "spiece.model": folder / place
    }


def test_all_files_of_a_directory(files):
    names = ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"]
    folder = files(*names, "config.json", "README.md")
    assert find_tokenizer_files(CheckpointLocation(folder, "hf")) == {
        name: folder / name for name in names
    }


def test_one_folder_up(files):
    folder = files("30k-clean.model", "run/model.ckpt-5.index")
    found = find_tokenizer_files(CheckpointLocation(folder / "run", "tf1"))
    assert found == {"spiece.model": folder / "30k-clean.model"}


def test_several_vocabularies(files):
    with pytest.raises(UserError, match="A folder must have one vocabulary. Received: .*a.model"):
        find_tokenizer_files(CheckpointLocation(files("a.model", "b.model"), "hf"))
