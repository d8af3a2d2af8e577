"""Extractive question answering: SQuAD 1.1 and 2.0."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.base import Graded, Keys, Outputs, Predicted, Task
from albert_tf.data.tasks.questions import Question, encode_questions, read_questions
from albert_tf.data.tasks.rows import Rows
from albert_tf.evaluation import metrics
from albert_tf.probabilities import sigmoid, softmax
from albert_tf.text.answers import best_spans, context_positions, merge_windows, read_span
from albert_tf.text.encoding import EncodedSequence

ORIGINAL: Final = "original"
TRANSFORMERS: Final = "transformers"
# As in the official scripts.
_ANSWERS: Final = 20  # number of answers to rank
_ANSWER_TOKENS: Final = 30  # maximum tokens in an answer
METRICS: Final = metrics.AnswerScore._fields


class Answers(NamedTuple):
    """A model's answers to one question.

    Attributes:
        best: distinct answers, best first, each with its `answer` and `score`.
        null_score: score to compare with the threshold: the score of "no answer" minus the best
            answer's score, or the answerability logit of the original head.
    """

    best: Sequence[Mapping[str, Any]]
    null_score: float

    def text(self, threshold: float) -> str:
        """Returns the best answer, or "" if the null score is above the threshold."""
        return "" if self.null_score > threshold or not self.best else self.best[0]["answer"]

    def confidence(self, threshold: float) -> float:
        """Returns the probability of `text` among the best answers, or of having no answer."""
        return (
            self.ranked()[0]["probability"]
            if self.text(threshold)
            else float(sigmoid(self.null_score))
        )

    def ranked(self) -> list[dict[str, Any]]:
        """Returns the best answers in the format of nbest_predictions.json."""
        probabilities = softmax([answer["score"] for answer in self.best]) if self.best else []
        return [
            {"text": answer["answer"], "probability": float(share), "score": answer["score"]}
            for answer, share in zip(self.best, probabilities, strict=True)
        ]


class QuestionAnswering(Task[Question, Answers]):
    """Extractive question answering, including unanswerable questions."""

    model = "AlbertForQuestionAnswering"
    more = "*"

    def read(self, path: Path, labelled: bool = True) -> list[Question]:
        skip = self.options.skip_bad_rows if labelled else None
        return read_questions(path, labelled, skip, self.options.encoding)

    def config_fields(self, train: Sequence[Question]) -> dict[str, Any]:
        """Selects the head. Default: "original" if some questions have no answer."""
        some_impossible = any(example.is_impossible for example in train)
        given = self.options.head if isinstance(self.options, LabelledData) else None
        head = given or (ORIGINAL if some_impossible else TRANSFORMERS)
        return {"answerability": head == ORIGINAL, "problem_type": None}

    def encode(
        self, examples: Sequence[Question], tokenizer: Any, config: AlbertConfig, max_length: int
    ) -> Rows:
        return encode_questions(examples, tokenizer, max_length, config.answerability)

    def predictions(
        self, examples: Sequence[Question], rows: Rows, outputs: Outputs, config: AlbertConfig
    ) -> list[Answers]:
        windows: list[list[int]] = [[] for _ in examples]
        for row, example in enumerate(rows.examples):
            windows[example].append(row)
        return [
            self._answers(
                example.context, [(rows.details[row], outputs[row]) for row in numbers], config
            )
            for example, numbers in zip(examples, windows, strict=True)
        ]

    def _answers(
        self,
        context: str,
        windows: Sequence[tuple[EncodedSequence, Mapping[str, np.ndarray]]],
        config: AlbertConfig,
    ) -> Answers:
        """Ranks the answers of all windows by score, as the official scripts do."""
        answers, nulls = [], []
        for row, row_outputs in windows:
            positions = context_positions(row)
            found = best_spans(row_outputs, positions.possible, _ANSWERS, _ANSWER_TOKENS)
            nulls.append(found.null_logit)
            spans = [span._replace(score=span.logit) for span in found.spans]
            texts = [read_span(context, positions, span, aligned=False) for span in spans]
            answers.append([answer for answer in texts if answer["answer"]])
        ranked = merge_windows(answers)[:_ANSWERS]
        ahead = ranked[0]["score"] if ranked and not config.answerability else 0.0
        return Answers(ranked, min(nulls) - ahead)

    def scores(self, predicted: Predicted[Question, Answers]) -> dict[str, float]:
        """Returns the official scores in percent.

        If some questions have no answer, the result includes separate scores for questions with and
        without an answer, and the best scores that a threshold can reach.
        """
        metrics = _score(predicted, answer_threshold(predicted))
        scores = {name: _percent(values) for name, values in metrics.items()}
        possible = np.array([not example.is_impossible for example in predicted.examples])
        if possible.all():
            return scores
        for prefix, chosen in (("has_answer", possible), ("no_answer", ~possible)):
            if chosen.any():
                scores |= {
                    f"{prefix}_{name}": _percent(values[chosen]) for name, values in metrics.items()
                }
        for name, (thresholds, means) in threshold_curves(predicted).items():
            best = int(np.argmax(means))
            scores[f"best_{name}"] = 100 * float(means[best])
            scores[f"best_{name}_threshold"] = float(thresholds[best])
        return scores

    def grade(self, predicted: Predicted[Question, Answers]) -> list[Graded]:
        """Compares answers with all gold answers, but the result contains only the first."""
        threshold = answer_threshold(predicted)
        graded = []
        for example, answers in predicted.pairs:
            answer, confidence = answers.text(threshold), answers.confidence(threshold)
            is_right = bool(metrics.judge(answer, example.golds).exact_match)
            gold = example.golds[0] if example.golds else ""
            graded.append(Graded(self.text(example), gold, answer, confidence, is_right))
        return graded

    def fit_thresholds(self, predicted: Predicted[Question, Answers]) -> dict[str, Any]:
        if not any(example.is_impossible for example in predicted.examples):
            return {}
        thresholds, means = threshold_curves(predicted)["f1"]
        return {"thresholds": (float(thresholds[np.argmax(means)]),)}

    def write(self, predicted: Predicted[Question, Answers], folder: Path) -> None:
        """Writes the same three files as the official scripts, keyed by question id."""
        threshold = answer_threshold(predicted)
        answers = {example.id: answer for example, answer in predicted.pairs}
        files = {
            "predictions": {name: answer.text(threshold) for name, answer in answers.items()},
            "nbest_predictions": {name: answer.ranked() for name, answer in answers.items()},
            "null_odds": {name: answer.null_score for name, answer in answers.items()},
        }
        for name, content in files.items():
            text = json.dumps(content, ensure_ascii=False, indent=1)
            (folder / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")

    def keys(self, examples: Sequence[Question]) -> Keys:
        return Keys(groups=[example.article for example in examples])

    def texts(self, example: Question) -> Iterable[str]:
        return example.question, example.context


def recipe_name(train: Sequence[Question]) -> str:
    """Returns "squad2" if some questions have no answer, and "squad" otherwise."""
    return "squad2" if any(example.is_impossible for example in train) else "squad"


def answer_threshold(predicted: Predicted[Question, Answers]) -> float:
    """Returns the model's threshold. Default: 0, or infinity if every question has an answer."""
    config = predicted.config
    if config.thresholds:
        return config.thresholds[0]
    some_impossible = any(example.is_impossible for example in predicted.examples)
    may_be_none = config.answerability or some_impossible
    return 0.0 if may_be_none else math.inf


def _score(predicted: Predicted[Question, Answers], threshold: float) -> dict[str, np.ndarray]:
    """Returns each metric's values in `[0, 1]`, one per question."""
    scored = [
        metrics.judge(answer.text(threshold), example.golds) for example, answer in predicted.pairs
    ]
    return {name: np.array([getattr(answer, name) for answer in scored]) for name in METRICS}


def threshold_curves(
    predicted: Predicted[Question, Answers],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns thresholds and mean scores for each metric; see `metrics.by_threshold`."""
    null_score = [answer.null_score for answer in predicted.predictions]
    has_answer = [not example.is_impossible for example in predicted.examples]
    return {
        name: metrics.by_threshold(values.tolist(), null_score, has_answer)
        for name, values in _score(predicted, math.inf).items()
    }


def _percent(values: np.ndarray) -> float:
    return 100 * float(np.mean(values))
