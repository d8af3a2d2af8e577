"""WordPiece vocabularies: the tokenizer's methods, BERT's rules, reading files, the tables."""

import codecs
import json
import sys
import unicodedata
from itertools import pairwise

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokens import SpecialTokens
from albert_tf.text.wordpiece import (
    ASSIGNED,
    BYTES,
    UNKNOWN,
    Rules,
    Vocabulary,
    WordPieceTokenizer,
    compile_tables,
)
from tests.text.conftest import SPECIAL, vocab_text

pytestmark = pytest.mark.usefixtures("few_characters")
# Pieces by transformers 5.23's BertTokenizer, with the vocabulary of conftest.py.
TABLE = [
    ("北京大学，天气很好！", "北 京 大 学 ， 天 气 很 好 ！"),
    ("The LIBRARY, unaffable", "the library , un ##aff ##able"),
    ("worlding中国world", "wor ##ld ##ing 中 国 wor ##ld"),
    ("É e\u0301 ÉÉ", "e e e ##e"),
    ("a\x00b\u200bc\ufffd d\te", "a ##b ##c d e"),
    ("a" * 100, "a" + " ##a" * 99),
    ("a" * 101, "[UNK]"),
    ("の" * 100 + "。" + "の" * 101, "の" + " ##の" * 99 + " 。 [UNK]"),
    ("😀 龍 a龍b", "[UNK] [UNK] a [UNK] b"),
    ("##ld a##b", "# # l ##d a # # b"),
    ("[MASK]中[CLS] [mask]", "[MASK] 中 [CLS] [ m ##a ##s ##k ]"),
    ("  \u3000\n ", ""),
    ("1999年", "19 ##9 ##9 [UNK]"),
]


def test_pieces(chinese):
    for text, pieces in TABLE:
        assert chinese.tokenize(text) == pieces.split()
        ids = chinese.convert_tokens_to_ids(pieces.split())
        assert chinese(text).input_ids == [101, *ids, 102]


@pytest.mark.parametrize(
    ("options", "pieces"),
    [
        ({"do_lower_case": False}, "Cased É [UNK] 中 国"),
        ({"strip_accents": False}, "c ##a ##s ##e ##d é ñ 中 国"),
        ({"do_lower_case": False, "strip_accents": True}, "Cased [UNK] [UNK] 中 国"),
        ({"tokenize_chinese_chars": False}, "c ##a ##s ##e ##d e n 中 ##国"),
    ],
    ids=str,
)
def test_options(options, pieces):
    """É and ñ are pieces; Ñ, E and N are not."""
    tokenizer = WordPieceTokenizer(vocab_text("google"), **options)
    assert tokenizer.tokenize("Cased É Ñ 中国") == pieces.split()


def test_special_ids_are_the_vocabularys():
    tokenizer = WordPieceTokenizer(vocab_text("last"))
    ids = [len(tokenizer) - number for number in range(1, 6)]
    assert tokenizer.all_special_ids == ids
    pad, unknown, classify, separate, mask = ids
    piece = tokenizer.convert_tokens_to_ids("中")
    assert tokenizer(["中", "[MASK]😀"], ["中", "中"], padding="max_length", max_length=7) == {
        "input_ids": [
            [classify, piece, separate, piece, separate, pad, pad],
            [classify, mask, unknown, separate, piece, separate, pad],
        ],
        "token_type_ids": [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 0]],
        "attention_mask": [[1] * 5 + [0] * 2, [1] * 6 + [0]],
    }
    assert tokenizer.pad({"input_ids": [piece]}, "max_length", 2).input_ids == [piece, pad]
    assert tokenizer.build_inputs_with_special_tokens([7]) == [classify, 7, separate]


def test_decode(chinese):
    ids = chinese("The film, worlding 中国！").input_ids
    assert chinese.decode(ids) == "[CLS] the film, worlding 中 国 ！ [SEP]"
    assert chinese.decode(np.array(ids), skip_special_tokens=True) == "the film, worlding 中 国 ！"


