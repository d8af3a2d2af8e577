from collections import Counter

import numpy as np
import pytest

from albert_tf.data.pretraining.passages import as_passages

STARTS = np.array([True, True, False, True, True, False])  # of ids 0 … 5


@pytest.fixture
def counts():
    return Counter()


def arrays(*sentences):
    return [np.array(sentence, np.int32) for sentence in sentences]


def test_documents_side_by_side(counts):
    sentences = arrays([1, 2, 2], [3], [], [4, 5])
    whole = as_passages([7, 8, 9], [2, 1, 1], sentences, STARTS, 10, counts)
    assert whole.keys.tolist() == [7, 9]
    assert whole.ids.tolist() == [1, 2, 2, 3, 4, 5]
    assert whole.starts.tolist() == [True, False, False, True, True, False]
    assert whole.bounds.tolist() == [0, 3, 4, 6]
    assert whole.documents.tolist() == [0, 2, 3]
    assert counts == {"tokens": 6, "empty_documents": 1}


def test_a_sentence_begins_with_a_word(counts):
    whole = as_passages([7], [2], arrays([2, 2], [5, 2]), STARTS, 10, counts)
    assert whole.starts.tolist() == [True, False, True, False]


def test_long_sentences_are_cut_between_words(counts):
    sentences = arrays([3], [1, 2, 3, 4, 5, 3, 2, 2, 2, 2, 2, 3], [4])
    whole = as_passages([7, 8], [2, 1], sentences, STARTS, 4, counts)
    assert whole.bounds.tolist() == [0, 1, 4, 6, 10, 13, 14]  # a word of six pieces is cut too
    assert whole.documents.tolist() == [0, 5, 6]
    assert whole.starts[whole.bounds[:-1]].all()
    assert counts["long_sentences"] == 1
    assert counts["tokens"] == 14


def test_nothing_at_all(counts):
    whole = as_passages([7], [0], [], STARTS, 4, counts)
    assert [len(array) for array in whole] == [0, 0, 0, 1, 1]
    assert counts["empty_documents"] == 1
