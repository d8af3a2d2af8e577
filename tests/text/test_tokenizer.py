"""The Python tokenizer's surface."""

import copy
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
    with pytest.raises(AttributeError, match="feature 'pixel_values'. .* input_ids,"):
        _ = encoding.pixel_values


def test_pair_and_batch(tokenizer):
    one, two = (tokenizer.encode(text, add_special_tokens=False) for text in ("the hill", "books"))
    pair = tokenizer("the hill", "books")
    assert pair.input_ids == [CLS, *one, SEP, *two, SEP]
    assert pair.token_type_ids == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    batch = tokenizer(["the hill", "a"], ["books", "on"])
    assert batch.input_ids == [pair.input_ids, tokenizer("a", "on").input_ids]
    assert tokenizer([("the hill", "books"), ("a", "on")]) == batch
    assert tokenizer(np.array(["the hill", "a"])) == tokenizer(["the hill", "a"])


def test_padding(tokenizer):
    texts = ["a", "the old library on a hill"]
    short, long = tokenizer(texts).input_ids
    longest = tokenizer(texts, padding=True)
    assert longest.input_ids == [short + [PAD] * (len(long) - len(short)), long]
    assert longest.attention_mask[0] == [int(index != PAD) for index in longest.input_ids[0]]
    fixed = tokenizer(texts, padding="max_length", max_length=41)
    assert [len(row) for row in fixed.input_ids] == [41, 41]
    assert len(tokenizer("a", padding="max_length").input_ids) == tokenizer.model_max_length
    eights = tokenizer(texts, padding="longest", pad_to_multiple_of=8)
    assert len(eights.input_ids[0]) % 8 == 0


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("framework", ["np", "tf"])
def test_tensors(tokenizer, framework, side):
    """Long and empty texts; the long one in windows."""
    tokenizer = AlbertTokenizer(tokenizer.model_bytes, model_max_length=12, padding_side=side)
    texts = ["the old library " * count for count in (0, 1, 9, 2)]
    options = {"truncation": True, "padding": True, "return_offsets_mapping": True}
    tensors = tokenizer(texts, return_overflowing_tokens=True, return_tensors=framework, **options)
    lists = tokenizer(texts, return_overflowing_tokens=True, **options)
    assert tensors.input_ids.dtype == np.int32
    assert len(tensors.input_ids) > len(texts)
    for name, values in lists.items():
        np.testing.assert_array_equal(tensors[name], values)
    assert tokenizer.batch_decode(tensors.input_ids) == tokenizer.batch_decode(lists.input_ids)
    one = tokenizer("the hill", return_tensors=framework)
    np.testing.assert_array_equal(one.input_ids, [tokenizer("the hill").input_ids])


def test_truncation(tokenizer):
    long, short = "the old library on a hill sold books", "a hill"
    ids = tokenizer(long, add_special_tokens=False).input_ids
    assert tokenizer(long, truncation=True, max_length=7).input_ids == [CLS, *ids[:5], SEP]
    assert tokenizer(long, max_length=7).input_ids == [CLS, *ids[:5], SEP]
    assert len(tokenizer(long, max_length=7, truncation=False).input_ids) == len(ids) + 2
    second = tokenizer(short, add_special_tokens=False).input_ids
    cut = tokenizer(short, long, truncation="only_second", max_length=len(second) + 3 + 4)
    assert cut.input_ids == [CLS, *second, SEP, *ids[:4], SEP]
    assert tokenizer(long, short, truncation=True, max_length=3).input_ids == [CLS, SEP, SEP]