SPANS = {
    "北京，the 😀x\u3000中": ["北", "京", "，", "the", "😀x", "中"],
    "cafe\u0301s É 😀": ["c", "a", "f", "e\u0301", "s", "É", "😀"],
    "a\x00b [MASK] c": ["a\x00", "b", "[MASK]", "c"],
    "é가 the": ["é가", "the"],
    " \x00 ": [],
}


def test_offsets(chinese):
    for text, spans in SPANS.items():
        encoding = chinese(text, return_offsets_mapping=True, add_special_tokens=False)
        assert [text[start:end] for start, end in encoding.offset_mapping] == spans
        assert encoding.input_ids == chinese(text, add_special_tokens=False).input_ids


def test_save_and_load(chinese, tmp_path):
    names = ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json")
    assert chinese.save_pretrained(tmp_path) == tuple(str(tmp_path / name) for name in names)
    again = AlbertTokenizer.from_pretrained(tmp_path / "vocab.txt")
    assert type(again) is WordPieceTokenizer
    assert (again.model_bytes, again.settings) == (chinese.model_bytes, chinese.settings)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "BertTokenizer"
    cased = AlbertTokenizer.from_pretrained(tmp_path, do_lower_case=False, padding_side="left")
    assert (cased.do_lower_case, cased.keep_accents, cased.padding_side) == (False, True, "left")


def test_config_of_transformers(chinese, tmp_path):
    """Special tokens may be objects; unknown keys are ignored, as are arguments without effect."""
    (tmp_path / "vocab.txt").write_bytes(chinese.model_bytes.replace(b"[UNK]", b"<unk>"))
    unknown = {"content": "<unk>", "lstrip": False}
    config = {"do_lower_case": False, "unk_token": unknown, "never_split": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path, do_basic_tokenize=True)
    assert (tokenizer.unk_token, tokenizer.do_lower_case) == ("<unk>", False)
    assert tokenizer("😀").input_ids == [101, 100, 102]


def test_wrong_options(chinese, tmp_path):
    for name in ("pad_token", "eos_token", "do_lower_case"):
        with pytest.raises(UserError, match=f"{name} .*can't be changed"):
            setattr(chinese, name, "[SEP]")
    with pytest.raises(TypeError, match="digit_comma.* do_lower_case, "):
        WordPieceTokenizer(chinese.model_bytes, digit_comma="plain")
    with pytest.raises(UserError, match="do_basic_tokenize must be True"):
        WordPieceTokenizer(chinese.model_bytes, do_basic_tokenize=False)
    with pytest.raises(UserError, match="which doesn't exist. Pass the path of a vocab.txt"):
        WordPieceTokenizer(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_bytes(chinese.model_bytes)
    (tmp_path / "tokenizer_config.json").write_text('{"word_tokenizer_type": "mecab"}')
    with pytest.raises(UserError, match="word_tokenizer_type .* must be basic.*'mecab'"):
        AlbertTokenizer.from_pretrained(tmp_path)


CHARACTERS = {
    **{"a": "a", "A": "a", "É": "e", "İ": "i", "ß": "ß", "Σ": "σ", "가": "\u1100\u1161", "ﬁ": "ﬁ"},
    **{"，": " ， ", "…": " … ", "·": " · ", "$": " $ ", "€": "€", "°": "°", "￥": "￥"},
    **{"中": " 中 ", "\u9fff": " \u9fff ", "\U0002ceaf": " \U0002ceaf ", "\U0002f800": " 丽 "},
    **{"の": "の", "ア": "ア", "\u3005": "\u3005"},  # kana and the sign of repetition
    **dict.fromkeys("\t\u3000\u2028", " "),
    **dict.fromkeys("\u0301\x0b\x85\u200d\ufffd\ue000\U000e0001\U0010fffd", ""),
    "\u0378": "\u0378",  # unassigned
}


def test_characters():
    rules = Rules()
    assert {character: rules(character) for character in CHARACTERS} == CHARACTERS
    assert dict(rules.table())["É"] == "e"
    left_out = [range(one.stop, other.start) for one, other in pairwise(ASSIGNED)]
    categories = {unicodedata.category(chr(point)) for points in left_out for point in points}
    assert categories <= {"Cn", "Cs"} and ASSIGNED[-1].stop == sys.maxunicode + 1


def test_reads_lines_and_tokenizer_json(tmp_path):
    content = vocab_text("google")
    vocabulary = Vocabulary.read(content, {})
    assert vocabulary.special.ids == (0, 100, 101, 102, 103)
    assert vocabulary.tokens[0] == "[PAD]"
    assert bytes(vocabulary) == content
    from_windows = codecs.BOM_UTF8 + content.replace(b"\n", b"\r\n").rstrip()
    (tmp_path / "vocab.txt").write_bytes(from_windows)
    assert Vocabulary.read(tmp_path / "vocab.txt", {}) == vocabulary
    ids = {piece: index for index, piece in reversed(list(enumerate(vocabulary.tokens)))}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"type": "WordPiece", "vocab": ids}}))
    assert Vocabulary.read(path, {}) == vocabulary


