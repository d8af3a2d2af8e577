import dataclasses
import json

import numpy as np
import pytest

from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.errors import UserError


def test_ngrams_are_rarer_the_longer_they_are():
    """Expects 6/11, 3/11 and 2/11, from section 4.1 of the ALBERT paper."""
    np.testing.assert_allclose(ExampleOptions().ngram_probabilities, [6 / 11, 3 / 11, 2 / 11])
    longer = ExampleOptions(favor_shorter_ngram=False)
    np.testing.assert_allclose(longer.ngram_probabilities, [2 / 11, 3 / 11, 6 / 11])


def test_predictions_follow_the_length():
    assert ExampleOptions().predictions == 77
    assert ExampleOptions(max_seq_length=128).predictions == 19
    assert ExampleOptions(max_predictions_per_seq=20).predictions == 20
    with pytest.raises(UserError, match="Received: max_predictions_per_seq=14, max_seq_length=16"):
        ExampleOptions(max_seq_length=16, max_predictions_per_seq=14)


def test_a_dictionary_and_back():
    options = ExampleOptions(ngram=2, pair_task="nsp", masked_lm_prob=0.2)
    stored = json.loads(json.dumps(dataclasses.asdict(options)))
    assert ExampleOptions.from_dict(stored) == options
    with pytest.raises(UserError, match="unknown options: rhyme"):
        ExampleOptions.from_dict({"rhyme": True, "ngram": 2})
    with pytest.raises(UserError, match="max_seq_length must be between 8 and 2048. Received: 7"):
        ExampleOptions.from_dict({"max_seq_length": 7})
