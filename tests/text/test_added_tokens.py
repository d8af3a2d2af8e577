"""Added pieces are read alike in Python, in graphs, in TFLite and by SentencePiece itself."""

import json

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


def test_every_runtime(larger, graph_ids, tflite_ids):
    ids = larger(TEXTS, add_special_tokens=False).input_ids
    processor = sentencepiece.SentencePieceProcessor(model_proto=larger.model_bytes)
    assert processor.encode(TEXTS) == ids
    assert graph_ids(larger.model_bytes, TEXTS) == ids
    assert tflite_ids(larger.model_bytes, TEXTS) == ids
    covid, city, hilly, smile, mark = larger.convert_tokens_to_ids(ADDED)
    assert [row.count(covid) for row in ids] == [1, 3, 0, 0, 0, 0]
    assert (ids[2].count(city), ids[2].count(hilly)) == (1, 1)
    assert (ids[3].count(smile), ids[3].count(mark)) == (3, 2)
    assert larger.decode(ids[0]) == "the covid hill"


def test_other_texts_are_read_as_before(tokenizer, larger):
    texts = ["the old library on a hill in 1999, sold 20,000 books", "free (or €4) - nearly"]
    assert larger(texts).input_ids == tokenizer(texts).input_ids
    assert len(larger) == len(tokenizer) + len(ADDED)
    assert larger.convert_ids_to_tokens(range(len(tokenizer), len(larger))) == ADDED


def test_an_encoding_keeps_its_offsets_after_more_tokens(tokenizer):
    """The encoding computes them on first use, with the vocabulary that made its ids."""
    grown = AlbertTokenizer(tokenizer.model_bytes)
    encoding = grown("on the library hill")
    expected = tokenizer("on the library hill", return_offsets_mapping=True)
    assert grown.add_tokens("library") == 1
    assert len(grown("on the library hill").input_ids) != len(encoding.input_ids)
    spans = [encoding.token_to_chars(at) for at in range(1, len(encoding.input_ids) - 1)]
    assert spans == expected["offset_mapping"][1:-1]
    assert encoding.word_ids() == expected.word_ids()


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_saved_and_loaded(kind, larger, chinese, tmp_path):
    if kind == "wordpiece":
        larger = WordPieceTokenizer(chinese.model_bytes, model_max_length=77)
        assert larger.add_tokens(["covid", "hilly"]) == 2
    larger.save_pretrained(tmp_path)
    again = AlbertTokenizer.from_pretrained(tmp_path)
    assert again.model_bytes == larger.model_bytes
    assert again.settings == larger.settings
    assert again(TEXTS).input_ids == larger(TEXTS).input_ids
    features = AlbertPreprocessor(larger, 30)(TEXTS[:3])
    wanted = larger(TEXTS[:3], padding="max_length", max_length=30).input_ids
    assert np.asarray(features["input_ids"]).tolist() == wanted


def test_wordpiece(chinese):
    larger = WordPieceTokenizer(chinese.model_bytes)
    assert larger.add_tokens("covid") == 1
    assert larger.tokenize("Covid the") == ["covid", "the"]
    assert larger.add_tokens("covid") == 0
    for token in ("a b", "国家大", "##covid", "a\nb"):
        with pytest.raises(UserError, match="reads as it is written.*read as"):
            larger.add_tokens(["good", token])
    assert len(larger) == len(chinese) + 1


@pytest.mark.parametrize(
    ("token", "way_out"),
    [
        ("COVID", "Add 'covid'"),
        ("▁naïvely", "Add '▁naively'"),
        ("new york", "Add 'new▁york'"),
        ("[MASK]x", "Choose another one"),
        ("", "must have a character or more"),
    ],
)
def test_pieces_that_would_not_be_found(tokenizer, token, way_out):
    before = tokenizer.model_bytes
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
    special = {"[CLS]", "[e1]", "[/e1]", "[SEP]"}
    assert larger.get_special_tokens_mask(ids, already_has_special_tokens=True) == [
        int(token in special) for token in larger.convert_ids_to_tokens(ids)
    ]
    with pytest.raises(UserError, match="can't change.*pad_token='.PAD.', for '<pad>'"):
        larger.add_special_tokens({"pad_token": "[PAD]"})


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_special_tokens_are_saved(kind, tokenizer, chinese, tmp_path):
    """Ordinary pieces that are added later don't change them."""
    source = chinese if kind == "wordpiece" else tokenizer
    larger = type(source)(source.model_bytes)
    assert larger.add_tokens("covid", special_tokens=True) == 1
    assert larger.add_tokens("hilly") == 1
    larger.save_pretrained(tmp_path)
    again = AlbertTokenizer.from_pretrained(tmp_path)
    for each in (larger, again):
        assert each.additional_special_tokens == ["covid"]
        decoded = each.decode(each.encode("covid hilly"), skip_special_tokens=True)
        assert decoded.strip() == "hilly"
    config = tmp_path / "tokenizer_config.json"
    tokens = [{"content": "covid", "lstrip": False}, "entity"]  # as transformers writes them
    values = {**json.loads(config.read_text()), "additional_special_tokens": tokens}
    config.write_text(json.dumps(values))
    again = AlbertTokenizer.from_pretrained(tmp_path)
    assert again.additional_special_tokens == ["covid", "entity"]
    assert again.additional_special_tokens_ids == [len(larger) - 2, len(larger)]


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


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
@pytest.mark.parametrize(
    "place",
    ["added_tokens.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"],
)
def test_tokens_beside_a_vocabulary(place, kind, tokenizer, chinese, tmp_path):
    source = chinese if kind == "wordpiece" else tokenizer
    source.save_vocabulary(tmp_path)
    size = len(source)
    first = "Entity" if kind == "wordpiece" else "[E1]"  # WordPiece cuts at every mark
    added = [(first, size, {"special": True}), ("covid", size + 1, {}), ("hilly", size + 2, {})]
    write(tmp_path, place, added)
    loaded = AlbertTokenizer.from_pretrained(tmp_path)
    assert len(loaded) == size + 3
    text = f"a {first} hilly covid"
    first = first.lower()
    ids = loaded.encode(text, add_special_tokens=False)
    assert [index for index in ids if index >= size] == [size, size + 2, size + 1]
    in_graph = AlbertPreprocessor(loaded, 16)([text])["input_ids"].numpy()[0]
    assert in_graph[1 : 1 + len(ids)].tolist() == ids
    if place in ("tokenizer.json", "tokenizer_config.json"):
        assert loaded.additional_special_tokens == [first]
    loaded.save_pretrained(tmp_path / "again")
    assert AlbertTokenizer.from_pretrained(tmp_path / "again").encode(text)[1:-1] == ids


