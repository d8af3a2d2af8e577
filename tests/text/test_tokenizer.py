"""The Python tokenizer's surface."""

import copy
import json
import random
import warnings

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer

CLS, SEP, MASK, PAD, UNK = 2, 3, 4, 0, 1


def test_one_text(tokenizer):
    encoding = tokenizer("The old library")
    ids = tokenizer.encode("The old library", add_special_tokens=False)
    assert encoding == {
        "input_ids": [CLS, *ids, SEP],
        "token_type_ids": [0] * (len(ids) + 2),
        "attention_mask": [1] * (len(ids) + 2),
    }
    assert encoding.input_ids is encoding["input_ids"]
    with pytest.raises(AttributeError, match="no feature 'pixel_values'. Received: input_ids,"):
        _ = encoding.pixel_values


def test_pair_and_batch(tokenizer):
    one, two = (tokenizer.encode(text, add_special_tokens=False) for text in ("the hill", "books"))
    pair = tokenizer("the hill", "books")
    assert pair.input_ids == [CLS, *one, SEP, *two, SEP]
    assert pair.token_type_ids == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    batch = tokenizer(["the hill", "a"], ["books", "on"])
    assert batch.input_ids[0] == pair.input_ids
    assert len(batch.input_ids) == 2
    assert (
        tokenizer(np.array(["the hill", "a"])).input_ids == tokenizer(("the hill", "a")).input_ids
    )
    assert tokenizer([]).input_ids == []


def test_padding(tokenizer):
    texts = ["a", "the old library on a hill"]
    longest = tokenizer(texts, padding=True)
    width = len(tokenizer(texts[1]).input_ids)
    assert [len(row) for row in longest.input_ids] == [width, width]
    assert longest.attention_mask[0] == [int(index != PAD) for index in longest.input_ids[0]]
    fixed = tokenizer(texts, padding="max_length", max_length=41)
    assert [len(row) for row in fixed.input_ids] == [41, 41]
    assert len(tokenizer("a", padding="max_length").input_ids) == tokenizer.model_max_length
    eights = tokenizer(texts, padding="longest", pad_to_multiple_of=8)
    assert len(eights.input_ids[0]) % 8 == 0
    assert [len(row) for row in tokenizer(texts).input_ids] == [
        len(tokenizer("a").input_ids),
        width,
    ]


def test_tensors(tokenizer):
    arrays = tokenizer(["a", "the hill"], padding=True, return_tensors="np")
    assert arrays.input_ids.dtype == np.int32
    assert arrays.input_ids.shape == arrays.attention_mask.shape == arrays.token_type_ids.shape
    tensors = tokenizer("the hill", return_tensors="tf", return_offsets_mapping=True)
    assert tensors.input_ids.shape == (1, len(tokenizer("the hill").input_ids))
    assert tensors.offset_mapping.shape == (*tensors.input_ids.shape, 2)
    with pytest.raises(ValueError, match="Sequences must have the same length.*Use padding=True"):
        tokenizer(["a", "the hill"], return_tensors="np")
    with pytest.raises(ValueError, match="must be None, 'np', 'tf' or 'pt'. Received: 'jax'"):
        tokenizer("a", return_tensors="jax")


def test_truncation(tokenizer):
    long, short = "the old library on a hill sold books", "a hill"
    ids = tokenizer(long, add_special_tokens=False).input_ids
    assert tokenizer(long, truncation=True, max_length=7).input_ids == [CLS, *ids[:5], SEP]
    assert tokenizer(long, max_length=7).input_ids == [CLS, *ids[:5], SEP]
    assert len(tokenizer(long, max_length=7, truncation=False).input_ids) == len(ids) + 2
    second = tokenizer(short, add_special_tokens=False).input_ids
    cut = tokenizer(short, long, truncation="only_second", max_length=len(second) + 3 + 4)
    assert cut.input_ids == [CLS, *second, SEP, *ids[:4], SEP]
    with pytest.raises(ValueError, match="'only_first' must be able to make the texts fit"):
        tokenizer(short, long, truncation="only_first", max_length=len(ids))
    with pytest.raises(ValueError, match="'only_second' must be given pairs"):
        tokenizer(long, truncation="only_second", max_length=5)
    with pytest.raises(ValueError, match="room for 3 special tokens. Received: max_length=2"):
        tokenizer(long, short, truncation=True, max_length=2)
    assert tokenizer(long, short, truncation=True, max_length=3).input_ids == [CLS, SEP, SEP]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"padding": "left"}, "padding must be one of True, False, .* Received: 'left'"),
        ({"truncation": "middle"}, "truncation must be one of .* Received: 'middle'"),
        ({"max_length": 4, "stride": 2, "return_overflowing_tokens": True}, "at least 0.*stride=2"),
    ],
)
def test_wrong_options(tokenizer, option, message):
    with pytest.raises(ValueError, match=message):
        tokenizer("the old library on a hill", **option)


