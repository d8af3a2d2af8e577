import json
import logging
import math

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.answers import Decoded, recipe_name
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.questions import Question, encode_questions, find_answer
from albert_tf.text.answers import Answers
from tests.data.conftest import task

CONTEXT = "The old library on a hill in 1999, sold 20,000 books at 7:45 for £3.50 (or €4)."
SQUAD = task("squad")
SHORT = AlbertConfig()
HEAD = AlbertConfig(answerability=True)


def question(answer, context=CONTEXT):
    span = find_answer(context, answer, 0)
    return Question("q", "what was sold?", context, (answer,), span)


NONE = Question("none", "who?", CONTEXT, is_impossible=True)


def encoded(questions, tokenizer, config=SHORT, length=64):
    return encode_questions(questions, tokenizer, length, config.answerability)


def read_back(rows, row, questions):
    """Returns the characters from the labelled start to the labelled end."""
    start, end = (int(rows.labels[f"{name}_positions"][row]) for name in ("start", "end"))
    if start <= 0:
        assert start == end
        return start
    offsets = rows.details[row].offset_mapping
    return questions[rows.examples[row]].context[offsets[start][0] : offsets[end][1]]


@pytest.mark.parametrize(
    "answer", ["20,000", "books", "The", "€4).", "7:45 for £3.50", "hill in 1999", CONTEXT[:60]]
)
def test_labels_are_the_first_and_last_piece_of_the_answer(tiny_tokenizer, answer):
    questions = [question(answer)]
    rows = encoded(questions, tiny_tokenizer, length=256)
    assert len(rows) == 1
    assert read_back(rows, 0, questions) == answer


@pytest.mark.parametrize("answer", ["ibrar", "0,00"])
def test_an_answer_that_ends_within_a_token_has_all_of_it(tiny_tokenizer, answer):
    questions = [question(answer)]
    assert answer in read_back(encoded(questions, tiny_tokenizer, length=256), 0, questions)


def test_windows_without_the_whole_answer_have_cls(tiny_tokenizer):
    questions = [question("sold 20,000 books", CONTEXT * 3), NONE]
    rows = encoded(questions, tiny_tokenizer, HEAD, length=40)
    found = [read_back(rows, row, questions) for row in range(len(rows))]
    first = [text for text, example in zip(found, rows.examples, strict=True) if example == 0]
    assert set(first) == {"sold 20,000 books", 0} and len(first) > 4
    assert set(found[len(first) :]) == {0} and len(found) > len(first) + 1
    impossible = [float(label) for label in rows.labels["is_impossible"]]
    assert impossible == [float(text == 0) for text in found]
    inputs, labels, _ = rows.batch(np.arange(3))
    assert labels["is_impossible"].dtype == "float32"
    # The head scores ends given the true start.
    assert inputs.keys() & labels.keys() == {"start_positions"}


def test_an_answer_longer_than_a_window_does_not_count(tiny_tokenizer, caplog):
    questions = [question(CONTEXT), question("books")]
    with caplog.at_level(logging.WARNING):
        rows = encoded(questions, tiny_tokenizer, HEAD, length=32)
    starts = [int(label) for label in rows.labels["start_positions"]]
    assert set(np.array(starts)[rows.examples == 0]) == {-100}
    assert max(np.array(starts)[rows.examples == 1]) > 0
    assert "answers to 1 of 2 questions don't fit into any window of 32 tokens" in caplog.text


def test_questions_without_labels(tiny_tokenizer):
    rows = encoded([Question("a", "who?", CONTEXT)], tiny_tokenizer)
    assert rows.labels == {}


def outputs(rows, peaks):
    """Returns logits that are high at an answer's first and last token."""
    found = []
    for window in rows.details:
        length = len(window.input_ids)
        starts, ends = np.zeros(length + 3), np.zeros(length + 3)  # with padding
        for begin, end, height in peaks:
            for position in np.flatnonzero(np.array(window.sequence_ids) == 1):
                first, last = window.offset_mapping[position]
                starts[position] += height * (first == begin)
                ends[position] += height * (last == end)
        found.append({"start_logits": starts, "end_logits": ends})
    return found


def test_the_official_answers_of_all_windows(tiny_tokenizer):
    questions = [question("books", CONTEXT + " " + CONTEXT)]
    rows = encoded(questions, tiny_tokenizer, length=48)
    assert len(rows) > 2
    peaks = [(*find_answer(CONTEXT, "1999", 0), 5.0), (*find_answer(CONTEXT, "books", 0), 7.0)]
    ((_, found),) = SQUAD.predictions(questions, rows, outputs(rows, peaks), SHORT)
    assert [(each["answer"], each["score"]) for each in found.best[:3]] == [
        ("books", 14.0),
        ("1999, sold 20,000 books", 12.0),
        ("1999", 10.0),
    ]
    assert found.null_score == -14.0  # [CLS] has 0
    assert len(found.best) >= 20


