"""A Unigram `tokenizer.json` becomes a SentencePiece model with the same tokens."""

import json

import pytest

from albert_tf.errors import UserError
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokens import SpecialTokens
from albert_tf.text.vocabulary import USER_DEFINED_PIECES
from tests.conftest import SENTENCES
from tests.text.test_agreement import HARD, mixed_script_strings

TEXTS = [*HARD, *mixed_script_strings(500, seed=3), "``quoted'' and ''''", "9, 19, 1,999,"]
XLM_ROBERTAS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")


def pieces(tokenizer):
    return list(ModelProto.FromString(tokenizer.model_bytes).pieces)


@pytest.fixture
def written(unbaked, unigram_json, tmp_path):
    """Returns a function that writes a changed tokenizer.json, and returns its path."""

    def write(change=lambda content: None, is_xlm_roberta=False, model=unbaked, **files):
        content = unigram_json(model, is_xlm_roberta)
        change(content)
        for name, value in {"tokenizer": content, **files}.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(value))
        return tmp_path / "tokenizer.json"

    return write


def test_equals_the_vocabulary_it_was_made_of(train_sentencepiece, written, tmp_path):
    """The vocabulary has all kinds of pieces, some of which end in a digit and a comma."""
    texts = [*SENTENCES, "in 19, 9, 1,999, and 5,"] * 5
    model = train_sentencepiece(texts, user_defined_symbols=list(USER_DEFINED_PIECES))
    written(model=model)
    ids = []
    for options in ({}, {"digit_comma": "plain"}):
        found = AlbertTokenizer.from_pretrained(tmp_path, **options)
        expected = AlbertTokenizer(model, quotes="huggingface", **options)
        assert pieces(found) == pieces(expected)
        assert found.special == SpecialTokens()
        assert found.settings == {**expected.settings, "model_max_length": found.model_max_length}
        given = [text for text in [*TEXTS, *texts] if text.isascii() and text.isprintable()]
        assert found(given)["input_ids"] == expected(given)["input_ids"]
        ids.append(found(given)["input_ids"])
        found.save_pretrained(tmp_path / "saved")
        saved = AlbertTokenizer.from_pretrained(tmp_path / "saved")
        assert (saved.model_bytes, saved.settings) == (found.model_bytes, found.settings)
    assert ids[0] != ids[1]


def test_accents_are_all_marks(written):
    """Such as the vowel signs of Hindi, which the published form keeps."""
    tokenizer = AlbertTokenizer(written())
    assert tokenizer.tokenize("É e\u0301 \u0915\u093e") == tokenizer.tokenize("e e \u0915")
    assert tokenizer.tokenize("ﬁ 가 각\u0007") == tokenizer.tokenize("fi 가 각")


def test_cased_with_accents(written):
    """SentencePiece's rules compose letters, in both cases."""

    def change(content):
        steps = content["normalizer"]["normalizers"]
        del steps[2:4]

    tokenizer = AlbertTokenizer(written(change))
    assert (tokenizer.keep_accents, tokenizer.do_lower_case) == (True, True)
    for text, same in (("H\u0331", "\u1e96"), ("É", "é"), ("E\u0301", "é")):
        assert tokenizer._processor.normalize(text) == f"▁{same}"


def test_special_tokens_and_pairs_of_xlm_roberta(written, unbaked):
    config = {"tokenizer_class": "XLMRobertaTokenizer", "do_lower_case": True, "sep_token": "</s>"}
    (path := written(is_xlm_roberta=True, tokenizer_config=config))
    (path.parent / "sentencepiece.bpe.model").write_bytes(unbaked)
    tokenizer = AlbertTokenizer.from_pretrained(path.parent)
    last = tokenizer.vocab_size - 1
    assert tokenizer.special == SpecialTokens(XLM_ROBERTAS, (1, 3, 0, 2, last), 2)
    assert (tokenizer.do_lower_case, tokenizer.digit_comma) == (False, "plain")
    one, other = (tokenizer(text, add_special_tokens=False).input_ids for text in ("old", "hill"))
    pair = tokenizer("old", "hill", padding="max_length", max_length=12)
    assert pair["input_ids"] == [0, *one, 2, 2, *other, 2, *[1] * (12 - 4 - len(one + other))]
    assert pair["token_type_ids"] == [0] * 12
    middle = [None, *[0] * len(one), None, None, *[1] * len(other), None]
    assert tokenizer("old", "hill").sequence_ids() == middle
    masked = tokenizer("an <mask> </s> hill")["input_ids"]
    assert masked.count(last) == 1 and masked.count(2) == 2
    assert tokenizer.decode(masked, skip_special_tokens=True) == "an hill"
    tokenizer.save_pretrained(path.parent / "saved")
    saved = AlbertTokenizer.from_pretrained(path.parent / "saved")
    assert saved.special == tokenizer.special
    assert saved(TEXTS, TEXTS[::-1]) == tokenizer(TEXTS, TEXTS[::-1])
    assert saved.add_tokens(["zyx"]) == 1 and saved.special == tokenizer.special
    assert saved("zyx")["input_ids"][-2:] == [last + 1, 2]


