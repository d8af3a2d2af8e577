"""Windows of questions and contexts, and answers from a model's logits."""

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.text.answers import (
    Span,
    best_spans,
    context_part,
    context_positions,
    merge_same_text,
    merge_windows,
    question_windows,
    read_span,
    trimmed,
)
from albert_tf.text.tokenizer import AlbertTokenizer


@pytest.fixture(scope="module")
def tokenizer():
    """Returns a tokenizer in which common words and marks are tokens."""
    return AlbertTokenizer.from_pretrained("small")


START = np.array([0.3, -1.2, 2.5, 0.7, 1.9, -0.4, 0.1])
END = np.array([0.9, 0.2, -0.6, 1.4, 2.2, 1.1, -2.0])
POSSIBLE = np.array([False, False, True, True, True, True, False])


def logits(start, end):
    return {"start_logits": start, "end_logits": end}


def test_best_spans_as_transformers_ranks_them():
    """Reference: `select_starts_ends` of transformers 4.57.1 with these logits and lengths."""
    found, null, null_logit = best_spans(logits(START, END), POSSIBLE, count=4, longest=3)
    assert [span[:2] for span in found] == [(2, 4), (4, 4), (2, 3), (4, 5)]
    expected = [0.2514404208538156, 0.1379934287489531, 0.11297946383944318, 0.04593402217087774]
    np.testing.assert_allclose([span.score for span in found], expected, rtol=1e-9)
    assert null == pytest.approx(0.007592842796391795, rel=1e-9)
    assert [span.logit for span in found] == pytest.approx([4.7, 4.1, 3.9, 3.0])
    assert null_logit == pytest.approx(1.2)


def test_best_spans_by_trying_all():
    generator = np.random.default_rng(11)
    start, end = generator.standard_normal((2, 9))
    possible = generator.random(9) > 0.3
    possible[0] = False
    seen = [0, *np.flatnonzero(possible)]
    starts, ends = (np.exp(logits) / np.exp(logits[seen]).sum() for logits in (start, end))
    expected = {(s, e): starts[s] * ends[e] for s in seen[1:] for e in seen[1:] if s <= e < s + 4}
    padded = logits(*np.pad([start, end], ((0, 0), (0, 3)), constant_values=9.0))
    found, null, _ = best_spans(padded, possible, count=100, longest=4)
    assert {span[:2]: span.score for span in found} == pytest.approx(expected)
    assert found == sorted(found, key=lambda span: -span.score)
    assert null == pytest.approx(starts[0] * ends[0])
    assert best_spans(padded, possible, count=2, longest=4).spans == found[:2]
    assert best_spans(padded, np.zeros(9, bool), count=2, longest=4).spans == []


def test_spans_of_a_beam():
    outputs = {
        "start_top_index": np.array([3, 0]),
        "start_top_log_probs": np.log([0.6, 0.3]),
        "end_top_index": np.array([5, 2, 0, 4]),  # of start 3, then of start 0
        "end_top_log_probs": np.log([0.5, 0.4, 0.9, 0.1]),
        "cls_logits": np.log(3.0),
    }
    possible = np.array([False, False, True, True, True, True])
    found = best_spans(outputs, possible, count=9, longest=3)
    assert found.spans == [Span(3, 5, pytest.approx(0.3), pytest.approx(np.log(0.3)))]
    assert (found.null, found.null_logit) == (pytest.approx(0.75), pytest.approx(np.log(3.0)))
    assert best_spans(outputs, possible, count=9, longest=2).spans == []
    assert best_spans(outputs, possible[:5], count=9, longest=3).spans == []  # padding


def answer(text, score, start=0):
    return {"answer": text, "score": score, "start": start}


def test_answers_with_the_same_text_add_up_in_a_window_and_the_best_window_counts():
    found = merge_same_text([answer("The cat", 0.4), answer("a", 0.2), answer("the cat", 0.1, 9)])
    assert found == [answer("The cat", pytest.approx(0.5)), answer("a", 0.2)]
    windows = [[answer("a", 0.4), answer("b", 0.3)], [answer("A", 0.6, 7)], []]
    assert merge_windows(windows) == [answer("A", 0.6, 7), answer("b", 0.3)]


CONTEXT = 'The CAT sat, "who barked" at (París) - it didn\'t cost £3.50!'


@pytest.fixture(scope="module")
def row(tokenizer):
    return question_windows(tokenizer, ["who sat"], [CONTEXT], 128)[0][0]


def test_context_positions(row):
    found = context_positions(row)
    count = len(row.input_ids)
    first = row.token_type_ids.index(1)
    assert found.possible.tolist() == [False] * first + [True] * (count - first - 1) + [False]
    assert [word is None for word in found.words] == (~found.possible).tolist()
    assert found.offsets[first] == (0, 3)


