"""Added pieces are read alike in Python, in graphs, and by SentencePiece itself."""

import json
import sys

import numpy as np
import pytest
import sentencepiece

from albert_tf.errors import UserError
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece import WordPieceTokenizer

ADDED = ["covid", "new▁york", "▁hilly", "😀", "[e1]"]
TEXTS = [
    "The COVID hill",
    "old Covids, anticovid COVI\u0301D!",
    "New  York on a hilly hill",
    "😀😀 sold😀 [E1] a [e1]hill",
    "nothing new is old: a cov id on york",
    "",
]


@pytest.fixture
def larger(tokenizer):
    made = AlbertTokenizer(tokenizer.model_bytes)
    assert made.add_tokens([*ADDED, "covid", "▁"]) == len(ADDED)
    return made


def test_every_runtime(larger):
    ids = larger(TEXTS, add_special_tokens=False).input_ids
    processor = sentencepiece.SentencePieceProcessor(model_proto=larger.model_bytes)
    assert processor.encode(TEXTS) == ids
    assert larger.in_graph().tokenize(TEXTS).to_list() == ids
    covid, city, hilly, smile, mark = larger.convert_tokens_to_ids(ADDED)
    assert [row.count(covid) for row in ids] == [1, 3, 0, 0, 0, 0]
    assert (ids[2].count(city), ids[2].count(hilly)) == (1, 1)
    assert (ids[3].count(smile), ids[3].count(mark)) == (3, 2)
    assert larger.decode(ids[0]) == "the covid hill"


def test_other_texts_are_read_as_before(tokenizer, larger):
    texts = ["the old library on a hill in 1999, sold 20,000 books", "free (or €4) - nearly"]
    assert larger(texts) == tokenizer(texts)
    assert larger.convert_ids_to_tokens(range(len(tokenizer), len(larger))) == ADDED


def test_an_encoding_keeps_its_offsets_after_more_tokens(tokenizer):
    """The encoding computes them on first use, with the vocabulary that made its ids."""
    grown = AlbertTokenizer(tokenizer.model_bytes)
    encoding = grown("on the library hill")
    expected = tokenizer("on the library hill", return_offsets_mapping=True)
    assert grown.add_tokens("library") == 1
    assert len(grown("on the library hill").input_ids) != len(encoding.input_ids)
    places = [encoding.char_to_token(start) for start, _ in expected["offset_mapping"][1:-1]]
    assert places == list(range(1, len(encoding.input_ids) - 1))
    assert encoding.word_ids() == expected.word_ids()


@pytest.mark.parametrize("kind", ["tokenizer", "chinese"])
def test_saved_and_loaded(kind, request, tmp_path):
    """Ordinary tokens that are added later change nothing about special ones."""
    source = request.getfixturevalue(kind)
    own = type(source)(source.model_bytes)
    assert own.add_tokens("covid", special_tokens=True) == 1
    assert own.add_tokens(["hilly", "covid"]) == 1
    own.save_pretrained(tmp_path)
    again = AlbertTokenizer.from_pretrained(tmp_path)
    assert (again.model_bytes, again.settings) == (own.model_bytes, own.settings)
    rows = own(TEXTS, padding="max_length", max_length=30)
    assert again(TEXTS, padding="max_length", max_length=30) == rows
    layer = AlbertPreprocessor(own, 30)
    assert np.asarray(layer(TEXTS[:3])["input_ids"]).tolist() == rows.input_ids[:3]
    for each in (own, again):
        assert each.additional_special_tokens == ["covid"]
        decoded = each.decode(each.encode("covid hilly"), skip_special_tokens=True)
        assert decoded.strip() == "hilly"
    config = tmp_path / "tokenizer_config.json"
    tokens = [{"content": "covid", "lstrip": False}, "hilly"]  # as transformers writes them
    values = {**json.loads(config.read_text()), "additional_special_tokens": tokens}
    config.write_text(json.dumps(values))
    again = AlbertTokenizer.from_pretrained(tmp_path)
    assert again.additional_special_tokens == ["covid", "hilly"]


