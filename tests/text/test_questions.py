import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.questions import context_part, question_windows

QUESTION = "who sold the library?"
CONTEXT = "The old   library on a hill in 1999, sold 20,000 books at 7:45. " * 3


def test_windows_are_the_tokenizers(tiny_tokenizer):
    """Compares ids, types, offsets, texts and words with a call of the tokenizer for each."""
    questions, contexts = [QUESTION, "when", QUESTION], [CONTEXT, CONTEXT, "a hill"]
    found = question_windows(tiny_tokenizer, questions, contexts, 40, stride=9)
    assert [len(rows) > 1 for rows in found] == [True, True, False]
    for rows, question, context in zip(found, questions, contexts, strict=True):
        expected = tiny_tokenizer(
            question,
            context,
            truncation="only_second",
            max_length=40,
            stride=9,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        assert [row.input_ids for row in rows] == expected["input_ids"]
        assert [row.token_type_ids for row in rows] == expected["token_type_ids"]
        assert [row.offset_mapping for row in rows] == expected["offset_mapping"]
        for number, row in enumerate(rows):
            assert row.sequence_ids == expected.sequence_ids(number)
            assert row.word_ids == expected.word_ids(number)
            first, offsets = context_part(row)
            assert row.offset_mapping[first : first + len(offsets)] == list(map(tuple, offsets))
            assert row.sequence_ids[first - 1 : first + 1] == [None, 1]


def test_a_long_question_is_cut(tiny_tokenizer, caplog):
    long = "who sold the old library on the hill? " * 9
    cut, whole = question_windows(tiny_tokenizer, [long, "who"], [CONTEXT] * 2, 40, max_question=7)
    (warning,) = caplog.messages
    assert "1 of 2 questions have more than 7 pieces" in warning and "'who sold the old" in warning
    for row in cut:  # the text of 7 pieces, encoded again
        assert 5 + 2 <= context_part(row)[0] <= 7 + 2
    short = question_windows(tiny_tokenizer, [long], [CONTEXT], 20)[0]
    assert 6 + 2 <= context_part(short[0])[0] <= (20 - 3) // 2 + 2
    assert whole[0].input_ids[: context_part(whole[0])[0]] == tiny_tokenizer("who")["input_ids"]


def test_by_default_windows_share_half_of_their_context(tiny_tokenizer):
    first, second = question_windows(tiny_tokenizer, ["who"], [CONTEXT], 40)[0][:2]
    offsets, following = context_part(first)[1], context_part(second)[1]
    assert len(offsets) > 30
    np.testing.assert_array_equal(offsets[len(offsets) - len(offsets) // 2 :][0], following[0])


def test_a_stride_that_leaves_no_room(tiny_tokenizer):
    with pytest.raises(UserError, match="stride=64, .* pieces a window"):
        question_windows(tiny_tokenizer, [QUESTION], [CONTEXT], 40, stride=64)