def test_the_deployed_answers_are_whole_words(tiny_tokenizer):
    questions = [question("library")]
    rows = encoded(questions, tiny_tokenizer, length=256)
    (window,) = rows.details
    start, end = next(
        (start, end)
        for (start, end), text in zip(window.offset_mapping, window.sequence_ids, strict=True)
        if text == 1 and 8 < start < end <= 15  # a later token of "library"
    )
    ((deployed, official),) = SQUAD.predictions(
        questions, rows, outputs(rows, [(start, end, 9.0)]), SHORT
    )
    assert (deployed.text(0.0), official.text(0.0)) == ("library", CONTEXT[start:end].strip())
    assert 0.9 < deployed.best[0]["score"] < 1  # a probability
    scores = SQUAD.scores(Predicted(questions, [Decoded(deployed, official)], SHORT))
    assert scores == {
        **{"f1": 100.0, "exact_match": 100.0},
        **{"official_f1": 0.0, "official_exact_match": 0.0},
    }


def test_the_beam_of_the_original_head(tiny_tokenizer):
    questions = [question("books", CONTEXT)]
    rows = encoded(questions, tiny_tokenizer, HEAD, length=48)
    found = []
    for window, logit in zip(rows.details, (0.5, -2.0, 3.0, 4.0, 5.0), strict=False):
        first = window.sequence_ids.index(1) + 1
        found.append(
            {
                "start_top_index": np.array([first, 0]),
                "start_top_log_probs": np.log([0.25, 0.75]),
                "end_top_index": np.array([first, first + 1, 0, 0]),
                "end_top_log_probs": np.log([0.5, 0.25, 0.5, 0.5]),
                "cls_logits": np.float32(logit),
            }
        )
    ((deployed, official),) = SQUAD.predictions(questions, rows, found, HEAD)
    assert deployed.null_score == official.null_score == -2.0
    assert deployed.best[0]["score"] == pytest.approx(0.125 + 0.0625)  # both are in one word
    assert official.best[0]["score"] == pytest.approx(math.log(0.125))


def answers(text, odds):
    best = [{"answer": text, "score": 1.0}]
    return Decoded(Answers(best, 0.5, odds), Answers(best, 0.5, odds))


def test_scores_of_squad_1():
    examples = [question("books"), question("1999")]
    found = SQUAD.scores(
        Predicted(examples, [answers("The books!", 9.0), answers("in 1999", 9.0)], SHORT)
    )
    assert next(iter(found)) == "f1", "the first selects the best version"
    f1 = pytest.approx(100 * (1 + 2 / 3) / 2)
    official = {"official_f1": f1, "official_exact_match": 50.0}
    assert found == {"f1": f1, "exact_match": 50.0, **official}


def test_scores_of_squad_2():
    examples = [question("books"), question("1999"), NONE, NONE]
    found = [answers("books", 1.0), answers("1999", 3.0), answers("hill", 2.0), answers("x", 4.0)]
    scores = SQUAD.scores(Predicted(examples, found, HEAD))  # with the threshold 0
    assert scores["f1"] == scores["exact_match"] == scores["no_answer_f1"] / 2 == 50.0
    assert scores["has_answer_f1"] == scores["has_answer_exact_match"] == 0.0
    assert scores["best_f1"] == scores["best_exact_match"] == 75.0
    assert scores["best_f1_threshold"] == 1.0
    at_best = SQUAD.scores(Predicted(examples, found, HEAD.replace(thresholds=(1.0,))))
    assert at_best["f1"] == 75.0 and at_best["no_answer_f1"] == 100.0
    assert SQUAD.fit_thresholds(Predicted(examples, found, HEAD)) == {"thresholds": (1.0,)}
    assert SQUAD.fit_thresholds(Predicted(examples[:2], found[:2], HEAD)) == {}


def test_files_of_predictions(tmp_path):
    examples = [Question(name, "who?", CONTEXT) for name in "ab"]
    best = [{"answer": "bücks", "score": 2.0}, {"answer": "hill", "score": 1.0}]
    other = Answers([{"answer": "other", "score": 0.5}], 0.5, 9.0)
    found = [Decoded(other, Answers(best, 0.5, -1.0)), Decoded(other, Answers([], 0.5, 3.0))]
    SQUAD.write(Predicted(examples, found, HEAD), tmp_path)
    read = {path.stem: json.loads(path.read_text("utf-8")) for path in tmp_path.iterdir()}
    assert read["predictions"] == {"a": "bücks", "b": ""}
    assert read["null_odds"] == {"a": -1.0, "b": 3.0}
    first = read["nbest_predictions"]["a"][0]
    assert first == {"text": "bücks", "probability": pytest.approx(0.7310586), "score": 2.0}
    assert read["nbest_predictions"]["b"] == []


@pytest.mark.parametrize(
    ("examples", "head", "expected", "recipe"),
    [
        ([question("books")], None, False, "squad"),
        ([question("books"), NONE], None, True, "squad2"),
        ([question("books"), NONE], "transformers", False, "squad2"),
        ([question("books")], "original", True, "squad"),
    ],
)
def test_the_head_and_the_recipe(examples, head, expected, recipe):
    fields = task("squad", head=head).config_fields(examples)
    assert fields == {"answerability": expected, "problem_type": None}
    assert recipe_name(examples) == recipe
