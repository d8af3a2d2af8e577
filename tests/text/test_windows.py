"""Truncation, and the windows of long texts."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.tokens import Tokens
from albert_tf.text.windows import (
    NO_WORD,
    deciding_tokens,
    default_stride,
    kept_lengths,
    windows,
    word_windows,
)


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


@pytest.mark.parametrize("side", ["right", "left"])
def test_windows_cover_a_text_and_share_the_stride(side):
    spans = list(windows(17, 7, 3, side))
    assert set().union(*(range(*span) for span in spans)) == set(range(17))
    first = {"right": (0, 7), "left": (10, 17)}[side]
    assert spans[0] == first
    for one, other in pairwise(spans):
        assert len({*range(*one)} & {*range(*other)}) == 3
    with pytest.raises(ValueError, match="less than 7, .*stride=7"):
        list(windows(17, 7, 7))
    with pytest.raises(UserError, match="max_length leaves no room"):
        list(windows(17, 0, 0))


def test_windows_cut_a_text_given_as_words(tokenizer):
    words = ["the", "old", "library", "on", "a", "hill"] * 4
    [tokens] = tokenizer.tokens_of_words([words], split_special=True, with_offsets=False)
    options = {"max_length": 9, "truncation": True, "stride": 2, "return_overflowing_tokens": True}
    encoding = tokenizer(words, is_split_into_words=True, **options)
    spans = word_windows(tokens, 9, stride=2)
    assert len(spans) == len(encoding.input_ids)
    for row, (start, end) in enumerate(spans):
        assert start == row * 5
        assert encoding.word_ids(row) == [None, *tokens.words[start:end], None]
        assert encoding.input_ids[row][1:-1] == tokens.ids[start:end].tolist()


def test_the_default_stride_is_a_quarter_of_a_short_window():
    assert [default_stride(length) for length in (3, 10, 128, 512)] == [0, 2, 31, 64]
    spans = word_windows(Tokens(np.zeros(400, np.int32)), 258)
    assert spans == [(0, 256), (192, 400)]


def test_the_token_with_the_most_context_decides():
    words = np.array([0, 0, 1, 2, 2, 3, 4, 5, 5])
    decided = deciding_tokens(words, [(0, 6), (3, 9)])
    n = NO_WORD
    assert [row.tolist() for row in decided] == [[0, n, 1, 2, n, n], [n, n, 3, 4, 5, n]]


def test_each_token_is_decided_once_by_the_first_window_with_the_most_context():
    generator = np.random.default_rng(3)
    for _ in range(50):
        length, size = generator.integers(1, 40), generator.integers(2, 12)
        spans = list(windows(length, size, generator.integers(0, size)))
        found = deciding_tokens(np.arange(length), spans)
        for token in range(length):
            contexts = [
                min(token - start if start else 99, end - 1 - token if end < length else 99)
                if start <= token < end
                else -1
                for start, end in spans
            ]
            decided = [token in row for row in found]
            assert decided.index(True) == np.argmax(contexts) and sum(decided) == 1


def test_windows_of_a_long_text_take_memory_in_proportion():
    spans = list(windows(40_000, 254, 31))
    tracemalloc.start()
    deciding_tokens(np.arange(40_000), spans)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000 * 100  # bytes; a number per token and window takes 58 MB


def test_an_answer_is_found_in_the_windows_of_a_long_context(tokenizer):
    filler = "the old library on a hill sold books " * 200
    answer = "Cafe\u0301 ﬁne ÜBER"
    context = f"{filler}{answer} {filler}"
    options = {"truncation": "only_second", "max_length": 64, "stride": 20}
    options |= {"return_overflowing_tokens": True, "return_offsets_mapping": True}
    encoding = tokenizer("a hill", context, **options)
    ends = len(filler), len(filler) + len(answer) - 1
    found = []
    for row, offsets in enumerate(encoding.offset_mapping):
        places = [encoding.char_to_token(row, character, 1) for character in ends]
        if None not in places:
            first, last = places
            found.append(context[offsets[first][0] : offsets[last][1]])
    assert set(found) == {answer}
