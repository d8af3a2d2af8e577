import pytest

from albert_tf.pipelines.answers import answer, places
from albert_tf.pipelines.spans import Span

CONTEXT = 'The CAT sat, "who barked" at (París) - it didn\'t cost £3.50!'


@pytest.fixture(scope="module")
def encoding(tokenizer):
    return tokenizer(["who sat"], [CONTEXT], return_offsets_mapping=True)


def test_places(encoding):
    found = places(encoding, 0)
    count = len(encoding["input_ids"][0])
    first = encoding["token_type_ids"][0].index(1)
    assert found.possible.tolist() == [False] * first + [True] * (count - first - 1) + [False]
    assert [word is None for word in found.words] == (~found.possible).tolist()
    assert found.offsets[first] == (0, 3)


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        ("CAT", "CAT"),
        ("sat", "sat"),
        ("bark", "barked"),
        ("ís", "París"),
        ("n't", "didn't"),
        ("50", "£3.50"),
        ("-", "-"),
        ("(París)", "(París)"),
        ('barked" at (Par', 'barked" at (París'),
        (",", "sat,"),
    ],
)
def test_answers_are_whole_words_without_the_marks_around_them(encoding, within, expected):
    """What the span itself has stays, marks and all."""
    start = CONTEXT.index(within)
    first = encoding.char_to_token(0, start, sequence_index=1)
    last = encoding.char_to_token(0, start + len(within) - 1, sequence_index=1)
    found = answer(CONTEXT, places(encoding, 0), Span(first, last, 0.5), aligned=True)
    at = CONTEXT.index(expected)
    assert found == {"score": 0.5, "start": at, "end": at + len(expected), "answer": expected}
    plain = answer(CONTEXT, places(encoding, 0), Span(first, last, 0.5), aligned=False)
    assert CONTEXT[plain["start"] : plain["end"]] == plain["answer"]
    assert within in plain["answer"]
    assert plain["answer"] in found["answer"]
