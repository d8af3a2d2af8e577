import json

import pytest

from albert_tf.errors import UserError
from albert_tf.text import wordpiece
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_json import Normalizer, is_wordpiece, read_normalizer, read_tokens

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
NORMALIZER = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": False,
    "strip_accents": None,
    "lowercase": False,
}
SPLITTER = {"type": "BertPreTokenizer"}


def template(*parts):
    """The post-processor of transformers' BertTokenizer, or another one of these tokens."""

    def part(name, token_type):
        kind = "Sequence" if name in ("A", "B") else "SpecialToken"
        return {kind: {"id": name, "type_id": token_type}}

    pair = [part(name, token_type) for token_type, names in enumerate(parts) for name in names]
    single = [part(name, 0) for name in parts[0]]
    return {"type": "TemplateProcessing", "single": single, "pair": pair}


BERTS = template(("[CLS]", "A", "[SEP]"), ("B", "[SEP]"))
MODEL = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": {token: index for index, token in enumerate(TOKENS)},
}
WHOLE = {
    "normalizer": NORMALIZER,
    "pre_tokenizer": SPLITTER,
    "post_processor": BERTS,
    "model": MODEL,
}


@pytest.fixture
def written(tmp_path):
    """Returns a function that writes a tokenizer.json with other steps, and returns its path."""

    def write(**changes):
        path = tmp_path / "tokenizer.json"
        path.write_text(json.dumps({**WHOLE, **changes}))
        return path

    return write


def test_forms_of_one_tokenizer(written):
    for changes in (
        {},
        {"normalizer": {"type": "Sequence", "normalizers": [NORMALIZER]}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLITTER]}},
        {"post_processor": None},
        {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}},
        {"model": {name: value for name, value in MODEL.items() if name != "type"}},
    ):
        path = written(**changes)
        assert is_wordpiece(json.loads(path.read_text()))
        assert read_tokens(path) == TOKENS
        assert read_normalizer(path, "[CLS]", "[SEP]", "[UNK]") == Normalizer(False, None, False)


NFKC = {"type": "NFKC"}
STEPS = [
    ({"normalizer": None}, "normalizer .* must be a BertNormalizer .* Received: None"),
    ({"normalizer": NFKC}, "normalizer .* must be a BertNormalizer .*'NFKC'"),
    ({"normalizer": {**NORMALIZER, "clean_text": False}}, "normalizer .* with clean_text"),
    ({"normalizer": {**NORMALIZER, "strip_accents": "x"}}, "must be a BertNormalizer"),
    (
        {"normalizer": {"type": "Sequence", "normalizers": [NFKC, NORMALIZER]}},
        "normalizer .* must be a BertNormalizer",
    ),
    ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer .* Received: .*'Whitespace'"),
    ({"post_processor": {"type": "RobertaProcessing"}}, "post_processor .* Received: .*Robe"),
    ({"post_processor": template(("[CLS]", "A"), ("B", "[SEP]"))}, "post_processor .* in BERT"),
    ({"post_processor": 3}, "post_processor .* Received: 3"),
    ({"model": {**MODEL, "unk_token": "a"}}, "model.unk_token .* '.UNK.'. Received: 'a'"),
]
VOCABULARIES = [
    ({**MODEL, "continuing_subword_prefix": "@"}, "model.continuing_subword.* Received: '@'"),
    ({**MODEL, "max_input_chars_per_word": 9}, "model.max_input_chars.* be 100. Received: 9"),
    *(
        ({**MODEL, **change}, "json contains no WordPiece vocabulary")
        for change in (
            *({"vocab": vocab} for vocab in ({"[PAD]": 1}, {"a\nb": 0}, {"\ud800": 0})),
            *({"vocab": [["a", -1.5]]}, {"type": "BPE"}),
        )
    ),
    ([], "json contains no WordPiece vocabulary"),
]


def test_other_steps_and_vocabularies_are_rejected(written):
    for changes, message in STEPS:
        with pytest.raises(UserError, match=message):
            read_normalizer(written(**changes), "[CLS]", "[SEP]", "[UNK]")
    for model, message in VOCABULARIES:
        with pytest.raises(UserError, match=message):
            read_tokens(written(model=model))


@pytest.mark.parametrize(
    ("config", "options", "settings"),
    [
        (None, {}, (False, None, False)),
        ({"tokenizer_class": "BertTokenizer"}, {}, (False, None, False)),
        ({"do_lower_case": True}, {}, (True, None, True)),
        ({"do_lower_case": True, "tokenizer_class": "TokenizersBackend"}, {}, (False, None, False)),
        ({"strip_accents": True}, {}, (False, True, False)),
        ({}, {"do_lower_case": True}, (True, None, True)),
    ],
)
def test_which_file_decides(written, monkeypatch, config, options, settings):
    """As in transformers 5.24: BertTokenizer takes do_lower_case from tokenizer_config.json."""
    monkeypatch.setattr(wordpiece, "WordPiece", lambda *_: None)  # whose tables take a second
    folder = written().parent
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = AlbertTokenizer.from_pretrained(folder, **options)
    names = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
    assert tuple(getattr(tokenizer, name) for name in names) == settings
    assert [tokenizer.settings[name] for name in names] == list(settings)


def test_do_lower_case_replaces_the_steps(written, monkeypatch):
    monkeypatch.setattr(wordpiece, "WordPiece", lambda *_: None)
    path = written(normalizer=None, pre_tokenizer=None)
    with pytest.raises(UserError, match="unless you pass do_lower_case"):
        AlbertTokenizer.from_pretrained(path.parent)
    assert AlbertTokenizer.from_pretrained(path, do_lower_case=False).keep_accents
