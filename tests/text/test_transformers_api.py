"""Methods on ids and tokens; reference values are those of transformers 4.57.6."""

import copy

import pytest

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer


@pytest.fixture(scope="module")
def tokenizer(words_vocabulary):
    return AlbertTokenizer(words_vocabulary)


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
    assert (tokenizer.max_len_single_sentence, tokenizer.max_len_sentences_pair) == (510, 509)


def test_added_tokens(tokenizer):
    tokenizer = copy.copy(tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": ["qqq"]})
    size = len(tokenizer)
    special = {"<pad>": 0, "<unk>": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    assert tokenizer.get_added_vocab() == {**special, "qqq": size - 1}
    assert tokenizer.vocab["qqq"] == size - 1
