"""Damaged tokenizer files raise UserError or result in a tokenizer that works."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import UserError
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece import WordPieceTokenizer
from tests.fuzz.conftest import JSON_VALUES, mutated

TEXT = "A quiet delight: ﬁ, é, 漢 and 20,000 [MASK]\u200b\U0010ffff"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "ab", "漢", ",", "é"]
NORMALIZER = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
NORMALIZER |= {"strip_accents": None, "lowercase": True}
NAMES = st.sampled_from([*AlbertTokenizer.SETTINGS, *WordPieceTokenizer.SETTINGS, "other"])
CONFIGS = st.dictionaries(NAMES, JSON_VALUES, max_size=4)


@pytest.fixture(scope="module")
def folders(few_characters, tmp_path_factory):
    """Returns the folder of a tokenizer of each kind, by the name of its vocabulary."""
    small = ModelProto.FromString(AlbertTokenizer.from_pretrained("small").model_bytes)
    del small.pieces[200:]
    tokenizers = {
        "spiece.model": AlbertTokenizer(small.SerializeToString()),
        "vocab.txt": WordPieceTokenizer("\n".join(PIECES).encode()),
    }
    folders = {name: tmp_path_factory.mktemp("tokenizer") for name in tokenizers}
    for name, folder in folders.items():
        tokenizers[name].save_pretrained(folder)
    return folders


def works_or_is_refused(folder):
    try:
        tokenizer = AlbertTokenizer.from_pretrained(folder)
    except UserError as error:
        assert len(str(error)) < 2000
        return
    encoding = tokenizer(TEXT, return_offsets_mapping=True)
    ids = encoding["input_ids"]
    assert tokenizer(TEXT)["input_ids"] == ids
    assert all(0 <= index < tokenizer.vocab_size for index in ids)
    assert all(0 <= start <= end <= len(TEXT) for start, end in encoding["offset_mapping"])
    tokenizer.decode(ids)
    tokenizer.pad({"input_ids": ids}, "longest")
    tokenizer.save_pretrained(folder / "saved")
    assert AlbertTokenizer.from_pretrained(folder / "saved")(TEXT)["input_ids"] == ids
    shutil.rmtree(folder / "saved")


@pytest.mark.parametrize(
    ("vocabulary", "damaged"),
    [
        ("spiece.model", "spiece.model"),
        ("spiece.model", "tokenizer_config.json"),
        pytest.param("vocab.txt", "vocab.txt", marks=pytest.mark.slow),
    ],
)
@given(data=st.data())
def test_a_damaged_file(folders, vocabulary, damaged, data, tmp_path):
    shutil.copytree(folders[vocabulary], tmp_path, dirs_exist_ok=True)
    content = data.draw(mutated((folders[vocabulary] / damaged).read_bytes()))
    (tmp_path / damaged).write_bytes(content)
    works_or_is_refused(tmp_path)


@pytest.mark.parametrize("vocabulary", ["spiece.model", "vocab.txt"])
@given(config=CONFIGS)
def test_values_of_tokenizer_config(folders, vocabulary, config, tmp_path):
    shutil.copytree(folders[vocabulary], tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    works_or_is_refused(tmp_path)


@given(data=st.data())
def test_tokenizer_json(few_characters, data, tmp_path):
    vocab = {piece: index for index, piece in enumerate(PIECES)}
    vocab.update(data.draw(st.dictionaries(st.text(max_size=4), JSON_VALUES, max_size=2)))
    model = data.draw(st.one_of(JSON_VALUES, st.just({"type": "WordPiece", "vocab": vocab})))
    steps = {"normalizer": NORMALIZER, "pre_tokenizer": {"type": "BertPreTokenizer"}}
    content = json.dumps({**steps, "model": model}).encode()
    (tmp_path / "tokenizer.json").write_bytes(
        data.draw(st.one_of(st.just(content), mutated(content)))
    )
    works_or_is_refused(tmp_path)