def test_wordpiece(chinese):
    larger = WordPieceTokenizer(chinese.model_bytes)
    assert larger.add_tokens("covid") == 1
    assert larger.tokenize("Covid the") == ["covid", "the"]
    for token in ("a b", "国家大", "##covid", "a\nb"):
        with pytest.raises(UserError, match="can't be added, .* encodes it as"):
            larger.add_tokens(["good", token])
    assert len(larger) == len(chinese) + 1


def test_tokens_that_would_not_be_found(tokenizer):
    before = tokenizer.model_bytes
    for token, way_out in {
        "COVID": "Add 'covid'",
        "▁naïvely": "Add '▁naively'",
        "new york": "Add 'new▁york'",
        "[MASK]x": "Choose another token",
        "": "must not be empty",
    }.items():
        with pytest.raises(UserError, match=way_out):
            tokenizer.add_tokens(["fine", token])
    assert tokenizer.model_bytes == before


def test_special_tokens(tokenizer):
    larger = AlbertTokenizer(tokenizer.model_bytes)
    tokens = {"additional_special_tokens": ["[e1]", "[/e1]"], "pad_token": "<pad>"}
    assert larger.add_special_tokens(tokens) == 2
    assert larger.tokenize("[E1] a [/E1]").count("[e1]") == 1
    ids = larger.encode("[E1] a [/E1]")
    assert larger.decode(ids, skip_special_tokens=True).strip() == "a"
    assert "[e1] a [/e1]" in larger.decode(ids)
    with pytest.raises(UserError, match="can't be changed.*pad_token='.PAD.' instead of '<pad>'"):
        larger.add_special_tokens({"pad_token": "[PAD]"})


def write(folder, place, tokens):
    """Writes added tokens, `(content, id, options)`, as a version of transformers does."""
    described = [{"id": number, "content": text, **more} for text, number, more in tokens]
    content = {
        "added_tokens.json": {text: number for text, number, _ in tokens},
        "tokenizer.json": {"added_tokens": described},
        "tokenizer_config.json": {"added_tokens_decoder": {str(t["id"]): t for t in described}},
        "special_tokens_map.json": {"additional_special_tokens": [text for text, *_ in tokens]},
    }[place]
    (folder / place).write_text(json.dumps(content))


PLACES = ("added_tokens.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@pytest.mark.parametrize("place", PLACES)
def test_tokens_of_the_vocabulary_are_marked(place, larger, tmp_path):
    covid, hilly = larger.convert_tokens_to_ids(["covid", "▁hilly"])
    (tmp_path / "spiece.model").write_bytes(larger.model_bytes)
    write(tmp_path, place, [("covid", covid, {"special": True}), ("▁hilly", hilly, {})])
    loaded = AlbertTokenizer.from_pretrained(tmp_path)
    assert loaded.additional_special_tokens == {
        "added_tokens.json": [],
        "special_tokens_map.json": ["covid", "▁hilly"],
    }.get(place, ["covid"])


@pytest.mark.parametrize("place", PLACES)
def test_tokens_beside_the_vocabulary_are_refused(place, tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    tokens = [("[E1]", 300, {"special": True}), ("\ud800", 5, {}), ("x" * 9999, 9**99, {})]
    if place == "tokenizer.json":
        tokens += [("[SEP]", 0, {}), (None, "x", {})]
    for token in tokens:
        write(tmp_path, place, [token])
        with pytest.raises(UserError, match=f"{place} adds a token that the vocabulary"):
            AlbertTokenizer.from_pretrained(tmp_path)


@pytest.mark.peers
def test_tensors_of_torch(tokenizer):
    torch = pytest.importorskip("torch", reason="needs torch (pip install albert_tf[torch])")
    tensors = tokenizer(["a", "the hill"], padding=True, return_tensors="pt")
    ids = tokenizer(["a", "the hill"], padding=True).input_ids
    assert tensors.input_ids.dtype == torch.int64
    assert tensors.input_ids.tolist() == ids
    assert tokenizer.batch_decode(tensors.input_ids) == tokenizer.batch_decode(ids)
    assert tokenizer.pad({"input_ids": tensors.input_ids})["input_ids"] == ids


def test_without_torch(tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match="'pt' requires torch.*Install torch, or use 'np'"):
        tokenizer("a", return_tensors="pt")