TEXT = "the old library on a hill"
WORDS = {"is_split_into_words": True}


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([TEXT], {"padding": "left"}, "padding must be one of True, .* Received: 'left'"),
        ([TEXT], {"truncation": "middle"}, "truncation must be one of .* Received: 'middle'"),
        ([TEXT], {"return_tensors": "jax"}, "return_tensors must be .*'pt'. Received: 'jax'"),
        ([["a", TEXT]], {"return_tensors": "np"}, "input_ids with .*Use padding=True"),
        ([TEXT], {"max_length": 4, "stride": 2, "return_overflowing_tokens": True}, "stride=2"),
        ([TEXT], {"truncation": "only_second", "max_length": 5}, "'only_second' requires text"),
        (["a", TEXT], {"truncation": "only_first", "max_length": 5}, "'only_first', texts"),
        ([TEXT, TEXT], {"truncation": True, "max_length": 2}, "at least 3, .*max_length=2"),
        ([TEXT, TEXT], {"max_length": 9, "return_overflowing_tokens": True}, "'only_first' or"),
        ([5], {}, "text must be a text or a list of texts. Received: 5"),
        ([{"text": "a"}], {}, "text must be a text or a list of texts. Received: {'text': 'a'}"),
        ([["a", 5]], {}, "must be a str .*Received: 5 of type int"),
        ([["a", "b"], ["c"]], {}, "same length. Received: lengths 2 and 1"),
        (["a", ["c"]], {}, "both be texts or both be lists"),
        (["the hill"], WORDS, "a list of words. Received: 'the hill'. Split"),
        ([[["the"], "hill"]], WORDS, "a list of words. Received: 'hill'"),
        ([[["the"]], ["a"]], WORDS, "a list of words. Received: 'a'"),
    ],
)
def test_wrong_calls(tokenizer, texts, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tokenizer(*texts, **options)


def test_windows(tokenizer):
    text = "the old library on a hill sold 20,000 books"
    ids = tokenizer(text, add_special_tokens=False).input_ids
    options = {"max_length": 8, "truncation": True, "return_overflowing_tokens": True}
    rows = tokenizer(["a", text], stride=2, **options)
    starts = range(0, len(ids) - 2, 4)
    assert rows.input_ids[1:] == [[CLS, *ids[start : start + 6], SEP] for start in starts]
    assert rows.overflow_to_sample_mapping == [0] + [1] * len(starts)


def spans(tokenizer, text, **options):
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, **options)
    assert encoding.input_ids == tokenizer(text, add_special_tokens=False, **options).input_ids
    return [text[start:end] for start, end in encoding.offset_mapping]


RAW_WORDS = {
    "  The  OLD\u00a0library ": ["The", "OLD", "library"],
    "n\u00e4\u00efve cafe\u0301 on": ["näïve", "cafe\u0301", "on"],
    "\tthe\n\u3000hill\n": ["the", "hill"],
    "old 😀😀 hill": ["old", "😀😀", "hill"],
}


def test_offsets_find_the_raw_words(tokenizer):
    for text, words in RAW_WORDS.items():
        found: list[str] = []
        for token, span in zip(tokenizer.tokenize(text), spans(tokenizer, text), strict=True):
            if token.startswith("▁"):
                found.append("")
            found[-1] += span.strip()
        assert found == words
    for text in ("½", "ﬁ"):  # Every piece that holds a part of it has all of it.
        pieces = zip(tokenizer.tokenize(text), spans(tokenizer, text), strict=True)
        assert {span for piece, span in pieces if piece != "▁"} == {text}


def test_offsets_cover_the_text(tokenizer):
    text = "É\u0301 ﬁne\x00 [MASK] ½😀 \udcff\u200b``x''  19,  end \n"
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    covered = {index for start, end in encoding.offset_mapping for index in range(start, end)}
    left_out = {text[index] for index in range(len(text)) if index not in covered}
    assert all(character.isspace() or character == "\u200b" for character in left_out)


def test_offsets_of_long_texts(tokenizer, monkeypatch):
    """A long text is normalized in parts, which changes nothing."""
    texts = ["the  old library,\u200b on\ta ﬁ hill. " * 9, "a" * 99, " x" * 30 + "  ", ""]
    texts += ["é " * 40]
    whole = tokenizer(texts, return_offsets_mapping=True)
    monkeypatch.setattr("albert_tf.text.tokenizer._PART", 5)
    parts = tokenizer(texts, return_offsets_mapping=True)
    assert parts == whole
    assert [parts.word_ids(row) for row in range(5)] == [whole.word_ids(row) for row in range(5)]


def test_special_tokens_inside_text(tokenizer):
    the, hill = (tokenizer.encode(word, add_special_tokens=False) for word in ("the", "hill"))
    for text in ("the [MASK] hill", "the[MASK]hill", "the   [MASK]hill", "the\t[MASK] hill"):
        assert tokenizer.encode(text, add_special_tokens=False) == [*the, MASK, *hill]
    ids = tokenizer.encode("[CLS][SEP]<pad> <unk>", add_special_tokens=False)
    assert ids == [CLS, SEP, PAD, UNK]
    assert spans(tokenizer, "the [MASK] hill")[len(the)] == "[MASK]"
    assert MASK not in tokenizer.encode("[mask] [ MASK ]")
    plain = AlbertTokenizer(tokenizer.model_bytes, split_special_tokens=True)
    ids = plain.encode("the [MASK] hill[SEP]<pad>")
    assert not {CLS, SEP, MASK, PAD} & set(ids[1:-1])
    assert tokenizer.encode("the [MASK] hill[SEP]<pad>", split_special_tokens=True) == ids


