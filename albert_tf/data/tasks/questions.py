"""Questions with contexts and answers: reads SQuAD's JSON and tables, and encodes windows."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.data import hub
from albert_tf.data.json_rows import read_value
from albert_tf.data.readers import FORMATS, Row, check_file, make_each, rows_of
from albert_tf.data.tables import BAD_ROW
from albert_tf.data.tasks.columns import columns
from albert_tf.data.tasks.rows import Rows
from albert_tf.data.text_files import open_text
from albert_tf.errors import UserError, listed, short_repr
from albert_tf.tasks import IGNORED
from albert_tf.text.answers import CLS, context_part, question_windows
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.sequences import EncodedSequence

_JSON: Final = (".json", ".json.gz")
_LEVELS: Final = ("question", "qas", "paragraphs")  # keys of a row, a paragraph, and an article
_LAYOUT: Final = (
    'SQuAD\'s layout is {"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", '
    '"answers": [{"text", "answer_start"}]}]}]}]}. A table has the columns question, context, and '
    "answer."
)
_KINDS: Final = {
    str: "a non-empty string",
    int: "a whole number",
    list: "a list",
    bool: "true or false",
}
logger = logging.getLogger(__name__)


class Question(NamedTuple):
    """A question about a context.

    Attributes:
        golds: the gold answers; empty for an unanswerable question.
        span: character span of an answer in the context; None if there is no answer or the context
            lacks it.
        is_impossible: whether the question has no answer in the context.
        article: the article. When a file is split, an article's questions stay together.
        location: location in the file, for error messages.
    """

    id: str
    question: str
    context: str
    golds: tuple[str, ...] = ()
    span: tuple[int, int] | None = None
    is_impossible: bool = False
    article: str = ""
    location: str = ""

    @property
    def source(self) -> str:
        """The location in a file, or the id if there is no location."""
        return self.location or self.id


def read_questions(
    path: Path, labelled: bool, skip_bad_rows: bool | None = False, encoding: str | None = None
) -> list[Question]:
    """Reads a SQuAD 1.1 or 2.0 file, or a file with one row per question.

    Also accepts a list of SQuAD's articles or paragraphs, and tables with a column `answer` (empty
    for an unanswerable question). A question without an id is identified by its location.

    Args:
        labelled: whether to read answers. Leaderboard test files contain no answers.
        skip_bad_rows: whether to skip questions that can't be read, and log how many; see
            `make_each`.
        encoding: a Python codec. Default: UTF-8, unless there is a byte order mark.
    Raises:
        UserError: if the file doesn't exist, has the wrong format, or has no questions; or if a
            question is invalid or repeats an id (the message gives the location).
    """
    locations: dict[str, str] = {}

    def make(item: Row | _Nodes) -> Question:
        question = _question(*(_row_nodes(item) if isinstance(item, Row) else item), labelled)
        if question.id in locations:
            raise UserError(
                f"Ids must be unique. Received: {short_repr(question.id)}, "
                f"{locations[question.id]} and {question.location}."
            )
        locations[question.id] = question.location
        return question

    return make_each(path, _items(path, labelled, encoding), make, skip_bad_rows, "question")


def find_answer(context: str, text: str, start: int) -> tuple[int, int] | None:
    """Returns the character span of an answer in its context, or None if it isn't found.

    If the answer isn't at `start`, returns the match nearest to `start`. Whitespace between
    words may differ. If there is no such match, case is ignored.
    """
    if text and start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    pattern = r"\s+".join(map(re.escape, text.split()))
    for flags in (0, re.IGNORECASE):
        spans = [match.span() for match in re.finditer(pattern, context, flags) if match[0]]
        if spans:
            return min(spans, key=lambda span: abs(span[0] - start))
    return None


def trainable(questions: Sequence[Question]) -> list[Question]:
    """Drops the questions whose answer isn't in the context, and logs how many.

    Raises:
        UserError: if no question is left.
    """
    usable = [question for question in questions if question.span or question.is_impossible]
    if not usable:
        raise UserError(
            "Training requires questions with an answer in their context. Received: "
            f"{len(questions)} questions without one, such as {questions[0].source!r}."
        )
    if len(usable) < len(questions):
        lost = next(
            question for question in questions if not (question.span or question.is_impossible)
        )
        logger.warning(
            "The answers to %d of %d questions are not in their context. These questions are "
            "dropped from training; the first missing answer is %r in %s.",
            len(questions) - len(usable),
            len(questions),
            lost.golds[0] if lost.golds else "",
            lost.source,
        )
    return usable


def question_of(
    question: str, context: str, answers: Mapping[str, Sequence[Any]] | None, name: str = ""
) -> Question:
    """Creates a question. `answers` contains the columns `text` and `answer_start`.

    If the columns are empty, the question is unanswerable. If `answers` is None, the question is
    unlabeled.
    """
    unlabeled = Question(name, question, context, location=name)
    if answers is None:
        return unlabeled
    golds = list(zip(answers["text"], answers["answer_start"], strict=True))
    return _with_answers(unlabeled, golds)


def _with_answers(question: Question, golds: Sequence[tuple[str, int]]) -> Question:
    spans = (find_answer(question.context, *gold) for gold in golds)
    return question._replace(
        golds=tuple(text for text, _ in golds),
        span=next((span for span in spans if span), None),
        is_impossible=not golds,
    )


class _Node(NamedTuple):
    """A value in a JSON file, and its location for error messages."""

    value: Any
    location: str

    def field(self, name: str, wanted: type, default: Any = None) -> Any:
        value = self.value.get(name, default) if isinstance(self.value, dict) else None
        if type(value) is not wanted or (isinstance(value, str) and not value.strip()):
            keys = listed(map(repr, self.value)) if isinstance(self.value, dict) else "no object"
            received = f"with {keys}" if value is None else f"with {short_repr(value)}"
            raise UserError(
                f"{name!r} must be {_KINDS[wanted]}. Received: {self.location}, {received}. "
                f"{_LAYOUT}"
            )
        return value

    def items(self, name: str) -> "Iterator[_Node]":
        dot = "." if self.location.endswith("]") else ", "
        for number, value in enumerate(self.field(name, list)):
            yield _Node(value, f"{self.location}{dot}{name}[{number}]")


class _Nodes(NamedTuple):
    """A question, its paragraph, and the location of its article."""

    article: str
    paragraph: _Node
    question: _Node


def _items(path: Path, labelled: bool, encoding: str | None) -> Iterator[Row | _Nodes]:
    """Yields a file's questions, from rows or from SQuAD's articles."""
    check_file(path, FORMATS, "questions")
    if hub.is_hub(path) or not path.name.endswith(_JSON) or _has_lines(path, encoding):
        columns = ("question", "context", *(("answer",) if labelled else ()))  # of a table
        rows = rows_of(path, columns, encoding)
        nodes: Iterator[_Node] = (_Node(row.fields, row.location) for row in rows)
    else:
        with open_text(path, encoding=encoding, whole=True) as lines:
            document = read_value("".join(lines), str(path))
        if isinstance(document, dict) and not any(key in document for key in _LEVELS):
            nodes = _Node(document, str(path)).items("data")
        else:
            items = enumerate(document if isinstance(document, list) else [document], start=1)
            nodes = (_Node(item, f"{path}, row {number}") for number, item in items)
    for node in nodes:
        yield from _questions_in(node, node.location)


def _questions_in(node: _Node, article: str) -> Iterator[Row | _Nodes]:
    """Yields the questions in an article or a paragraph, or the node itself as a row."""
    if not isinstance(node.value, dict):
        received = f"{short_repr(node.value)} ({node.location})"
        error = UserError(f"Each question must be a JSON object. Received: {received}.")
        yield Row(node.location, {BAD_ROW: error})
    elif "paragraphs" in node.value:
        for paragraph in node.items("paragraphs"):
            yield from _questions_in(paragraph, article)
    elif "qas" in node.value:
        for question in node.items("qas"):
            yield _Nodes(article, node, question)
    else:
        yield Row(node.location, node.value)


def _has_lines(path: Path, encoding: str | None) -> bool:
    """Returns whether each line of a `.json` file is an object, as `datasets` writes it."""
    with open_text(path, encoding=encoding, whole=True) as file:
        first, second = islice(chain(filter(str.strip, file), ("", "")), 2)
    return bool(second) and first.lstrip().startswith("{") and first.rstrip().endswith("}")


def _row_nodes(row: Row) -> _Nodes:
    """Returns the nodes of a row in the Hub's format.

    `answers` contains a list of texts and a list of start offsets. A table has an `answer` instead,
    whose start is found by search unless there is an `answer_start`.
    """
    location = str(row.location)
    fields = dict(row.fields)
    if "answer" in fields and "answers" not in fields:
        text, start = row.optional_text("answer"), row.optional_text("answer_start")
        place = start.removesuffix(".0")  # pandas writes integers with missing values as floats
        answer = {"text": text, "answer_start": int(place) if place.isdecimal() else -1}
        fields["answers"] = [answer] if text else []
        fields["is_impossible"] = row.optional_text("is_impossible").lower() in ("true", "1")
    if isinstance(answers := fields.get("answers"), dict):
        names = ("text", "answer_start")
        lists = [answers.get(name) or [] for name in names]
        if not all(isinstance(each, list) for each in lists) or len(lists[0]) != len(lists[1]):
            raise UserError(
                "'answers' must contain the lists 'text' and 'answer_start', of equal length. "
                f"Received: {short_repr(answers)} ({location})."
            )
        fields["answers"] = [
            dict(zip(names, pair, strict=True)) for pair in zip(*lists, strict=True)
        ]
    node = _Node(fields, location)
    # Questions about the same context stay together when a file is split.
    return _Nodes(str(fields.get("title") or fields.get("context") or location), node, node)


def _question(article: str, paragraph: _Node, node: _Node, labelled: bool) -> Question:
    context = paragraph.field("context", str)
    name = node.value.get("id") if isinstance(node.value, dict) else None
    if name in (None, ""):
        name = node.location
    elif type(name) not in (int, float):
        name = node.field("id", str)
    question = Question(
        str(name),
        node.field("question", str),
        context,
        article=article.rpartition(", ")[2],
        location=node.location if name == node.location else f"{node.location} (id {name})",
    )
    if not labelled:
        return question
    is_impossible = node.field("is_impossible", bool, default=False)
    # Required even if empty, as in SQuAD 2.0: a file without the field has no labels.
    answers = list(node.items("answers"))
    if is_impossible and answers:
        raise UserError(
            "A question with 'is_impossible' must not have answers. "
            f"Received: {question.location}, with {len(answers)} answers."
        )
    return _with_answers(
        question, [(each.field("text", str), each.field("answer_start", int)) for each in answers]
    )


def questions_of(
    questions: Sequence[str], contexts: Sequence[str], answers: Sequence[Any] | None = None
) -> list[Question]:
    """Returns the examples in the columns of `data.question_answering_dataset`."""
    questions, contexts, answers = columns(questions=questions, contexts=contexts, answers=answers)
    return [
        question_of(
            *(question, contexts[row]),
            None if answers is None else _answers(answers[row], row),
            f"number {row}",
        )
        for row, question in enumerate(questions)
    ]


def _answers(answer: Any, row: int) -> Mapping[str, Sequence[Any]]:
    """Returns a question's answers as a dict with the columns "text" and "answer_start"."""
    if answer is None:
        return {"text": [], "answer_start": []}
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str):
        return {"text": [answer[0]], "answer_start": [answer[1]]}
    columns = ("text", "answer_start")
    if isinstance(answer, Mapping) and all(np.ndim(answer.get(name, "")) == 1 for name in columns):
        return answer
    raise UserError(
        "An answer must be (text, start), None for an unanswerable question, or "
        f"{{'text': [...], 'answer_start': [...]}}. Received: {short_repr(answer)} in row {row}."
    )


