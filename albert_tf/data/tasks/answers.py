"""Extractive question answering: SQuAD 1.1 and 2.0."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.base import Graded, Keys, Outputs, Predicted, Task
from albert_tf.data.tasks.questions import Question, encode_questions, read_questions
from albert_tf.data.tasks.rows import Rows
from albert_tf.evaluation.answers import AnswerScore, by_threshold, judge
from albert_tf.probabilities import softmax
from albert_tf.text.answers import (
    DEPLOYED,
    OFFICIAL,
    Answers,
    context_positions,
    find_answers,
)
from albert_tf.text.base_tokenizer import BaseTokenizer

ORIGINAL: Final = "original"
TRANSFORMERS: Final = "transformers"
METRICS: Final = AnswerScore._fields
Curves = dict[str, tuple[np.ndarray, np.ndarray]]  # thresholds and mean scores for each metric


class Decoded(NamedTuple):
    """A model's answers to one question, decoded in two ways.

    Attributes:
        deployed: answers as the pipeline and exported models find them. These answers determine
            the best version of the model and the threshold.
        official: answers as the authors' scripts find them.
    """

    deployed: Answers
    official: Answers


class QuestionAnswering(Task[Question, Decoded]):
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
        self,
        examples: Sequence[Question],
        tokenizer: BaseTokenizer,
        config: AlbertConfig,
        max_length: int,
    ) -> Rows:
        return encode_questions(examples, tokenizer, max_length, config.answerability)

    def predictions(
        self, examples: Sequence[Question], rows: Rows, outputs: Outputs, config: AlbertConfig
    ) -> list[Decoded]:
        return decode(examples, rows, outputs, config)

    def scores(self, predicted: Predicted[Question, Decoded]) -> dict[str, float]:
        """Returns the scores of the answers in percent.

        The prefix `official_` marks the scores of the answers that the authors' scripts find. If
        some questions have no answer, the result includes separate scores for questions with and
        without an answer, and the best scores that a threshold can reach.
        """
        threshold = answer_threshold(predicted)
        metrics = _score(predicted, threshold)
        scores = {name: _percent(values) for name, values in metrics.items()}
        for name, values in _score(predicted, threshold, "official").items():
            scores[f"official_{name}"] = _percent(values)
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

    def grade(self, predicted: Predicted[Question, Decoded]) -> list[Graded]:
        """Compares answers with all gold answers; the result contains only the first of these."""
        threshold = answer_threshold(predicted)
        graded = []
        for example, decoded in predicted.pairs:
            answer = decoded.deployed.text(threshold)
            confidence = decoded.deployed.confidence(threshold)
            is_right = bool(judge(answer, example.golds).exact_match)
            gold = example.golds[0] if example.golds else ""
            graded.append(Graded(self.text(example), gold, answer, confidence, is_right))
        return graded

    def fit_thresholds(self, predicted: Predicted[Question, Decoded]) -> dict[str, Any]:
        if not any(example.is_impossible for example in predicted.examples):
            return {}
        return {"thresholds": (best_threshold(predicted),)}

    def write(self, predicted: Predicted[Question, Decoded], folder: Path) -> None:
        """Writes the officially decoded answers to SQuAD's three files, keyed by question id."""
        threshold = answer_threshold(predicted)
        answers = {example.id: decoded.official for example, decoded in predicted.pairs}
        files = {
            "predictions": {name: answer.text(threshold) for name, answer in answers.items()},
            "nbest_predictions": {name: _nbest(answer) for name, answer in answers.items()},
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


def decode(
    examples: Sequence[Question], rows: Rows, outputs: Outputs, config: AlbertConfig
) -> list[Decoded]:
    """Returns the answers to each question, from the outputs for its windows."""
    answers = []
    for example, windows in zip(examples, rows.by_example(outputs), strict=True):
        read = [(context_positions(window), found) for window, found in windows]
        deployed, official = (
            find_answers(example.context, read, config.answerability, decoding)
            for decoding in (DEPLOYED, OFFICIAL)
        )
        answers.append(Decoded(deployed, official))
    return answers


def best_threshold(predicted: Predicted[Question, Decoded]) -> float:
    """Returns the no-answer threshold with the best F1."""
    thresholds, means = threshold_curves(predicted)["f1"]
    return float(thresholds[np.argmax(means)])


def answer_threshold(predicted: Predicted[Question, Decoded]) -> float:
    """Returns the model's no-answer threshold.

    Default: 0 if the head or the data allows unanswerable questions, otherwise infinity.
    """
    config = predicted.config
    if config.thresholds:
        return config.thresholds[0]
    some_impossible = any(example.is_impossible for example in predicted.examples)
    may_be_none = config.answerability or some_impossible
    return 0.0 if may_be_none else math.inf


def _score(
    predicted: Predicted[Question, Decoded], threshold: float, decoding: str = "deployed"
) -> dict[str, np.ndarray]:
    """Returns each metric's values in `[0, 1]`, one per question."""
    scored = [
        judge(getattr(decoded, decoding).text(threshold), example.golds)
        for example, decoded in predicted.pairs
    ]
    return {name: np.array([getattr(answer, name) for answer in scored]) for name in METRICS}


def threshold_curves(predicted: Predicted[Question, Decoded]) -> Curves:
    """Returns thresholds and mean scores for each metric; see `by_threshold`."""
    null_scores = [decoded.deployed.null_score for decoded in predicted.predictions]
    has_answer = [not example.is_impossible for example in predicted.examples]
    return {
        name: by_threshold(values.tolist(), null_scores, has_answer)
        for name, values in _score(predicted, math.inf).items()
    }


def _nbest(answers: Answers) -> list[dict[str, Any]]:
    """Returns the best answers in the format of nbest_predictions.json."""
    best = answers.best
    probabilities = softmax([answer["score"] for answer in best]) if best else []
    return [
        {"text": answer["answer"], "probability": float(share), "score": answer["score"]}
        for answer, share in zip(best, probabilities, strict=True)
    ]


def _percent(values: np.ndarray) -> float:
    return 100 * float(np.mean(values))