def test_wrong_texts(tokenizer):
    for text in (5, None, {"text": "a"}):
        with pytest.raises(TypeError, match="text must be a text or a list of texts. Received: "):
            tokenizer(text)
    with pytest.raises(
        TypeError, match="must be a str, or bytes in UTF-8. Received: 5 of type int"
    ):
        tokenizer(["a", 5])
    with pytest.raises(ValueError, match="same length. Received: 2 texts and 1 text pairs"):
        tokenizer(["a", "b"], ["c"])
    with pytest.raises(TypeError, match="both be texts or both be lists"):
        tokenizer("a", ["c"])


def test_windows(tokenizer):
    text = "the old library on a hill sold 20,000 books"
    whole = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    rows = tokenizer(
        ["a", text],
        max_length=8,
        truncation=True,
        stride=2,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    assert rows.overflow_to_sample_mapping == [0] + [1] * (len(rows.input_ids) - 1)
    starts = range(0, len(rows.input_ids[1:]) * 4, 4)
    for start, ids, offsets in zip(
        starts, rows.input_ids[1:], rows.offset_mapping[1:], strict=True
    ):
        assert ids == [CLS, *whole.input_ids[start : start + 6], SEP]
        assert offsets == [(0, 0), *whole.offset_mapping[start : start + 6], (0, 0)]
    assert start + 6 >= len(whole.input_ids) > start + 2
    question = tokenizer(
        "a hill", text, max_length=16, truncation="only_second", return_overflowing_tokens=True
    )
    assert len({tuple(row[:4]) for row in question.input_ids}) == 1
    with pytest.raises(ValueError, match="Use 'only_first' or 'only_second'"):
        tokenizer(text, text, max_length=16, truncation=True, return_overflowing_tokens=True)


def spans(tokenizer, text, **options):
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, **options)
    assert encoding.input_ids == tokenizer(text, add_special_tokens=False, **options).input_ids
    return [text[start:end] for start, end in encoding.offset_mapping]


def words_at(tokenizer, text):
    """The raw text joined over the pieces of each word."""
    tokens = tokenizer.tokenize(text)
    words: list[str] = []
    for token, span in zip(tokens, spans(tokenizer, text), strict=True):
        if token.startswith("▁"):
            words.append("")
        words[-1] += span.strip()
    return words


def test_offsets_find_the_raw_words(tokenizer):
    assert words_at(tokenizer, "  The  OLD\u00a0library ") == ["The", "OLD", "library"]
    assert words_at(tokenizer, "n\u00e4\u00efve cafe\u0301 on") == ["näïve", "cafe\u0301", "on"]
    assert words_at(tokenizer, "\tthe\n\u3000hill\n") == ["the", "hill"]
    assert words_at(tokenizer, "old 😀😀 hill") == ["old", "😀😀", "hill"]


def test_offsets_of_characters_that_become_several(tokenizer):
    """Every piece that holds a part of the ligature or fraction has all of it."""
    for text, ends in (("½", "2"), ("ﬁ", "i")):
        tokens = tokenizer.tokenize(text)
        assert "".join(tokens).lstrip("▁")[-1] == ends
        found = [
            span for token, span in zip(tokens, spans(tokenizer, text), strict=True) if token != "▁"
        ]
        assert found == [text] * len(found)
        assert found


def test_offsets_cover_the_text_in_order(tokenizer):
    text = "É\u0301 ﬁne\x00 [MASK] ½😀 \udcff\u200b``x''  19,  end \n"
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    covered, last = set(), 0
    for start, end in encoding.offset_mapping:
        assert 0 <= start <= end <= len(text)
        assert start >= last
        last = start
        covered.update(range(start, end))
    left_out = {text[index] for index in range(len(text)) if index not in covered}
    assert all(character.isspace() or character == "\u200b" for character in left_out)


def test_offsets_of_long_texts(tokenizer, monkeypatch):
    """A long text is normalized in parts, which changes nothing."""
    texts = [
        "the  old library,\u200b on\ta ﬁ hill. " * 9,
        "a" * 99,
        " x" * 30 + "  ",
        "",
        "é " * 40,
    ]
    whole = tokenizer(texts, return_offsets_mapping=True)
    monkeypatch.setattr("albert_tf.text.tokenizer._PART", 5)
    parts = tokenizer(texts, return_offsets_mapping=True)
    assert parts == whole
    assert [parts.word_ids(row) for row in range(5)] == [whole.word_ids(row) for row in range(5)]