def question_rows(
    tokenizer: BaseTokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[Any] | None = None,
    *,
    answerability: bool = False,
    max_length: int | None = None,
) -> Rows:
    """Returns the rows of questions; see `data.question_answering_dataset`."""
    examples = questions_of(questions, contexts, answers)
    used = examples if answers is None else trainable(examples)
    length = max_length or tokenizer.model_max_length
    rows = encode_questions(used, tokenizer, length, answerability)
    numbers = {question.id: number for number, question in enumerate(examples)}
    rows.examples = np.array([numbers[used[row].id] for row in rows.examples])
    rows.count = len(examples)
    return rows


def encode_questions(
    questions: Sequence[Question], tokenizer: BaseTokenizer, max_length: int, answerability: bool
) -> Rows:
    """Returns the windows of questions, each labeled with the position of the answer.

    If a window doesn't contain the complete answer, its label is the position of `[CLS]`.

    Args:
        answerability: whether to add the labels that the original head requires.
    """
    windows = question_windows(
        tokenizer,
        [question.question for question in questions],
        [question.context for question in questions],
        max_length,
        locations=[question.source for question in questions],
    )
    marks = [_positions(*pair) for pair in zip(windows, questions, strict=True)]
    _log_lost(questions, marks, max_length)
    labels: dict[str, Sequence[Any]] = {}
    if any(question.golds or question.is_impossible for question in questions):
        flat = [mark for question_windows in marks for mark in question_windows]
        labels = {
            "start_positions": [start for start, _ in flat],
            "end_positions": [end for _, end in flat],
        }
        if answerability:
            labels["is_impossible"] = [float(start == CLS) for start, _ in flat]
    label_inputs = ("start_positions",) if answerability and labels else ()
    return Rows.of_windows(windows, tokenizer.pad_token_id, labels, label_inputs)


def _positions(windows: Sequence[EncodedSequence], question: Question) -> list[tuple[int, int]]:
    """Returns the first and last position of the answer in each window.

    Both are the position of `[CLS]` in a window without the complete answer. If no window contains
    the answer, all positions are `IGNORED`.
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


def _log_lost(questions: Sequence[Question], marks: Sequence[Any], max_length: int) -> None:
    lost = [
        question
        for question, found in zip(questions, marks, strict=True)
        if question.span and found[0][0] == IGNORED
    ]
    if lost:
        logger.warning(
            "The answers to %d of %d questions don't fit into any window of %d tokens. The loss "
            "ignores their positions. The first is %s. A larger max_length may help.",
            len(lost),
            len(questions),
            max_length,
            lost[0].source,
        )