def test_line_separators_that_are_pieces_and_pieces_that_repeat():
    """U+2028 and U+0085 do not end a line; a repeated piece has the last id."""
    content = "[PAD]\n\u2028\n\x85\n\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[SEP]\n".encode()
    vocabulary = Vocabulary.read(content, {})
    assert vocabulary.tokens[1:5] == ("\u2028", "\x85", "", "[UNK]")
    assert vocabulary.special.ids == (0, 4, 5, 8, 7)


@pytest.mark.parametrize(
    ("added", "special", "message"),
    [
        (b"a" * 1_000_000, {}, "at most 64 characters.*Received: .*a token of 1,000,000"),
        (b"a", {"mask_token": ""}, "lacks the special tokens ''"),
        (b"a", {"mask_token": "[M]"}, r"lacks the special tokens \[M\]. Use the vocab.txt"),
        (b"\xff", {}, "isn't UTF-8 text .*at byte"),
    ],
)
def test_invalid_vocabularies(added, special, message):
    with pytest.raises(UserError, match=message):
        Vocabulary.read(vocab_text("google") + added, special)


def test_every_character_is_a_code_of_four_bytes():
    tensorflow_text = pytest.importorskip("tensorflow_text")
    vocabulary = Vocabulary((*SPECIAL, "ab", "##中"), SpecialTokens(SPECIAL, (0, 1, 2, 3, 4)))
    model, pieces = compile_tables(vocabulary, Rules())
    assert len(pieces[5].encode()) == 2 * BYTES
    assert pieces[6].startswith("##")
    a, b, chinese = *pieces[5], pieces[6][-1]
    wanted = {"Áb": a + b, "中": f" {chinese} ", "x": UNKNOWN, "a\0b": a + b, "\u0378": UNKNOWN}
    normalizer = tensorflow_text.FastBertNormalizer(model_buffer=model)
    found = normalizer.normalize([*wanted]).numpy().tolist()
    assert found == [text.encode() for text in wanted.values()]


def test_unreachable_pieces():
    """The last of equal pieces matches; the unknown token, an empty line and ## never do."""
    pieces = (*SPECIAL, "a", "a", "", "##", "##a", "[UNK]")
    tokenizer = WordPieceTokenizer("".join(f"{piece}\n" for piece in pieces).encode())
    assert tokenizer.unk_token_id == 10
    assert tokenizer("a aa [UNK] # 1 10", add_special_tokens=False).input_ids == [
        *(6, 6, 9, 10),
        *(10, 10, 10),
    ]
