import hashlib

import numpy as np
import pytest

from albert_tf.checkpoints import conversion
from albert_tf.checkpoints.conversion import destinations, find_tokenizer_files
from albert_tf.checkpoints.finder import CheckpointLocation
from albert_tf.errors import UserError

TENSORS = {
    "b": np.array([[1.0, 2.0, 3.0]], "float32"),
    "a": np.array([4.0], "float32"),
}


def test_digest_is_a_sha_256_of_names_shapes_and_values():
    text = b'["a",[1]]\0' + bytes.fromhex("00008040")  # 4.0
    text += b'["b",[1,3]]\0' + bytes.fromhex("0000803f0000004000004040")
    assert conversion.digest(TENSORS) == hashlib.sha256(text).hexdigest()


def test_order_layout_and_dtype_do_not_matter():
    other = {
        "a": TENSORS["a"].astype("float16"),
        "b": np.asfortranarray(TENSORS["b"]).astype(">f4"),
    }
    assert conversion.digest(other) == conversion.digest(TENSORS)
    assert conversion.checksum(other["b"]) == conversion.checksum(TENSORS["b"])


def test_names_shapes_and_values_do():
    digests = {
        conversion.digest(tensors)
        for tensors in (
            TENSORS,
            {**TENSORS, "b": TENSORS["b"].T},
            {**TENSORS, "b": TENSORS["b"][:, ::-1]},
            {"a": TENSORS["a"], "c": TENSORS["b"]},
            {"b": TENSORS["b"]},
        )
    }
    assert len(digests) == 5
    assert conversion.checksum(TENSORS["b"]) == conversion.checksum(TENSORS["b"].T)


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


def test_destinations_of_a_tokenizers_files(files):
    folder = files("spiece.model", "vocab.txt", "tokenizer.json")
    found = find_tokenizer_files(CheckpointLocation(folder, "hf"))
    model, text, fast = (folder / name for name in ("spiece.model", "vocab.txt", "tokenizer.json"))
    assert destinations(found, "hf") == {each: each.name for each in (model, text, fast)}
    assert destinations(found, "tf1")[model] == "30k-clean.model"
    assert destinations(found, "keras-hub") == {model: "assets/tokenizer/vocabulary.spm"}