def test_special_tokens_inside_text(tokenizer):
    plain = tokenizer.encode("the", add_special_tokens=False)
    hill = tokenizer.encode("hill", add_special_tokens=False)
    for text in ("the [MASK] hill", "the[MASK]hill", "the   [MASK]hill", "the\t[MASK] hill"):
        assert tokenizer.encode(text, add_special_tokens=False) == [*plain, MASK, *hill]
    assert tokenizer.encode("[CLS][SEP]<pad> <unk>", add_special_tokens=False) == [
        CLS,
        SEP,
        PAD,
        UNK,
    ]
    assert spans(tokenizer, "the [MASK] hill")[len(plain)] == "[MASK]"
    for ids in (
        tokenizer.encode(
            "the [MASK] hill[SEP]", add_special_tokens=False, split_special_tokens=True
        ),
        AlbertTokenizer(tokenizer.model_bytes, split_special_tokens=True).encode("a [SEP]")[1:-1],
    ):
        assert not {CLS, SEP, MASK, PAD} & set(ids)
    assert MASK not in tokenizer.encode("[mask] [ MASK ]")


def test_decode(tokenizer):
    text = "the old library on a hill"
    ids = tokenizer.encode(text.upper())
    assert tokenizer.decode(ids) == f"[CLS] {text}[SEP]"
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer.decode(np.array(ids), skip_special_tokens=True) == text
    assert tokenizer.batch_decode([ids, [PAD, PAD]], skip_special_tokens=True) == [text, ""]
    assert tokenizer.decode(ids[1]) == tokenizer.convert_tokens_to_string(
        tokenizer.tokenize(text)[:1]
    )
    batch = tokenizer([text, "a"], padding=True, return_tensors="tf")
    assert tokenizer.batch_decode(batch.input_ids, skip_special_tokens=True) == [text, "a"]
    with pytest.raises(
        ValueError, match=rf"An id must be in \[0, {len(tokenizer)}\). Received: 99999"
    ):
        tokenizer.decode([99999])


def test_conversions(tokenizer):
    vocabulary = tokenizer.get_vocab()
    assert len(vocabulary) == len(tokenizer) == tokenizer.vocab_size
    assert tokenizer.convert_tokens_to_ids("[MASK]") == tokenizer.mask_token_id == MASK
    assert tokenizer.convert_tokens_to_ids(["▁", "no such piece"]) == [vocabulary["▁"], UNK]
    assert tokenizer.convert_ids_to_tokens([CLS, vocabulary["▁"]], skip_special_tokens=True) == [
        "▁"
    ]
    assert tokenizer.tokenize("a €", "b")[-1].endswith("b")
    assert tokenizer.all_special_ids == [PAD, UNK, CLS, SEP, MASK]
    assert tokenizer.special_tokens_map["eos_token"] == "[SEP]"


def test_sequences_of_ids(tokenizer):
    assert tokenizer.build_inputs_with_special_tokens([7, 8], [9]) == [CLS, 7, 8, SEP, 9, SEP]
    assert tokenizer.build_inputs_with_special_tokens([7], []) == [CLS, 7, SEP, SEP]


def test_pad(tokenizer):
    rows = [tokenizer("a"), tokenizer("the old hill")]
    padded = tokenizer.pad(rows, return_tensors="np")
    together = tokenizer(["a", "the old hill"], padding=True, return_tensors="np")
    assert {name: array.tolist() for name, array in padded.items()} == {
        name: array.tolist() for name, array in together.items()
    }
    assert tokenizer.pad({"input_ids": [7, 8]}, "max_length", max_length=3) == {
        "input_ids": [7, 8, PAD],
        "attention_mask": [1, 1, 0],
    }
    longer = tokenizer.pad({"input_ids": [[7, 8, 9], [5]]}, "max_length", max_length=2)
    assert longer["input_ids"] == [[7, 8, 9], [5, PAD]]
    arrays = tokenizer.pad({"input_ids": np.array([[7, 8]])}, pad_to_multiple_of=3)
    assert arrays["input_ids"] == [[7, 8, PAD]]
    with pytest.raises(ValueError, match="must have input_ids to be padded. Received: labels"):
        tokenizer.pad({"labels": [1]})
    labelled = {"input_ids": [[7], [7, 8]], "labels": [[1], [1, 2]]}
    assert tokenizer.pad(labelled)["labels"] == [[1], [1, 2]]
    with pytest.raises(ValueError, match="labels with lengths 1, 2. Pad them with -100"):
        tokenizer.pad(labelled, return_tensors="np")


