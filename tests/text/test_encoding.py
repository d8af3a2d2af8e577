"""Encodings: the origin of each position, texts given as words, and padding."""

import copy
import pickle
import random
import string

import numpy as np
import pytest

from albert_tf.text.encoding import kept_lengths
from albert_tf.text.tokenizer import AlbertTokenizer

WORDS = ["The", "old", "library,", "", "sold", "20,000", "Cafe\u0301s", "on hill", " ", "[MASK]"]


def flat(tokenizer, words):
    """Returns the ids of words, each encoded alone, and the index of each piece's word."""
    rows = [tokenizer.encode(word, add_special_tokens=False) for word in words]
    ids = [index for row in rows for index in row]
    return ids, [number for number, row in enumerate(rows) for _ in row]


def test_words(tokenizer):
    ids, numbers = flat(tokenizer, WORDS)
    encoding = tokenizer(WORDS, is_split_into_words=True)
    assert encoding.input_ids == [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
    assert encoding.word_ids() == [None, *numbers, None]
    assert not {3, 8} & set(numbers)
    plain = tokenizer(["the", "old", "library"], is_split_into_words=True)
    assert plain.input_ids == tokenizer("the old library").input_ids


def test_words_of_pairs_and_batches(tokenizer):
    first, second = [WORDS, ["a"], []], [["on", "a"], WORDS, ["hill"]]
    encoding = tokenizer(first, second, is_split_into_words=True, padding=True, return_tensors="np")
    assert encoding.input_ids.shape[0] == 3
    for row, texts in enumerate(zip(first, second, strict=True)):
        (one, a), (two, b) = (flat(tokenizer, words) for words in texts)
        rest = encoding.input_ids.shape[1] - len(one) - len(two) - 3
        assert encoding.word_ids(row) == [None, *a, None, *b, None, *[None] * rest]
        segments = [None, *[0] * len(one), None, *[1] * len(two), None, *[None] * rest]
        assert encoding.sequence_ids(row) == segments
    one = tokenizer(WORDS, ["on", "a"], is_split_into_words=True)
    assert one.input_ids == [index for index in encoding.input_ids[0].tolist() if index]
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
    spans = zip(encoding.word_ids(), encoding.offset_mapping, strict=True)
    found = dict.fromkeys(range(len(WORDS)), "")
    for number, (start, end) in spans:
        if number is not None:
            found[number] += WORDS[number][start:end]
    assert found[6] == "Cafe\u0301s"
    assert (found[0], found[5], found[9]) == ("The", "20,000", "[MASK]")


def test_wrong_words(tokenizer):
    with pytest.raises(TypeError, match="must be a list of words. Received: 'the hill'. Split it"):
        tokenizer("the hill", is_split_into_words=True)
    with pytest.raises(TypeError, match="must be a list of words. Received: 'hill'"):
        tokenizer([["the"], "hill"], is_split_into_words=True)
    with pytest.raises(TypeError, match="must be a list of words. Received: 'a'"):
        tokenizer([["the"]], ["a"], is_split_into_words=True)
    with pytest.raises(TypeError, match="must be a str, or bytes in UTF-8. Received: 5"):
        tokenizer(["the", 5], is_split_into_words=True)
    with pytest.raises(ValueError, match="same length. Received: 2 texts and 1 text pairs"):
        tokenizer([["a"], ["b"]], [["c"]], is_split_into_words=True)


def test_places_of_plain_texts(tokenizer):
    text = "The café, old  hill"
    encoding = tokenizer("on a", text)
    tokens = tokenizer.convert_ids_to_tokens(encoding.input_ids)
    starts = [token.startswith("▁") for token in tokens]
    assert encoding.word_ids().count(None) == 3
    assert max(number for number in encoding.word_ids()[5:] if number is not None) == 3
    for place, (start, segment) in enumerate(zip(starts, encoding.sequence_ids(), strict=True)):
        if segment is not None and start and encoding.word_ids()[place]:
            assert encoding.word_ids()[place] != encoding.word_ids()[place - 1]
    for character in (at for at, each in enumerate(text) if not each.isspace()):
        place = encoding.char_to_token(character, sequence_index=1)
        assert encoding.sequence_ids()[place] == 1
    assert encoding.char_to_token(0) == 1
    assert encoding.char_to_token(999) is None


def test_places_of_a_batch_with_padding(tokenizer):
    texts = ["a", "the old hill"]
    right = tokenizer(texts, padding=True, return_tensors="np")
    on_left = AlbertTokenizer(tokenizer.model_bytes, padding_side="left")
    left = on_left(texts, padding=True, return_tensors="np")
    width = right.input_ids.shape[1]
    assert right.sequence_ids(0) == [None, 0, None, *[None] * (width - 3)]
    assert left.sequence_ids(0) == [*[None] * (width - 3), None, 0, None]
    assert (right.char_to_token(0, 0), left.char_to_token(0, 0)) == (1, width - 2)
    assert left.char_to_token(1, len(texts[1]) - 1) == width - 2
    with pytest.raises(IndexError, match="Received: sequence 2 of 2. Sequences count from 0"):
        right.word_ids(2)


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


def test_questions_on_a_long_context(tokenizer):
    """Finds the answer in the raw text, with accents and ligatures."""
    filler = "the old library on a hill sold books "
    answer = "Cafe\u0301 ﬁne ÜBER"
    context = filler * 1_500 + answer + " " + filler * 1_500
    assert len(context) > 100_000
    start = context.index(answer)
    encoding = tokenizer(
        "a hill",
        context,
        truncation="only_second",
        max_length=64,
        stride=20,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    assert set(encoding.overflow_to_sample_mapping) == {0}
    assert max(map(len, encoding.input_ids)) == 64
    found, covered = [], set()
    for row, offsets in enumerate(encoding.offset_mapping):
        covered.update(offsets)
        ends = start, start + len(answer) - 1
        places = [encoding.char_to_token(row, character, 1) for character in ends]
        if None not in places:
            first, last = places
            found.append(context[offsets[first][0] : offsets[last][1]])
            assert encoding.sequence_ids(row)[first] == encoding.sequence_ids(row)[last] == 1
    assert set(found) == {answer}
    whole = tokenizer(context, truncation=False, return_offsets_mapping=True)
    assert set(whole.offset_mapping) <= covered


@pytest.mark.peers
def test_words_beside_hugging_face(published, tmp_path):
    """Agrees unless a word has one of the 8 user-defined pieces, where theirs starts a new word."""
    transformers = pytest.importorskip(
        "transformers", reason="needs transformers (pip install albert_tf[peers])"
    )
    ours = AlbertTokenizer(published)
    ours.save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    draw = random.Random(8)
    letters = string.ascii_letters + string.digits + "éüßñ½ﬁ" + ",:;!?'/&%$#@"
    known = [
        "The",
        "library",
        "New York",
        "20,000",
        "don't",
        "[MASK]",
        "",
        " ",
        "naïve",
        "http://x",
    ]

    def word():
        if draw.random() < 0.5:
            return draw.choice(known)
        return "".join(draw.choice(letters) for _ in range(draw.randint(1, 9))).replace("''", "")

    batch = [[word() for _ in range(draw.randint(1, 12))] for _ in range(1_000)]
    one, other = (each(batch, is_split_into_words=True, padding=True) for each in (ours, theirs))
    same = [row for row in range(1_000) if one.input_ids[row] == other.input_ids[row]]
    assert len(same) > 900  # Digits before commas are cut otherwise in some words.
    for row in same:
        assert one.word_ids(row) == other.word_ids(row), batch[row]
        assert one.sequence_ids(row) == other.sequence_ids(row)


def test_the_tokenizers_side(tokenizer):
    texts, left = ["a", "the old hill"], AlbertTokenizer(tokenizer.model_bytes, padding_side="left")
    width = len(tokenizer(texts[1]).input_ids)
    rest = [0] * (width - 3)
    encoding = left(texts, padding=True)
    assert encoding.attention_mask[0] == [*rest, 1, 1, 1]
    assert encoding.input_ids[0] == [*rest, *tokenizer("a").input_ids]
    rows = [left(text) for text in texts]
    assert left.pad(rows, padding_side="right") == tokenizer(texts, padding=True)
    assert left.pad(rows) == encoding
    assert left.settings["padding_side"] == "left"
    changed = AlbertTokenizer(tokenizer.model_bytes)
    changed.padding_side = "left"
    assert changed(texts, padding=True) == encoding


def test_wrong_padding(tokenizer):
    with pytest.raises(ValueError, match="must be 'right' or 'left'. Received: 'top'"):
        tokenizer.pad({"input_ids": [7]}, padding_side="top")


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
