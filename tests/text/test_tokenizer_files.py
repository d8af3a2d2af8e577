"""Finding a vocabulary by each publisher's file names."""

import json

import pytest

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import read_tokenizer


def put(path, content=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


NAMES = ["spiece.model", "assets/30k-clean.model", "assets/tokenizer/vocabulary.spm"]
NAMES += ["my-own.model", "assets/my.model", "assets/vocab.txt", "vocab_21128.txt"]


@pytest.mark.parametrize("name", NAMES)
def test_names(tmp_path, name):
    put(tmp_path / "config.json")
    put(tmp_path / name)
    assert read_tokenizer(tmp_path, {}) == (tmp_path / name, {})
    assert read_tokenizer(tmp_path / name, {}) == (tmp_path / name, {})


def test_the_first_of_several_names_and_sentencepiece_before_wordpiece(tmp_path):
    for name in ("vocab.txt", "other.model", "assets/30k-clean.model", "30k-clean.model"):
        put(tmp_path / name)
    assert read_tokenizer(tmp_path, {})[0] == tmp_path / "30k-clean.model"


@pytest.mark.parametrize(
    "names", [("a.model", "b.model"), ("a.model", "assets/b.spm"), ("vocab_a.txt", "vocab_b.txt")]
)
def test_several(tmp_path, names):
    for name in names:
        put(tmp_path / name)
    one, other = (name.rpartition("/")[2] for name in names)
    with pytest.raises(UserError, match=f"several vocabularies: {one}, {other}. Rename the"):
        read_tokenizer(tmp_path, {})


def test_beside_a_tensorflow_1_checkpoint(tmp_path, tokenizer):
    put(tmp_path / "30k-clean.model", tokenizer.model_bytes)
    for name in ("model.ckpt-best.index", "model.ckpt-best.data-00000-of-00001"):
        put(tmp_path / name)
    for path in (tmp_path / "model.ckpt-best", tmp_path / "model.ckpt-best.index"):
        assert AlbertTokenizer.from_pretrained(path).model_bytes == tokenizer.model_bytes


def test_none(tmp_path):
    put(tmp_path / "vocab.json")
    with pytest.raises(UserError, match="no vocabulary .spiece.model, or vocab.txt .*Copy the"):
        read_tokenizer(tmp_path, {})
    put(tmp_path / "sentencepiece.bpe.model")
    with pytest.raises(UserError, match="sentencepiece.bpe.model lacks .*Copy .* tokenizer.json"):
        read_tokenizer(tmp_path, {})
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE"}}))
    with pytest.raises(UserError, match="Its tokenizer.json contains neither a Unigram nor a Word"):
        read_tokenizer(tmp_path, {})
    for kind in ("Unigram", "WordPiece"):  # before sentencepiece.bpe.model
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": kind}}))
        assert read_tokenizer(tmp_path, {})[0].name == "tokenizer.json"


def test_wrong_settings(tmp_path, unbaked):
    put(tmp_path / "spiece.model", unbaked)
    lengths = ("512", 0, float("inf"), [1] * 100_000)
    wrong = [*(("model_max_length", length) for length in lengths), ("do_lower_case", 1)]
    for name, value in [*wrong, ("padding_side", "up"), ("quotes", "none")]:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({name: value}))
        with pytest.raises(UserError, match=f"{name}.* must be .* Received: ") as raised:
            AlbertTokenizer.from_pretrained(tmp_path)
        assert len(str(raised.value)) < 300


@pytest.mark.parametrize("length", [10**30, 1e30])
@pytest.mark.filterwarnings("ignore:A sequence of .* exceeds model_max_length")
def test_no_limit(tmp_path, tokenizer, length):
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
    loaded = AlbertTokenizer.from_pretrained(tmp_path)
    text = "the hill " * 1000
    assert loaded.encode(text, truncation=True) == tokenizer.encode(text)
    with pytest.raises(ValueError, match="requires max_length.*model_max_length="):
        loaded(text, padding="max_length")


def test_settings_are_read(tmp_path, unbaked):
    """null is the default; transformers' own settings are ignored."""
    put(tmp_path / "spiece.model", unbaked)
    settings = {"do_lower_case": False, "keep_accents": True, "model_max_length": 99.0}
    decoder = {"0": {"content": "<pad>", "lstrip": False, "special": True}}
    content = {**settings, "padding_side": None, "added_tokens_decoder": decoder}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(content))
    loaded = AlbertTokenizer.from_pretrained(tmp_path)
    assert settings.items() <= loaded.settings.items()
    assert loaded.padding_side == "right"
    assert AlbertTokenizer.from_pretrained(tmp_path, do_lower_case=True).do_lower_case


@pytest.mark.parametrize("place", ["tokenizer_config.json", "special_tokens_map.json"])
def test_other_special_tokens_are_refused(tmp_path, tokenizer, place):
    put(tmp_path / "spiece.model", tokenizer.model_bytes)
    (tmp_path / place).write_text(json.dumps({"cls_token": {"content": "<s>"}, "eos_token": "x"}))
    with pytest.raises(UserError, match=r"cls_token must be '.CLS.', .*Received: '<s>'"):
        AlbertTokenizer.from_pretrained(tmp_path)
    (tmp_path / place).write_text(json.dumps({"cls_token": "[CLS]", "pad_token": "<pad>"}))
    assert len(AlbertTokenizer.from_pretrained(tmp_path)) == len(tokenizer)
