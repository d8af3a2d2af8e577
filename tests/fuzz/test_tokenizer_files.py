"""A tokenizer's files, damaged in any way, give a UserError or a tokenizer that works."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece import WordPieceTokenizer
from tests.fuzz.conftest import mutated

TEXT = "A quiet delight: ﬁ, é, 漢 and 20,000 [MASK]\u200b\U0010ffff"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "ab", "漢", ",", "é"]
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)
NAMES = st.sampled_from([*AlbertTokenizer.SETTINGS, *WordPieceTokenizer.SETTINGS, "other"])
CONFIGS = st.dictionaries(NAMES, VALUES, max_size=4)


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentencepiece")
    AlbertTokenizer.from_pretrained("small").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wordpiece")
    WordPieceTokenizer("\n".join(PIECES).encode()).save_pretrained(folder)
    return folder


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


@given(data=st.data())
def test_spiece_model(sentencepiece, data, tmp_path):
    content = data.draw(mutated((sentencepiece / "spiece.model").read_bytes()))
    (tmp_path / "spiece.model").write_bytes(content)
    works_or_is_refused(tmp_path)


@pytest.mark.slow
@given(data=st.data())
def test_vocab_txt(wordpiece, data, tmp_path):
    content = data.draw(mutated((wordpiece / "vocab.txt").read_bytes()))
    (tmp_path / "vocab.txt").write_bytes(content)
    works_or_is_refused(tmp_path)


@given(data=st.data())
def test_tokenizer_config_bytes(sentencepiece, data, tmp_path):
    shutil.copy(sentencepiece / "spiece.model", tmp_path)
    content = data.draw(mutated((sentencepiece / "tokenizer_config.json").read_bytes()))
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    works_or_is_refused(tmp_path)


@given(config=CONFIGS)
@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_tokenizer_config_values(kind, config, request, tmp_path):
    shutil.copytree(request.getfixturevalue(kind), tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    works_or_is_refused(tmp_path)


@given(data=st.data())
def test_tokenizer_json(data, tmp_path):
    vocab = {piece: index for index, piece in enumerate(PIECES)}
    vocab.update(data.draw(st.dictionaries(st.text(max_size=4), VALUES, max_size=2)))
    model = data.draw(st.one_of(VALUES, st.just({"type": "WordPiece", "vocab": vocab})))
    content = json.dumps({"model": model}).encode()
    (tmp_path / "tokenizer.json").write_bytes(
        data.draw(st.one_of(st.just(content), mutated(content)))
    )
    works_or_is_refused(tmp_path)
