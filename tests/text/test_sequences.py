"""Sequences of texts and pairs in one batch."""

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.sequences import EncodedSequence, Positions
from albert_tf.text.tokens import SpecialTokens, Tokens
from albert_tf.text.windows import Truncation, make_sequences

A, B, NOTHING = (Tokens(np.array(ids, np.int32)) for ids in ((8, 8), (9, 10), ()))
TEXTS = [A], [NOTHING, B], [A, NOTHING], [NOTHING]


@pytest.mark.parametrize(
    ("special", "ids", "types"),
    [
        (
            SpecialTokens(),
            ["2 8 8 3", "2 3 9 10 3", "2 8 8 3 3", "2 3"],
            ["0 0 0 0", "0 0 1 1 1", "0 0 0 0 1", "0 0"],
        ),
        (
            SpecialTokens(separators=2),
            ["2 8 8 3", "2 3 3 9 10 3", "2 8 8 3 3 3", "2 3"],
            ["0 0 0 0", "0 0 0 0 0 0", "0 0 0 0 0 0", "0 0"],
        ),
        (None, ["8 8", "9 10", "8 8", ""], ["0 0", "1 1", "0 0", ""]),
    ],
    ids=["one separator", "two separators", "no special tokens"],
)
def test_texts_and_pairs(special, ids, types):
    sequences = [EncodedSequence(texts, special) for texts in TEXTS]
    positions = Positions(sequences)
    for name, expected in (("input_ids", ids), ("token_type_ids", types)):
        rows = positions.split(name)
        assert [row.tolist() for row in rows] == [[*map(int, row.split())] for row in expected]
    alone = [Positions([each]) for each in sequences]
    for name in ("text_ids", "is_text", "special_tokens_mask", "lengths"):
        joined = np.concatenate([getattr(each, name) for each in alone])
        np.testing.assert_array_equal(getattr(positions, name), joined, err_msg=name)


def test_no_sequences():
    assert Positions([]).split("input_ids") == []
    assert make_sequences([], None, SpecialTokens(), Truncation(1)) == []


def test_special_tokens_must_fit():
    for second, least in ((None, 2), ([B], 3)):
        made = make_sequences([A], second, SpecialTokens(), Truncation(least))
        assert len(made[0].input_ids) == least
        with pytest.raises(UserError, match=f"at least {least}, the number of special tokens"):
            make_sequences([A], second, SpecialTokens(), Truncation(least - 1))
