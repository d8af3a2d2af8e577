"""The methods of `WordPieceTokenizer`."""

import json

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece.tokenizer import WordPieceTokenizer

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
    assert tokenizer.get_special_tokens_mask([classify, piece, pad], None, True) == [1, 0, 1]
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