def test_save_and_load(tokenizer, tmp_path):
    names = ("spiece.model", "tokenizer_config.json", "special_tokens_map.json")
    assert tokenizer.save_pretrained(tmp_path) == tuple(str(tmp_path / name) for name in names)
    again = AlbertTokenizer.from_pretrained(tmp_path)
    assert again.model_bytes == tokenizer.model_bytes
    assert (
        AlbertTokenizer.from_pretrained(tmp_path / "spiece.model").model_bytes == again.model_bytes
    )
    assert AlbertTokenizer.from_pretrained(tmp_path, model_max_length=64).model_max_length == 64


def test_tokenizer_config_is_honoured(unbaked, tmp_path):
    (tmp_path / "spiece.model").write_bytes(unbaked)
    config = {
        "do_lower_case": False,
        "keep_accents": True,
        "model_max_length": 99,
        "unk_token": "<unk>",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path)
    assert (tokenizer.do_lower_case, tokenizer.keep_accents, tokenizer.model_max_length) == (
        False,
        True,
        99,
    )
    assert AlbertTokenizer.from_pretrained(tmp_path, do_lower_case=True).do_lower_case


def test_settings_that_can_be_assigned(tiny_tokenizer):
    tokenizer = copy.copy(tiny_tokenizer)
    tokenizer.model_max_length, tokenizer.split_special_tokens = 9, True
    assert len(tokenizer("the old library " * 9, truncation=True).input_ids) == 9
    assert tokenizer.sep_token_id not in tokenizer("a [SEP] b", add_special_tokens=False).input_ids
    tokenizer.padding_side = "top"
    with pytest.raises(UserError, match="padding_side must be .* Received: 'top'"):
        tokenizer("a")


def test_a_long_row_is_warned_of_once(tiny_tokenizer, recwarn):
    tokenizer = copy.copy(tiny_tokenizer)
    tokenizer.model_max_length = 8
    text = "the old library " * 9
    tokenizer(text, truncation=True), tokenizer(text, max_length=9), tokenizer(text, verbose=False)
    assert not recwarn
    with pytest.warns(UserWarning, match=r"more than model_max_length=8: .*truncation=True"):
        tokenizer(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer(text)


def test_arguments_of_transformers(tiny_tokenizer, tmp_path):
    tiny_tokenizer.save_pretrained(tmp_path)
    for options in ({"use_fast": True}, {"use_fast": False}, {"trust_remote_code": False}):
        assert AlbertTokenizer.from_pretrained(tmp_path, **options).settings == (
            tiny_tokenizer.settings
        )
    with pytest.raises(UserError, match="trust_remote_code must be False"):
        AlbertTokenizer.from_pretrained(tmp_path, trust_remote_code=True)


def test_arrays_and_lists_agree(tokenizer):
    """Random batches: long and empty texts, pairs, either side, windows."""
    draw, tokenizer = random.Random(3), copy.copy(tokenizer)
    for _ in range(60):
        texts = ["the old library " * draw.choice((0, 0, 1, 2, 9)) for _ in range(5)]
        others = ["on a hill " * draw.choice((0, 1, 2)) for _ in range(5)]
        options = {
            "text_pair": draw.choice((None, others)),
            "add_special_tokens": draw.random() < 0.7,
            "truncation": draw.choice(("only_first", False)),
            "return_overflowing_tokens": draw.random() < 0.5,
            "return_offsets_mapping": True,
            "max_length": 60,
        }
        lists = tokenizer(texts, **options)
        for side in ("right", "left"):
            tokenizer.padding_side = side
            padded = tokenizer(texts, padding=True, **options)
            arrays = tokenizer(texts, padding=True, return_tensors="np", **options)
            assert {name: values.tolist() for name, values in arrays.items()} == {
                **padded,
                "offset_mapping": [[list(span) for span in row] for row in padded.offset_mapping],
            }
            assert tokenizer.pad(dict(lists)) == padded
            for row, mask in enumerate(arrays.attention_mask.astype(bool)):
                assert arrays.input_ids[row][mask].tolist() == lists.input_ids[row]
                assert arrays.token_type_ids[row][mask].tolist() == lists.token_type_ids[row]
                ids = lists.input_ids[row]
                special = [index in tokenizer.all_special_ids for index in ids]
                assert [text is None for text in lists.sequence_ids(row)] == special


def test_one_sequence_of_a_million_positions(tokenizer):
    encoding = tokenizer("a " * 1_000_001, return_tensors="np", truncation=False, verbose=False)
    assert encoding.input_ids.shape == encoding.attention_mask.shape == (1, 1_000_003)
