import numpy as np
import pytest

from albert_tf.pipelines.spans import Span, beam_spans, best_spans, collected, surest

START = np.array([0.3, -1.2, 2.5, 0.7, 1.9, -0.4, 0.1])
END = np.array([0.9, 0.2, -0.6, 1.4, 2.2, 1.1, -2.0])
POSSIBLE = np.array([False, False, True, True, True, True, False])


def test_best_spans_as_transformers_ranks_them():
    """Reference: `select_starts_ends` of transformers 4.57.1 with these logits and lengths."""
    found, null = best_spans(START, END, POSSIBLE, count=4, longest=3)
    assert [span[:2] for span in found] == [(2, 4), (4, 4), (2, 3), (4, 5)]
    expected = [0.2514404208538156, 0.1379934287489531, 0.11297946383944318, 0.04593402217087774]
    np.testing.assert_allclose([span.score for span in found], expected, rtol=1e-9)
    assert null == pytest.approx(0.007592842796391795, rel=1e-9)


def test_best_spans_by_trying_all():
    generator = np.random.default_rng(11)
    start, end = generator.standard_normal((2, 9))
    possible = generator.random(9) > 0.3
    possible[0] = False
    seen = [0, *np.flatnonzero(possible)]
    starts, ends = (np.exp(logits) / np.exp(logits[seen]).sum() for logits in (start, end))
    expected = sorted(
        (
            Span(int(s), int(e), starts[s] * ends[e])
            for s in seen[1:]
            for e in seen[1:]
            if s <= e < s + 4
        ),
        key=lambda span: -span.score,
    )
    found, null = best_spans(start, end, possible, count=100, longest=4)
    assert [span[:2] for span in found] == [span[:2] for span in expected]
    np.testing.assert_allclose(
        [span.score for span in found], [span.score for span in expected], rtol=1e-9
    )
    assert null == pytest.approx(starts[0] * ends[0])
    assert best_spans(start, end, possible, count=2, longest=4)[0] == found[:2]
    assert best_spans(start, end, np.zeros(9, bool), count=2, longest=4)[0] == []


def test_beam_spans():
    outputs = {
        "start_top_index": np.array([3, 0]),
        "start_top_log_probs": np.log([0.6, 0.3]),
        "end_top_index": np.array([5, 2, 0, 4]),  # of start 3, then of start 0
        "end_top_log_probs": np.log([0.5, 0.4, 0.9, 0.1]),
    }
    possible = np.array([False, False, True, True, True, True])
    assert beam_spans(outputs, possible, longest=3) == [Span(3, 5, pytest.approx(0.3))]
    assert beam_spans(outputs, possible, longest=2) == []
    assert beam_spans(outputs, possible[:5], longest=3) == []  # padding


def answer(text, score, start=0):
    return {"answer": text, "score": score, "start": start}


def test_answers_that_read_alike_add_up_in_a_window():
    found = collected([answer("The cat", 0.4), answer("a", 0.2), answer("the cat", 0.1, 9)])
    assert found == [answer("The cat", pytest.approx(0.5)), answer("a", 0.2)]


def test_the_surest_window_counts():
    windows = [[answer("a", 0.4), answer("b", 0.3)], [answer("A", 0.6, 7)], []]
    assert surest(windows) == [answer("A", 0.6, 7), answer("b", 0.3)]
