"""Answers to questions, found in a text: SQuAD 1.1 and 2.0."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.data.tasks.base import Outputs, Task
from albert_tf.data.tasks.questions import Question, read_questions, trainable
from albert_tf.data.tasks.rows import IGNORED, Rows
from albert_tf.errors import UserError, listed
from albert_tf.evaluation import squad
from albert_tf.text import spans
from albert_tf.text.questions import context_part, question_windows
from albert_tf.text.rows import EncodedRow

ORIGINAL: Final = "original"
TRANSFORMERS: Final = "transformers"
logger = logging.getLogger(__name__)


class Answers(NamedTuple):
    """The answers that a model found.

    Attributes:
        best: the best answers of different texts, best first, each with its `answer` and `score`.
        odds: how far "no answer" is ahead, which a threshold is compared with: the difference of
            the scores, or the logit of the original's head.
    """

    best: Sequence[Mapping[str, Any]]
    odds: float

    def text(self, threshold: float) -> str:
        """Returns the best answer, or "" if the odds are above the threshold."""
        return "" if self.odds > threshold or not self.best else self.best[0]["answer"]


class QuestionAnswering(Task[Question, Answers]):
    """An answer in the words of a context, or none."""

    model = "AlbertForQuestionAnswering"

    def file(self, part: str) -> Path:
        """Finds the file train*.json or dev*.json of a folder."""
        data = self.options.data
        if not data.is_dir():
            return super().file(part)
        found = sorted(data.glob(f"{part}*.json"))
        if len(found) != 1:
            there = listed(path.name for path in sorted(data.iterdir())) or "nothing"
            raise UserError(f"The folder {data} must have one {part}*.json. Received: {there}.")
        return found[0]

    def read(self, path: Path) -> list[Question]:
        return read_questions(path, labelled=True, skip_bad_rows=self.options.skip_bad_rows)

    def train_and_dev(
        self, dev_fraction: float, seed: int
    ) -> tuple[list[Question], list[Question]]:
        train, dev = super().train_and_dev(dev_fraction, seed)
        return trainable(train), dev

    def config_fields(self, train: Sequence[Question]) -> dict[str, Any]:
        """Returns the head: by default the original's if some questions have no answer."""
        some_impossible = any(example.is_impossible for example in train)
        head = self.options.head or (ORIGINAL if some_impossible else TRANSFORMERS)
        return {"answerability": head == ORIGINAL, "thresholds": None}

    def check(self, examples: Sequence[Question], config: Any) -> None:
        head = ORIGINAL if config.answerability else TRANSFORMERS
        if self.options.head not in (None, head):
            raise UserError(
                f"head must be the model's, {head}. Received: {self.options.head}. Leave it out."
            )

    def encode(
        self, examples: Sequence[Question], tokenizer: Any, config: Any, max_length: int
    ) -> Rows:
        options = self.options
        return encode_questions(
            examples,
            tokenizer,
            config,
            max_length,
            options.doc_stride,
            options.max_question_length,
        )

    def predictions(
        self, examples: Sequence[Question], rows: Rows, outputs: Sequence[Outputs], config: Any
    ) -> list[Answers]:
        windows: list[list[int]] = [[] for _ in examples]
        for row, example in enumerate(rows.examples):
            windows[example].append(row)
        return [
            self._answers(
                example.context, [(rows.details[row], outputs[row]) for row in found], config
            )
            for example, found in zip(examples, windows, strict=True)
        ]

    def _answers(
        self, context: str, windows: Sequence[tuple[EncodedRow, Outputs]], config: Any
    ) -> Answers:
        """Ranks the answers of all windows by the sum of their scores, as the official scripts."""
        count, longest = self.options.n_best, self.options.max_answer_length
        answers, nulls = [], []
        for row, found in windows:
            positions = spans.context_positions(row)
            best, null = spans.scored_spans(
                found, positions.possible, count, longest, config.answerability
            )
            nulls.append(null)
            texts = [spans.read_span(context, positions, span, aligned=False) for span in best]
            answers.append([each for each in texts if each["answer"]])
        ranked = spans.merge_windows(answers)[:count]
        ahead = ranked[0]["score"] if ranked and not config.answerability else 0.0
        return Answers(ranked, min(nulls) - ahead)

    def scores(
        self, examples: Sequence[Question], predictions: Sequence[Answers], config: Any
    ) -> dict[str, float]:
        """Returns the official scores in percent.

        Where some questions have no answer, these are also the scores of either kind of question,
        and the best ones that a threshold can reach.
        """
        threshold = self._threshold(examples, config)
        found = _judged(examples, [each.text(threshold) for each in predictions])
        scores = {"f1": _percent(found[:, 1]), "exact_match": _percent(found[:, 0])}
        possible = np.array([not example.is_impossible for example in examples])
        if possible.all():
            return scores
        for name, part in (("has_answer", possible), ("no_answer", ~possible)):
            if part.any():
                scores[f"{name}_f1"] = _percent(found[part, 1])
                scores[f"{name}_exact_match"] = _percent(found[part, 0])
        for name in ("f1", "exact_match"):
            best, at = _best_threshold(examples, predictions, name)
            scores |= {f"best_{name}": best, f"best_{name}_threshold": at}
        return scores

    def tuned(self, examples: Sequence[Question], predictions: Sequence[Answers]) -> dict:
        """Returns the threshold of the best F1, if some questions have no answer."""
        if not any(example.is_impossible for example in examples):
            return {}
        return {"thresholds": (_best_threshold(examples, predictions, "f1")[1],)}

    def has_accuracy(self, config: Any) -> bool:
        return False

    def groups(self, examples: Sequence[Question]) -> Sequence[Any] | None:
        return [example.article for example in examples]

    def texts(self, example: Question) -> Iterable[str]:
        return example.question, example.context

    def _threshold(self, examples: Sequence[Question], config: Any) -> float:
        """Returns the model's threshold; by default 0, or none for SQuAD 1.1."""
        if config.thresholds:
            return config.thresholds[0]
        return 0.0 if any(example.is_impossible for example in examples) else math.inf


