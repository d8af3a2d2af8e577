"""WordPiece vocabularies: the tokenizer's methods, BERT's rules, reading files, the tables."""

import json

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.encoding import SpecialTokens
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece import (
    BYTES,
    CODES,
    UNKNOWN,
    Rules,
    Vocabulary,
    WordPieceTokenizer,
    compile_tables,
    is_chinese,
    is_punctuation,
)

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


@pytest.mark.parametrize(("text", "pieces"), TABLE)
def test_pieces(chinese, text, pieces):
    assert chinese.tokenize(text) == pieces.split()
    ids = chinese.convert_tokens_to_ids(pieces.split())
    assert chinese(text).input_ids == [101, *ids, 102]


@pytest.mark.parametrize(
    ("options", "pieces"),
    [
        ({}, "c ##a ##s ##e ##d e n 中 国"),
        ({"do_lower_case": False}, "Cased É [UNK] 中 国"),
        ({"strip_accents": False}, "c ##a ##s ##e ##d é ñ 中 国"),
        ({"do_lower_case": False, "strip_accents": True}, "Cased [UNK] [UNK] 中 国"),
        ({"tokenize_chinese_chars": False}, "c ##a ##s ##e ##d e n 中 ##国"),
    ],
    ids=str,
)
def test_options(vocab_text, options, pieces):
    """É and ñ are pieces; Ñ, E and N are not."""
    tokenizer = WordPieceTokenizer(vocab_text().encode(), **options)
    assert tokenizer.tokenize("Cased É Ñ 中国") == pieces.split()


@pytest.mark.parametrize(
    ("order", "ids"),
    [("google", [0, 100, 101, 102, 103]), ("first", [0, 1, 2, 3, 4]), ("last", None)],
)
def test_special_ids_are_the_vocabularys(vocab_text, order, ids):
    tokenizer = WordPieceTokenizer(vocab_text(order).encode())
    size = len(tokenizer)
    ids = ids or [size - 1, size - 2, size - 3, size - 4, size - 5]
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
    assert tokenizer.pad({"input_ids": [piece]}, max_length=2, padding="max_length") == {
        "input_ids": [piece, pad],
        "attention_mask": [1, 0],
    }
    assert tokenizer.build_inputs_with_special_tokens([7]) == [classify, 7, separate]
    assert tokenizer.bos_token_id == classify


def test_special_tokens_as_plain_text(chinese):
    ids = chinese("[CLS]中[SEP]", split_special_tokens=True).input_ids
    pieces = chinese.convert_ids_to_tokens(ids[1:-1])
    assert " ".join(pieces) == "[ c ##l ##s ] 中 [ s ##e ##p ]"


def test_decode(chinese):
    ids = chinese("The film, worlding 中国！").input_ids
    assert chinese.decode(ids) == "[CLS] the film, worlding 中 国 ！ [SEP]"
    assert chinese.batch_decode(np.array([ids]), skip_special_tokens=True) == [
        "the film, worlding 中 国 ！"
    ]


def spans(tokenizer, text):
    encoding = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    assert encoding.input_ids == tokenizer(text, add_special_tokens=False).input_ids
    return [text[start:end] for start, end in encoding.offset_mapping]


def test_offsets(chinese):
    assert spans(chinese, "北京，the 😀x\u3000中") == ["北", "京", "，", "the", "😀x", "中"]
    assert spans(chinese, "cafe\u0301s É 😀") == ["c", "a", "f", "e\u0301", "s", "É", "😀"]
    assert spans(chinese, "a\x00b [MASK] c") == ["a\x00", "b", "[MASK]", "c"]
    assert spans(chinese, "é가 the") == ["é가", "the"]
    assert spans(chinese, "") == spans(chinese, " \x00 ") == []


def test_bytes_and_surrogates(chinese):
    assert chinese("中é".encode()).input_ids == chinese("中é").input_ids
    for text in (b"a\xff b", "a\udcff b", "a\U0010ffff b"):
        assert chinese.convert_ids_to_tokens(chinese(text).input_ids) == [
            *("[CLS]", "[UNK]", "b", "[SEP]")
        ]


