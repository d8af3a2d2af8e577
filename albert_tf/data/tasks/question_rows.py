"""Questions and their contexts as rows of pieces: windows, with the answer's place in each."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.data.tasks.questions import Question
from albert_tf.data.tasks.rows import IGNORED, Rows
from albert_tf.text.answers import CLS, context_part, question_windows
from albert_tf.text.encoding import EncodedSequence

logger = logging.getLogger(__name__)


def encode_questions(
    questions: Sequence[Question],
    tokenizer: Any,
    max_length: int,
    doc_stride: int | None,
    max_question_length: int,
    answerability: bool,
) -> Rows:
    """Returns the windows of questions, with the position of the answer in each.

    A window without the whole answer has the answer `[CLS]`.

    Args:
        doc_stride, max_question_length: see `question_windows`.
        answerability: whether labels are those of the original's head.
    """
    windows = question_windows(
        tokenizer,
        [each.question for each in questions],
        [each.context for each in questions],
        max_length,
        doc_stride,
        max_question_length,
        [each.source for each in questions],
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
        if answerability:
            labels["is_impossible"] = [float(start == CLS) for start, _ in flat]
    return Rows(
        arrays,
        labels,
        tokenizer.pad_token_id,
        [number for number, found in enumerate(windows) for _ in found],
        label_inputs=("start_positions",) if answerability and labels else (),
        details=rows,
    )


def _marks(windows: Sequence[EncodedSequence], question: Question) -> list[tuple[int, int]]:
    """Returns first and last position of the answer in each window: `[CLS]` where it isn't whole.

    `IGNORED` in every window where none has it.
    """
    if question.span is None:
        none = CLS if question.is_impossible else IGNORED
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
        marks.append((int(first + inside[0]), int(first + inside[-1])) if is_whole else (CLS,) * 2)
    if all(mark[0] == CLS for mark in marks):
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
            lost[0].source,
        )
