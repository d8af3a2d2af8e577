"""Hugging Face's further methods; reference values are those of transformers 4.57.6."""

import copy

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer


@pytest.fixture(scope="module")
def tokenizer():
    """Every word of the fixture `words` is one token."""
    return AlbertTokenizer.from_pretrained("small")


@pytest.fixture(scope="module")
def words():
    return ["cat", "sat", "mat", "paris", "lives"]


def test_positions_words_and_characters(tokenizer, words):
    """The first argument is the index of a sequence. Without it, the methods use sequence 0."""
    first, second = f"{words[0]} {words[1]}", f"{words[2]}  {words[3]} {words[4]}"
    place = second.index(words[3])
    pair = tokenizer(["x", first], ["y", second], padding=True)
    at = pair["token_type_ids"][1].index(1) + 1  # of words[3]
    assert pair.word_ids(1)[at] == pair.token_to_word(1, at) == 1
    assert (pair.token_to_sequence(1, 1), pair.token_to_sequence(1, at)) == (0, 1)
    assert pair.token_to_chars(1, at) == (place, place + len(words[3]))
    assert pair.token_to_chars(1, at).end == pair.word_to_chars(1, 1, 1).end
    assert pair.word_to_tokens(1, 1, 1) == pair.word_to_tokens(1, 1, sequence_index=1)
    assert pair.word_to_tokens(1, 1, 1) == (at, at + 1)
    assert pair.word_to_tokens(1, 1).start == pair.char_to_token(1, len(words[0]) + 1) == 2
    assert pair.char_to_word(1, place, 1) == pair.char_to_word(1, place + 1, 1) == 1
    assert pair.n_sequences == 2
    with pytest.raises(IndexError, match="Received: 2"):
        pair.word_to_tokens(2, 0)
    one = tokenizer(second)
    assert one.n_sequences == 1
    assert (one.char_to_word(place), one.token_to_word(2), one.word_to_tokens(1)) == (1, 1, (2, 3))
    assert one.token_to_chars(2) == one.word_to_chars(1) == (place, place + len(words[3]))


def test_none_for_special_tokens_padding_and_white_space(tokenizer, words):
    one = tokenizer(f"{words[0]} {words[1]}", padding="max_length", max_length=9)
    for position in (0, 3, 4, 99):
        assert one.token_to_word(position) is one.token_to_sequence(position) is None
        assert one.token_to_chars(position) is None
    for character in (len(words[0]), 99):
        assert one.char_to_word(character) is one.char_to_token(character) is None
    assert one.word_to_tokens(2) is one.word_to_chars(2) is None
    with pytest.raises(UserError, match="must not be negative. Received: -1"):
        one.token_to_word(-1)


def test_words_of_split_texts(tokenizer, words):
    """Characters count from the start of each word."""
    several = f"{words[1]} {words[2]}"
    encoding = tokenizer([[words[0], several], [words[3]]], is_split_into_words=True)
    assert encoding.word_to_tokens(0, 1) == (2, 4)
    assert encoding.word_to_chars(0, 1) == (0, len(several))
    assert encoding.char_to_word(0, 1) == 0


def test_features_on_request(tokenizer, words):
    texts = [" ".join(words), words[0]]
    options = {"padding": True, "return_special_tokens_mask": True, "return_length": True}
    batch = tokenizer(texts, **options)
    width = len(words) + 2
    assert batch["length"] == [width, width]
    assert batch["special_tokens_mask"] == [[1, *[0] * len(words), 1], [1, 0, *[1] * (width - 2)]]
    assert tokenizer(words[0], return_length=True)["length"] == [3]
    arrays = tokenizer(texts, return_tensors="np", **options)
    for name in ("length", "special_tokens_mask"):
        np.testing.assert_array_equal(arrays[name], batch[name])
    left = tokenizer(texts, padding_side="left", **options)
    assert left["special_tokens_mask"][1] == [*[1] * (width - 2), 0, 1]
    assert left["input_ids"][1] == [0] * (width - 3) + tokenizer(words[0]).input_ids
    assert left.char_to_token(1, 0) == width - 2
    masked = tokenizer("x [MASK]", return_special_tokens_mask=True)["special_tokens_mask"]
    assert masked[-2:] == [0, 1]
    names = [*tokenizer("x", return_token_type_ids=None, return_attention_mask=False)]
    assert names == ["input_ids", "token_type_ids"]