def encode_questions(
    questions: Sequence[Question],
    tokenizer: Any,
    config: Any,
    max_length: int,
    doc_stride: int | None,
    max_question_length: int,
) -> Rows:
    """Returns the windows of questions, with the position of the answer in each.

    A window without the whole answer has the answer `[CLS]`.

    Args:
        doc_stride, max_question_length: see `question_windows`.
    """
    windows = question_windows(
        tokenizer,
        [each.question for each in questions],
        [each.context for each in questions],
        max_length,
        doc_stride,
        max_question_length,
    )
    rows = [row for found in windows for row in found]
    arrays = {
        name: [getattr(row, name) for row in rows] for name in ("input_ids", "token_type_ids")
    }
    marks = [_marks(*each) for each in zip(windows, questions, strict=True)]
    _log_unmarked(questions, marks, max_length)
    labels: dict[str, Sequence[Any]] = {}
    if any(each.golds or each.is_impossible for each in questions):
        flat = [mark for found in marks for mark in found]
        labels = {
            "start_positions": [start for start, _ in flat],
            "end_positions": [end for _, end in flat],
        }
        if config.answerability:
            labels["is_impossible"] = [float(start == spans.CLS) for start, _ in flat]
    return Rows(
        arrays,
        labels,
        tokenizer.pad_token_id,
        [number for number, found in enumerate(windows) for _ in found],
        label_inputs=tuple(labels) if config.answerability else (),
        details=rows,
    )


def _marks(windows: Sequence[EncodedRow], question: Question) -> list[tuple[int, int]]:
    """Returns first and last position of the answer in each window: `[CLS]` where it isn't whole.

    `IGNORED` in every window where none has it.
    """
    if question.span is None:
        none = spans.CLS if question.is_impossible else IGNORED
        return [(none, none)] * len(windows)
    begin, end = question.span
    marks = []
    for number, row in enumerate(windows):
        first, offsets = context_part(row)
        inside = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > begin))
        is_whole = inside.size and (
            (number == 0 or offsets[0, 0] <= begin)
            and (number == len(windows) - 1 or offsets[-1, 1] >= end)
        )
        marks.append(
            (int(first + inside[0]), int(first + inside[-1])) if is_whole else (spans.CLS,) * 2
        )
    if all(mark[0] == spans.CLS for mark in marks):
        return [(IGNORED, IGNORED)] * len(windows)
    return marks


def _log_unmarked(questions: Sequence[Question], marks: Sequence[Any], max_length: int) -> None:
    lost = [
        question
        for question, found in zip(questions, marks, strict=True)
        if question.span and found[0][0] == IGNORED
    ]
    if lost:
        logger.warning(
            "%d of %d questions have an answer that no window of %d pieces has whole; its position "
            "doesn't count. The first is %s.",
            len(lost),
            len(questions),
            max_length,
            lost[0].place or lost[0].id,
        )


def _judged(examples: Sequence[Question], texts: Sequence[str]) -> np.ndarray:
    """Returns exact match and F1 of each text, `[N, 2]`."""
    pairs = zip(texts, examples, strict=True)
    return np.array([squad.judge(text, example.golds) for text, example in pairs])


def _best_threshold(
    examples: Sequence[Question], predictions: Sequence[Answers], name: str
) -> tuple[float, float]:
    """Returns the best score that a threshold reaches, and the threshold."""
    column = {"exact_match": 0, "f1": 1}[name]
    found = _judged(examples, [each.text(math.inf) for each in predictions])
    return squad.best_threshold(
        found[:, column].tolist(),
        [each.odds for each in predictions],
        [not example.is_impossible for example in examples],
    )


def _percent(values: np.ndarray) -> float:
    return 100 * float(np.mean(values))
