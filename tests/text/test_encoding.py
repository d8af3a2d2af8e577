"""Encodings: the origin of each position, texts given as words, and padding."""

import copy
import pickle

import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.windows import kept_lengths

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


def test_words_cut_into_windows(tokenizer):
    words = ["the", "old", "library", "on", "a", "hill"] * 4
    ids, numbers = flat(tokenizer, words)
    options = {"max_length": 9, "truncation": True, "stride": 2, "return_overflowing_tokens": True}
    encoding = tokenizer(words, is_split_into_words=True, **options)
    for row, start in enumerate(range(0, len(ids) - 2, 5)):
        assert encoding.word_ids(row) == [None, *numbers[start : start + 7], None]
        assert encoding.input_ids[row][1:-1] == ids[start : start + 7]


def test_offsets_of_words_count_from_each_word(tokenizer):
    encoding = tokenizer(WORDS, is_split_into_words=True, return_offsets_mapping=True)
    found = [""] * len(WORDS)
    for number, (start, end) in zip(encoding.word_ids(), encoding.offset_mapping, strict=True):
        if number is not None:
            found[number] += WORDS[number][start:end]
    assert found[6] == "Cafe\u0301s"
    assert (found[0], found[3], found[5], found[8], found[9]) == ("The", "", "20,000", "", "[MASK]")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["the hill"], "must be a list of words. Received: 'the hill'. Split it"),
        ([[["the"], "hill"]], "must be a list of words. Received: 'hill'"),
        ([[["the"]], ["a"]], "must be a list of words. Received: 'a'"),
    ],
)
def test_wrong_words(tokenizer, texts, message):
    with pytest.raises(TypeError, match=message):
        tokenizer(*texts, is_split_into_words=True)


def test_words_and_characters_of_plain_texts(tokenizer):
    text = "The café, old  hill"
    encoding = tokenizer("on a", text)
    start = encoding.token_type_ids.index(1)
    pieces = tokenizer.convert_ids_to_tokens(encoding.input_ids[start:-1])
    begins = [piece.startswith("▁") for piece in pieces]
    assert encoding.word_ids()[start:-1] == [sum(begins[: at + 1]) - 1 for at in range(len(begins))]
    assert encoding.word_ids()[-2] == 3
    for word, number in (("The", 0), ("hill", 3)):
        position = encoding.char_to_token(text.index(word), sequence_index=1)
        assert (encoding.sequence_ids()[position], encoding.word_ids()[position]) == (1, number)
    assert encoding.char_to_token(0) == 1
    assert encoding.char_to_token(999) is None


def test_padding_on_the_left(tokenizer):
    texts = ["a", "the old hill"]
    right = tokenizer(texts, padding=True)
    on_left = AlbertTokenizer(tokenizer.model_bytes, padding_side="left")
    left = on_left(texts, padding=True)
    width = len(right.input_ids[0])
    rest = [None] * (width - 3)
    assert left.input_ids[0] == [0] * (width - 3) + tokenizer("a").input_ids
    assert left.attention_mask[0] == [0] * (width - 3) + [1] * 3
    assert right.sequence_ids(0) == [None, 0, None, *rest]
    assert left.sequence_ids(0) == [*rest, None, 0, None]
    assert (right.char_to_token(0, 0), left.char_to_token(0, 0)) == (1, width - 2)
    with pytest.raises(IndexError, match="Received: sequence 2 of 2. Sequences count from 0"):
        right.word_ids(2)
    rows = [on_left(text) for text in texts]
    assert on_left.pad(rows) == left
    assert on_left.pad(rows, padding_side="right") == right
    on_left.padding_side = "right"
    assert on_left(texts, padding=True) == right


def test_copies_have_the_features_alone(tokenizer):
    encoding = tokenizer("the hill")
    for other in (
        pickle.loads(pickle.dumps(encoding)),
        copy.deepcopy(encoding),
        tokenizer.pad(encoding),
    ):
        assert other == encoding
        assert other.input_ids == encoding.input_ids
        with pytest.raises(ValueError, match="known only for the tokenizer's own result"):
            other.word_ids()


def test_an_answer_is_found_in_the_windows_of_a_long_context(tokenizer):
    filler = "the old library on a hill sold books " * 200
    answer = "Cafe\u0301 ﬁne ÜBER"
    context = f"{filler}{answer} {filler}"
    encoding = tokenizer(
        "a hill",
        context,
        truncation="only_second",
        max_length=64,
        stride=20,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    ends = len(filler), len(filler) + len(answer) - 1
    found = []
    for row, offsets in enumerate(encoding.offset_mapping):
        places = [encoding.char_to_token(row, character, 1) for character in ends]
        if None not in places:
            first, last = places
            found.append(context[offsets[first][0] : offsets[last][1]])
    assert set(found) == {answer}


def original_loop(first, second, room):
    """google-research/albert `_truncate_seq_pair`."""
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_longest_first_is_the_original_loop():
    for first in range(14):
        for second in range(14):
            for room in range(20):
                kept = kept_lengths(first, second, room, "longest_first")
                assert kept == original_loop(first, second, room)