def test_pairs_as_lists(tokenizer, words):
    pairs = [(words[0], words[1]), (words[2], "")]
    expected = tokenizer(pairs)
    assert tokenizer([list(pair) for pair in pairs]) == tokenizer([list(pairs[0]), pairs[1]])
    assert tokenizer([list(pair) for pair in pairs]) == expected
    assert 1 in expected.token_type_ids[0]
    for wrong in ([[words[0]]], [words[:3]], [list(pairs[0]), words[2]]):
        with pytest.raises(TypeError, match="a list of pairs.*is_split_into_words"):
            tokenizer(wrong)


def test_tokens_with_special_ones(tokenizer, words):
    one, two = (tokenizer.tokenize(word) for word in words[:2])
    both = tokenizer.tokenize(*words[:2], add_special_tokens=True)
    assert both == ["[CLS]", *one, "[SEP]", *two, "[SEP]"]
    ids = [tokenizer.encode(word) for word in words[:2]]
    assert tokenizer.decode(ids, skip_special_tokens=True) == words[:2]
    assert tokenizer.decode(np.array(ids), True) == words[:2]
    for wrong in (words[0], words):
        with pytest.raises(TypeError, match="must be ids.*convert_tokens_to_string"):
            tokenizer.decode(wrong)


def test_save_vocabulary(tokenizer, tmp_path):
    (plain,) = tokenizer.save_vocabulary(tmp_path)
    (named,) = tokenizer.save_vocabulary(tmp_path, "my")
    assert plain == str(tmp_path / "spiece.model")
    assert named == str(tmp_path / "my-spiece.model")
    loaded = AlbertTokenizer(named)
    assert loaded.vocab_file == named
    assert loaded.model_bytes == tokenizer.model_bytes
    assert AlbertTokenizer(tokenizer.model_bytes).vocab_file is None


def test_features_by_number(tokenizer):
    with pytest.raises(KeyError, match=r"feature 0. Use encoding\['input_ids'\]\[0\]"):
        tokenizer("x")[0]


def test_methods_on_ids(tokenizer):
    mask = tokenizer.get_special_tokens_mask
    assert mask([5, 6, 7]) == [1, 0, 0, 0, 1]
    assert mask([5, 6], [7]) == [1, 0, 0, 1, 0, 1]
    assert mask([2, 5, 4, 3, 0], already_has_special_tokens=True) == [1, 0, 1, 1, 1]
    with pytest.raises(UserError, match="drop token_ids_1"):
        mask([2, 5], [4], already_has_special_tokens=True)
    types = tokenizer.create_token_type_ids_from_sequences
    assert types([5, 6]) == [0, 0, 0, 0]
    assert types([5, 6], [7]) == [0, 0, 0, 0, 1, 1]
    assert types([5, 6], []) == [0, 0, 0, 0, 1]
    assert [tokenizer.num_special_tokens_to_add(pair) for pair in (False, True)] == [2, 3]
    assert (tokenizer.max_len_single_sentence, tokenizer.max_len_sentences_pair) == (254, 253)


def test_added_tokens(tokenizer):
    tokenizer = copy.copy(tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": ["qqq"]})
    size = len(tokenizer)
    special = {"<pad>": 0, "<unk>": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    assert tokenizer.get_added_vocab() == {**special, "qqq": size - 1}
    assert tokenizer.vocab["qqq"] == size - 1