def test_save_and_load(chinese, tmp_path):
    names = ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json")
    assert chinese.save_pretrained(tmp_path) == tuple(str(tmp_path / name) for name in names)
    again = AlbertTokenizer.from_pretrained(tmp_path)
    assert type(again) is WordPieceTokenizer
    assert not isinstance(again, AlbertTokenizer)
    assert repr(again).startswith("WordPieceTokenizer(vocab_size=")
    assert again.model_bytes == chinese.model_bytes == (tmp_path / "vocab.txt").read_bytes()
    assert again.settings == chinese.settings
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "BertTokenizer"
    cased = AlbertTokenizer.from_pretrained(tmp_path, do_lower_case=False, padding_side="left")
    assert (cased.do_lower_case, cased.keep_accents, cased.padding_side) == (False, True, "left")
    assert type(AlbertTokenizer.from_pretrained(tmp_path / "vocab.txt")) is WordPieceTokenizer


def test_config_of_transformers(chinese, tmp_path):
    """Special tokens may be objects; unknown keys are ignored."""
    (tmp_path / "vocab.txt").write_bytes(chinese.model_bytes.replace(b"[UNK]", b"<unk>"))
    config = {
        "tokenizer_class": "BertTokenizerFast",
        "do_lower_case": False,
        "model_max_length": 77,
        "unk_token": {"content": "<unk>", "lstrip": False},
        "never_split": None,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path)
    assert (tokenizer.unk_token, tokenizer.unk_token_id) == ("<unk>", 100)
    assert (tokenizer.do_lower_case, tokenizer.model_max_length) == (False, 77)
    assert tokenizer("😀").input_ids == [101, 100, 102]


def test_wrong_options(chinese, tmp_path):
    with pytest.raises(TypeError, match="options are do_lower_case, .* Received: digit_comma"):
        WordPieceTokenizer(chinese.model_bytes, digit_comma="plain")
    with pytest.raises(UserError, match="which doesn't exist. Give the path of a vocab.txt"):
        WordPieceTokenizer(tmp_path / "vocab.txt")


@pytest.mark.parametrize(
    ("character", "becomes"),
    [
        ("a", "a"),
        ("A", "a"),
        ("É", "e"),
        ("İ", "i"),
        ("\u0301", ""),
        ("ß", "ß"),
        ("Σ", "σ"),
        ("가", "\u1100\u1161"),
        ("ﬁ", "ﬁ"),
        ("，", " ， "),
        ("$", " $ "),
        ("€", "€"),
        ("中", " 中 "),
        ("の", "の"),
        ("\U0002f800", " 丽 "),
        ("\t", " "),
        ("\u3000", " "),
        ("\u2028", " "),
        ("\x0b", ""),
        ("\x85", ""),
        ("\u200d", ""),
        ("\ufffd", ""),
        ("\ue000", ""),
        ("\u0378", "\u0378"),
    ],
)
def test_characters(character, becomes):
    assert Rules()(character) == becomes


def test_punctuation_is_asciis_symbols_and_unicodes():
    assert all(map(is_punctuation, "!+^`~，。…「·"))
    assert not any(map(is_punctuation, "a1￥€°の"))


def test_chinese_is_without_kana_and_hangul():
    assert all(map(is_chinese, "一\u9fff㐀豈\U00020000\U0002ceaf"))
    assert not any(map(is_chinese, "のア가。\u3005"))


def test_table_has_every_character_but_unassigned_planes():
    table = dict(Rules().table())
    assert len(table) > 300_000
    assert (table["中"], table["\U0010fffd"], table["\U000e0001"]) == (" 中 ", "", "")
    assert "\0" not in table
    assert not any(0xD800 <= ord(character) < 0xE000 for character in table)