WHOLE = {
    "CAT": "CAT",
    "sat": "sat",
    "bark": "barked",
    "ís": "París",
    "n't": "didn't",
    "50": "£3.50",
    "-": "-",
    "(París)": "(París)",
    'barked" at (Par': 'barked" at (París',
    ",": "sat,",
}


@pytest.mark.parametrize(("within", "expected"), WHOLE.items())
def test_answers_are_whole_words_without_the_punctuation_around_them(row, within, expected):
    """Keeps the punctuation inside of the span."""
    positions = context_positions(row)
    start = CONTEXT.index(within)
    covering = [
        at
        for at, (first, last) in enumerate(positions.offsets)
        if positions.possible[at] and first < start + len(within) and last > start
    ]
    span = Span(covering[0], covering[-1], 0.5, 0.0)
    found = read_span(CONTEXT, positions, span, aligned=True)
    at = CONTEXT.index(expected)
    assert found == {"score": 0.5, "start": at, "end": at + len(expected), "answer": expected}
    plain = read_span(CONTEXT, positions, span, aligned=False)
    assert CONTEXT[plain["start"] : plain["end"]] == plain["answer"]
    assert within in plain["answer"] and plain["answer"] in found["answer"]


@pytest.mark.parametrize("edge", ["", " ", "\u200b", "\ufeff\xa0", "\u2060\xad\u3000\u200e\x07"])
def test_invisible_characters_at_the_ends_of_an_answer_are_dropped(edge):
    context = f"in {edge}a\u200b b{edge} now"
    start, end = trimmed(context, 2, len(context) - 3)
    assert (context[start:end], start) == ("a\u200b b", 3 + len(edge))
    assert trimmed(context, 2, 3) == (3, 3)


@pytest.mark.parametrize("space", [" ", "\n", "\t", "\xa0"])
def test_white_space_before_a_mark_is_no_part_of_an_answer(tokenizer, space):
    context = CONTEXT.replace(" ", space)
    ((row,),) = question_windows(tokenizer, ["who"], [context], 128)
    positions = context_positions(row)
    at = next(at for at, first in enumerate(positions.offsets) if context[slice(*first)] == "£")
    found = read_span(context, positions, Span(at + 1, at + 1, 0.5, 0.0), aligned=True)
    assert found["answer"] == "£3.50"
    within = context.index("who")
    at = next(at for at, (first, last) in enumerate(positions.offsets) if first <= within < last)
    assert read_span(context, positions, Span(at, at, 0.5, 0.0), aligned=True)["answer"] == "who"


QUESTION = "who sold it?"
LIBRARY = "The old   library on a hill in 1999, sold 20,000 books at 7:45. " * 3


@pytest.mark.parametrize("kind", ["tokenizer", "xlm_roberta"])  # with one separator, or two
def test_windows_are_the_tokenizers(kind, request):
    """Compares ids, types, offsets, texts and words with a call of the tokenizer for each."""
    tokenizer = request.getfixturevalue(kind)
    questions, contexts = [QUESTION, "when", QUESTION], [LIBRARY, LIBRARY, "a hill"]
    found = question_windows(tokenizer, questions, contexts, 40, stride=9)
    assert [len(rows) > 1 for rows in found] == [True, True, False]
    for rows, question, context in zip(found, questions, contexts, strict=True):
        expected = tokenizer(
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


def test_a_long_question_is_cut(tokenizer, caplog):
    long = "who sold the old library on the hill? " * 9
    cut, whole = question_windows(tokenizer, [long, "who"], [LIBRARY] * 2, 40, max_question=7)
    (warning,) = caplog.messages
    assert "1 of 2 questions have more than 7 tokens" in warning and "'who sold the old" in warning
    tokens = tokenizer(long, add_special_tokens=False)["input_ids"]
    for row in cut:
        assert row.input_ids[1 : context_part(row)[0] - 1] == tokens[:7]
    short = question_windows(tokenizer, [long], [LIBRARY], 20)[0]
    assert short[0].input_ids[1 : context_part(short[0])[0] - 1] == tokens[: (20 - 3) // 2]
    assert whole[0].input_ids[: context_part(whole[0])[0]] == tokenizer("who")["input_ids"]


def test_by_default_windows_share_half_of_their_context(tokenizer):
    first, second = question_windows(tokenizer, ["who"], [LIBRARY], 40)[0][:2]
    offsets, following = context_part(first)[1], context_part(second)[1]
    assert len(offsets) > 30
    np.testing.assert_array_equal(offsets[len(offsets) - len(offsets) // 2 :][0], following[0])
    with pytest.raises(UserError, match="stride must be .* less than .*stride=64"):
        question_windows(tokenizer, ["who"], [LIBRARY], 40, stride=64)