def test_decode(tokenizer):
    text = "the old library on a hill"
    ids = tokenizer.encode(text.upper())
    assert tokenizer.decode(ids) == f"[CLS] {text}[SEP]"
    assert tokenizer.decode(ids, True, clean_up_tokenization_spaces=True) == text
    assert tokenizer.decode(np.array(ids), skip_special_tokens=True) == text
    assert tokenizer.batch_decode([ids, [PAD, PAD]], skip_special_tokens=True) == [text, ""]
    first = tokenizer.tokenize(text)[:1]
    assert tokenizer.decode(ids[1]) == tokenizer.convert_tokens_to_string(first)
    with pytest.raises(ValueError, match=rf"in \[0, {len(tokenizer)}\). Received: 99999"):
        tokenizer.decode([99999])


def test_conversions(tokenizer):
    vocabulary = tokenizer.get_vocab()
    assert len(vocabulary) == len(tokenizer) == tokenizer.vocab_size
    assert tokenizer.convert_tokens_to_ids("[MASK]") == tokenizer.mask_token_id == MASK
    assert tokenizer.convert_tokens_to_ids(["▁", "no such piece"]) == [vocabulary["▁"], UNK]
    assert tokenizer.convert_ids_to_tokens([CLS, vocabulary["▁"]], True) == ["▁"]
    assert tokenizer.tokenize("a €", "b")[-1].endswith("b")
    assert tokenizer.all_special_ids == [PAD, UNK, CLS, SEP, MASK]
    assert tokenizer.special_tokens_map["eos_token"] == "[SEP]"
    assert tokenizer.build_inputs_with_special_tokens([7, 8], [9]) == [CLS, 7, 8, SEP, 9, SEP]
    assert tokenizer.build_inputs_with_special_tokens([7], []) == [CLS, 7, SEP, SEP]


def test_pad(tokenizer):
    rows = [tokenizer("a"), tokenizer("the old hill")]
    assert tokenizer.pad(rows) == tokenizer(["a", "the old hill"], padding=True)
    assert tokenizer.pad({"input_ids": [7, 8]}, "max_length", max_length=3) == {
        "input_ids": [7, 8, PAD],
        "attention_mask": [1, 1, 0],
    }
    longer = tokenizer.pad({"input_ids": [[7, 8, 9], [5]]}, "max_length", max_length=2)
    assert longer["input_ids"] == [[7, 8, 9], [5, PAD]]
    arrays = tokenizer.pad({"input_ids": np.array([[7, 8]])}, pad_to_multiple_of=3)
    assert arrays["input_ids"] == [[7, 8, PAD]]
    with pytest.raises(ValueError, match="with input_ids. Received: labels"):
        tokenizer.pad({"labels": [1]})
    labelled = {"input_ids": [[7], [7, 8]], "labels": [[1], [1, 2]]}
    assert tokenizer.pad(labelled)["labels"] == [[1], [1, 2]]
    with pytest.raises(ValueError, match="labels with lengths 1, 2. Pad them with -100"):
        tokenizer.pad(labelled, return_tensors="np")


def test_save_and_load(tokenizer, tmp_path):
    names = ("spiece.model", "tokenizer_config.json", "special_tokens_map.json")
    assert tokenizer.save_pretrained(tmp_path) == tuple(str(tmp_path / name) for name in names)
    for path in (tmp_path, tmp_path / "spiece.model"):
        assert AlbertTokenizer.from_pretrained(path).model_bytes == tokenizer.model_bytes
    assert AlbertTokenizer.from_pretrained(tmp_path, model_max_length=64).model_max_length == 64


def test_settings_that_can_be_assigned(tokenizer):
    tokenizer = copy.copy(tokenizer)
    tokenizer.model_max_length, tokenizer.split_special_tokens = 9, True
    assert len(tokenizer("the old library " * 9, truncation=True).input_ids) == 9
    assert tokenizer.sep_token_id not in tokenizer("a [SEP] b", add_special_tokens=False).input_ids
    tokenizer.padding_side = "top"
    with pytest.raises(UserError, match="padding_side must be .* Received: 'top'"):
        tokenizer("a")


def test_a_long_row_is_warned_of_once(tokenizer, recwarn):
    tokenizer = AlbertTokenizer(tokenizer.model_bytes, model_max_length=8)
    text = "the old library " * 9
    tokenizer(text, truncation=True), tokenizer(text, max_length=9), tokenizer(text, verbose=False)
    assert not recwarn
    with pytest.warns(UserWarning, match=r"model_max_length=8\..*truncation=True"):
        tokenizer(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer(text)


def test_arguments_of_transformers(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AlbertTokenizer.from_pretrained(tmp_path, use_fast=True, trust_remote_code=False)
    assert loaded.settings == tokenizer.settings
    with pytest.raises(UserError, match="trust_remote_code must be False"):
        AlbertTokenizer.from_pretrained(tmp_path, trust_remote_code=True)