@pytest.mark.parametrize("is_xlm_roberta", [False, True])
def test_the_graph_finds_the_same_ids(written, is_xlm_roberta):
    tokenizer = AlbertTokenizer(written(is_xlm_roberta=is_xlm_roberta), split_special_tokens=True)
    ids = tokenizer(TEXTS, add_special_tokens=False)["input_ids"]
    assert tokenizer.in_graph().tokenize(TEXTS).to_list() == ids


def test_added_tokens(written, unbaked):
    """transformers 5 lists all added tokens as additional special tokens."""
    last = ModelProto.FromString(unbaked).pieces[-1].piece

    def change(content):
        vocab, added = content["model"]["vocab"], content["added_tokens"]
        added.append({**added[-1], "id": len(vocab) - 1, "content": last, "special": False})
        added.append({**added[-1], "id": len(vocab), "content": "[NEW]", "special": True})

    config = {"extra_special_tokens": ["[CLS]", last, "[NEW]"]}
    path = written(change, tokenizer_config=config)
    tokenizer = AlbertTokenizer.from_pretrained(path.parent)
    assert tokenizer.additional_special_tokens == ["[NEW]"]
    types = [piece.type for piece in pieces(tokenizer)[-2:]]
    assert types == [ModelProto.SentencePiece.USER_DEFINED, ModelProto.SentencePiece.CONTROL]


def test_rows_without_a_token(written, unbaked):
    """The model of such a checkpoint has more rows than the vocabulary has tokens."""
    size = len(ModelProto.FromString(unbaked).pieces)
    for more, added in {0: 0, 3: 3, 128: 128, 129: 0, -5: 0}.items():
        tokenizer = AlbertTokenizer(written(config={"vocab_size": size + more}))
        assert tokenizer.vocab_size == size + added


def steps(content):
    return content["normalizer"]["normalizers"]


def test_other_forms_of_one_tokenizer(written):
    def change(content):
        strip = {"type": "Strip", "strip_left": False, "strip_right": True}
        replace = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
        steps(content).extend([strip, replace])
        metaspace = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
        content["pre_tokenizer"] = metaspace

    expected, found = AlbertTokenizer(written()), AlbertTokenizer(written(change))
    assert pieces(found) == pieces(expected)
    assert found(TEXTS) == expected(TEXTS)


REJECTED = {
    "normalizer .* Received: .'type': 'NFKC'": lambda c: steps(c).insert(0, {"type": "NFKC"}),
    "normalizer .* Received: .*Prepend": lambda c: steps(c).append({"type": "Prepend"}),
    "normalizer .* Received: .'type': 'StripAccents'": lambda c: steps(c).pop(2),
    "normalizer .* in order": lambda c: steps(c).reverse(),
    "pre_tokenizer .* Metaspace .* Received": lambda c: c.update(pre_tokenizer=None),
    "pre_tokenizer .* Metaspace .*first": lambda c: c.update(
        pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}
    ),
    "post_processor .* a template": lambda c: c["post_processor"]["pair"].pop(),
    "post_processor .* template .* None": lambda c: c.update(post_processor=None),
    "model.byte_fallback": lambda c: c["model"].update(byte_fallback=True),
    r"damaged \(TypeError": lambda c: c["model"].update(unk_id=None),
    r"damaged \(ValueError: \(": lambda c: c["added_tokens"].append(
        {**c["added_tokens"][0], "content": "("}
    ),
    r"damaged \(IndexError": lambda c: c["added_tokens"].append(
        {"id": 10**6, "content": "x", "special": True}
    ),
    "lacks the special tokens <mask>": lambda c: [
        c["added_tokens"].pop(4),
        c["model"]["vocab"].__setitem__(4, ["x", 0.0]),
    ],
    "contains no Unigram vocabulary": lambda c: c["model"].update(type="BPE"),
}


@pytest.mark.parametrize(("message", "change"), REJECTED.items(), ids=range(len(REJECTED)))
def test_other_steps_are_rejected(written, message, change):
    with pytest.raises(UserError, match=message):
        AlbertTokenizer(written(change))


def test_options_that_contradict_the_file_and_a_changed_record(written):
    with pytest.raises(UserError, match="lower_case=True.*Received: lower_case=False"):
        AlbertTokenizer(written(), do_lower_case=False)
    tokenizer = AlbertTokenizer(written(is_xlm_roberta=True))
    proto = ModelProto.FromString(tokenizer.model_bytes)
    last = f",{tokenizer.mask_token_id};"
    proto.normalizer_spec.name = proto.normalizer_spec.name.replace(last, ",999;")
    with pytest.raises(UserError, match="was changed after its normalization"):
        AlbertTokenizer(proto.SerializeToString())
