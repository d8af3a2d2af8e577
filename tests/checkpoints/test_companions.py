import pytest

from albert_tf.checkpoints.conversion import destinations, find_companions
from albert_tf.checkpoints.finder import Found
from albert_tf.errors import UserError


@pytest.fixture
def files(tmp_path):
    """A function that makes empty files in the folder `m`, which it returns."""

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
    assert find_companions(Found(folder, kind)) == {"spiece.model": folder / place}


def test_all_files_of_a_directory(files):
    names = ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"]
    folder = files(*names, "config.json", "README.md")
    assert find_companions(Found(folder, "hf")) == {name: folder / name for name in names}


def test_one_folder_up(files):
    folder = files("30k-clean.model", "run/model.ckpt-5.index")
    found = find_companions(Found(folder / "run", "tf1"))
    assert found == {"spiece.model": folder / "30k-clean.model"}


def test_several_vocabularies(files):
    with pytest.raises(UserError, match="A folder must have one vocabulary. Received: .*a.model"):
        find_companions(Found(files("a.model", "b.model"), "hf"))


def test_destinations(files):
    folder = files("spiece.model", "vocab.txt", "tokenizer.json")
    found = find_companions(Found(folder, "hf"))
    model, text, fast = (folder / name for name in ("spiece.model", "vocab.txt", "tokenizer.json"))
    assert destinations(found, "hf") == {each: each.name for each in (model, text, fast)}
    assert destinations(found, "tf1")[model] == "30k-clean.model"
    assert destinations(found, "keras-hub") == {model: "assets/tokenizer/vocabulary.spm"}