@pytest.mark.parametrize(
    ("tokens", "rule"),
    [
        ([("covid", 3, {})], "must be the token with its id"),
        ([("covid", 1, {})], "must have the next id"),
        ([("[SEP]", 0, {})], "must be the token with its id"),
        ([("COVID", 0, {}), ("covid", 1, {})], "must have a spelling of its own, not 'covid'"),
        ([("covid", 0, {"single_word": True})], "anywhere in a text, without single_word"),
        ([("[MASK]x", 0, {})], "Choose another one"),
        ([("covid", "x", {})], "must have a text and an id"),
    ],
)
def test_tokens_that_cannot_be_read(tokens, rule, tokenizer, tmp_path):
    tokenizer.save_vocabulary(tmp_path)
    size = 0 if "token with its id" in rule else len(tokenizer)
    numbered = [
        (text, number if isinstance(number, str) else size + number, more)
        for text, number, more in tokens
    ]
    write(tmp_path, "tokenizer_config.json", numbered)
    with pytest.raises(UserError, match=rule):
        AlbertTokenizer.from_pretrained(tmp_path)


@pytest.mark.peers
def test_added_tokens_of_transformers(tmp_path):
    """Tokens that transformers adds and saves beside the vocabulary have its ids."""
    transformers = pytest.importorskip("transformers", reason="needs albert_tf[peers]")
    ours = AlbertTokenizer.from_pretrained("small")
    ours.save_pretrained(tmp_path / "plain")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "plain")
    assert theirs.add_tokens(["[E1]", "covid"]) == 2
    theirs.save_pretrained(tmp_path / "added")
    ours.save_vocabulary(tmp_path / "added")  # transformers 5 writes none
    loaded = AlbertTokenizer.from_pretrained(tmp_path / "added")
    assert len(loaded) == len(theirs) == len(ours) + 2
    for text in ("[E1] the covid", "covid", "the old covid ward [E1]"):
        found = [index for index in loaded.encode(text) if index >= len(ours)]
        assert found == [index for index in theirs.encode(text) if index >= len(ours)]
        assert found


def test_a_model_takes_them(larger, small_config):
    from albert_tf.models import AlbertModel
    from albert_tf.text.tokenizer import check_fit

    model = AlbertModel(small_config.replace(vocab_size=len(larger) - len(ADDED)))
    with pytest.raises(UserError, match=r"resize_token_embeddings\(len\(tokenizer\)\)"):
        check_fit(larger, model.config, 8)
    model.resize_token_embeddings(len(larger))
    check_fit(larger, model.config, 8)
    model(larger("covid", return_tensors="np"))


def test_old_names_of_calls(tokenizer):
    pairs = [("the hill", "a"), ("on", "books sold")]
    wanted = tokenizer(["the hill", "on"], ["a", "books sold"], padding=True)
    assert tokenizer(pairs, padding=True) == wanted
    assert tokenizer.batch_encode_plus(pairs, padding=True) == wanted
    assert tokenizer.encode_plus("a", "on") == tokenizer("a", "on")
    decoded = tokenizer.decode(wanted.input_ids[0], True, clean_up_tokenization_spaces=True)
    assert decoded == "the hill a"


@pytest.mark.peers
def test_tensors_of_torch(tokenizer):
    torch = pytest.importorskip("torch", reason="needs torch (pip install albert_tf[torch])")
    tensors = tokenizer(["a", "the hill"], padding=True, return_tensors="pt")
    arrays = tokenizer(["a", "the hill"], padding=True, return_tensors="np")
    assert tensors.input_ids.dtype == torch.int64
    assert tensors.input_ids.tolist() == arrays.input_ids.tolist()
    assert tokenizer.batch_decode(tensors.input_ids) == tokenizer.batch_decode(arrays.input_ids)
    assert (
        tokenizer.pad({"input_ids": tensors.input_ids})["input_ids"] == tensors.input_ids.tolist()
    )


def test_without_torch(tokenizer, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(UserError, match="'pt' needs torch. .*Install torch, or use 'np'"):
        tokenizer("a", return_tensors="pt")
