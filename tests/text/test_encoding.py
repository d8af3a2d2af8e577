"""Encodings: the origin of each position, and texts passed as words."""

import copy
import pickle

import numpy as np
import pytest

WORDS = ["The", "old", "library,", "", "sold", "20,000", "Cafe\u0301s", "on hill", " ", "[MASK]"]


def flat(tokenizer, words):
    """Returns the ids of words, each encoded alone, and the index of each piece's word."""
    rows = [tokenizer.encode(word, add_special_tokens=False) for word in words]
    ids = [index for row in rows for index in row]
    return ids, [number for number, row in enumerate(rows) for _ in row]


def test_words_of_pairs_and_batches(tokenizer):
    first, second = [WORDS, ["a"], []], [["on", "a"], WORDS, ["hill"]]
    encoding = tokenizer(first, second, is_split_into_words=True, padding=True, return_tensors="np")
    width = encoding.input_ids.shape[1]
    for row, texts in enumerate(zip(first, second, strict=True)):
        (one, a), (two, b) = (flat(tokenizer, words) for words in texts)
        rest = width - len(one) - len(two) - 3
        ids = [tokenizer.cls_token_id, *one, tokenizer.sep_token_id, *two, tokenizer.sep_token_id]
        assert encoding.input_ids[row].tolist() == [*ids, *[tokenizer.pad_token_id] * rest]
        assert encoding.word_ids(row) == [None, *a, None, *b, None, *[None] * rest]
        segments = [None, *[0] * len(one), None, *[1] * len(two), None, *[None] * rest]
        assert encoding.sequence_ids(row) == segments
    array = tokenizer(np.array(["the", "hill"]), is_split_into_words=True)
    assert array.input_ids == tokenizer("the hill").input_ids


def test_offsets_of_words_count_from_each_word(tokenizer):
    encoding = tokenizer(WORDS, is_split_into_words=True, return_offsets_mapping=True)
    found = [""] * len(WORDS)
    for number, (start, end) in zip(encoding.word_ids(), encoding.offset_mapping, strict=True):
        if number is not None:
            found[number] += WORDS[number][start:end]
    assert found[6] == "Cafe\u0301s"
    assert (found[0], found[3], found[5], found[8], found[9]) == ("The", "", "20,000", "", "[MASK]")


def test_words_of_plain_texts(tokenizer):
    encoding = tokenizer("on a", "The café, old  hill")
    start = encoding.token_type_ids.index(1)
    pieces = tokenizer.convert_ids_to_tokens(encoding.input_ids[start:-1])
    begins = [piece.startswith("▁") for piece in pieces]
    assert encoding.word_ids()[start:-1] == [sum(begins[: at + 1]) - 1 for at in range(len(begins))]
    assert encoding.word_ids()[-2] == 3


def test_copies_have_only_the_features(tokenizer):
    encoding = tokenizer("the hill")
    copies = pickle.loads(pickle.dumps(encoding)), copy.deepcopy(encoding)
    for other in (*copies, tokenizer.pad(encoding)):
        assert other == encoding
        assert other.input_ids == encoding.input_ids
        with pytest.raises(ValueError, match="on the tokenizer's own result"):
            other.word_ids()


@pytest.mark.parametrize("tensors", [None, "np"])
def test_an_empty_batch(tokenizer, tensors):
    options = {"return_offsets_mapping": True, "return_length": True}
    encoding = tokenizer([], padding=True, return_tensors=tensors, **options)
    names = ("input_ids", "token_type_ids", "attention_mask", "offset_mapping", "length")
    assert {name: len(values) for name, values in encoding.items()} == dict.fromkeys(names, 0)