def test_reads_lines(vocab_text, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(vocab_text().encode())
    vocabulary = Vocabulary.read(tmp_path / "vocab.txt", {})
    assert vocabulary.special.ids == (0, 100, 101, 102, 103)
    assert vocabulary.tokens[0] == "[PAD]"
    assert bytes(vocabulary) == vocab_text().encode()
    windows = vocab_text().replace("\n", "\r\n").rstrip().encode()
    assert Vocabulary.read(windows, {}) == vocabulary


def test_line_separators_that_are_pieces():
    """U+2028 and U+0085 do not end a line: BERT's vocabularies have such pieces."""
    content = "[PAD]\n\u2028\n\x85\n\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n".encode()
    vocabulary = Vocabulary.read(content, {})
    assert vocabulary.tokens[1:5] == ("\u2028", "\x85", "", "[UNK]")


def test_a_repeated_piece_has_the_last_id(vocab_text):
    vocabulary = Vocabulary.read((vocab_text() + "[SEP]\n").encode(), {})
    assert vocabulary.special.ids[3] == len(vocabulary.tokens) - 1


def test_reads_tokenizer_json(vocab_text, tmp_path):
    lines = Vocabulary.read(vocab_text().encode(), {})
    path = tmp_path / "tokenizer.json"
    ids = {piece: index for index, piece in reversed(list(enumerate(lines.tokens)))}
    path.write_text(json.dumps({"model": {"type": "WordPiece", "vocab": ids}}))
    assert Vocabulary.read(path, {}) == lines


@pytest.mark.parametrize(
    "content",
    [
        '{"model": {"vocab": {"[PAD]": 1}}}',
        '{"model": {"vocab": {"[PAD]": []}}}',
        '{"model": {"vocab": {"a\\nb": 0}}}',
        '{"model": {"vocab": {"\\ud800": 0}}}',
        '{"model": {"vocab": [["a", -1.5]]}}',
        '{"model": {"vocab": 5}}',
        '{"model": []}',
        "{}",
    ],
)
def test_other_tokenizer_json(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(UserError, match="vocabulary with ids from 0. Received: .*json"):
        Vocabulary.read(path, {})


def test_damaged_tokenizer_json(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model":' * 100_000)
    with pytest.raises(UserError, match="tokenizer.json must be a JSON object. Received: "):
        Vocabulary.read(path, {})


def test_long_pieces(vocab_text):
    """tensorflow-text takes 64 characters; a vocabulary in another format may be one long line."""
    Vocabulary.read((vocab_text() + "##" + "字" * 62 + "\n").encode(), {})
    with pytest.raises(UserError, match="at most 64 characters.*Received: .*a token of 1,000,000"):
        Vocabulary.read((vocab_text() + "a" * 1_000_000 + "\n").encode(), {})


def test_a_special_token_without_name(vocab_text):
    with pytest.raises(UserError, match="tokens without an empty name"):
        Vocabulary.read((vocab_text() + "\n").encode(), {"mask_token": ""})


def test_invalid_vocabularies(vocab_text, tmp_path):
    content = vocab_text().replace("[MASK]\n", "").encode()
    with pytest.raises(UserError, match=r"276 tokens without \[MASK\]. Use the vocab.txt that"):
        Vocabulary.read(content, {})
    assert Vocabulary.read(content, {"mask_token": "[UNK]"}).special.tokens[4] == "[UNK]"
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\n\x12\x05<pad>\xff\xfe")
    with pytest.raises(UserError, match="text in UTF-8.*vocab.txt, which isn't .*at byte 8"):
        Vocabulary.read(path, {})


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def normalized(model, texts):
    import tensorflow_text

    return tensorflow_text.FastBertNormalizer(model_buffer=model).normalize(texts).numpy().tolist()


def test_every_character_is_a_code_of_four_bytes():
    vocabulary = Vocabulary((*SPECIAL, "ab", "##中"), SpecialTokens(SPECIAL, (0, 1, 2, 3, 4)))
    model, pieces = compile_tables(vocabulary, Rules())
    assert len(pieces[5].encode()) == 2 * BYTES
    assert pieces[6].startswith("##")
    a, b, chinese = *pieces[5], pieces[6][-1]
    texts = ["Áb", "中", "x", "a\0b", "\u0378", ""]
    wanted = [a + b, f" {chinese} ", UNKNOWN, a + b, UNKNOWN, ""]
    assert normalized(model, texts) == [text.encode() for text in wanted]


def test_unreachable_pieces():
    """The last of equal pieces matches; the unknown token, an empty line and ## never do."""
    pieces = (*SPECIAL, "a", "a", "", "##", "##a", "[UNK]")
    tokenizer = WordPieceTokenizer("".join(f"{piece}\n" for piece in pieces).encode())
    assert tokenizer.unk_token_id == 10
    assert tokenizer("a aa [UNK] # 1 10", add_special_tokens=False).input_ids == [
        *(6, 6, 9, 10),
        *(10, 10, 10),
    ]


def test_more_characters_than_codes():
    pieces = (*SPECIAL, *map(chr, range(0x20000, 0x20000 + len(CODES))))
    vocabulary = Vocabulary(pieces, SpecialTokens(SPECIAL, (0, 1, 2, 3, 4)))
    with pytest.raises(UserError, match="may have 65534 different characters. Received: 65547"):
        compile_tables(vocabulary, Rules())
