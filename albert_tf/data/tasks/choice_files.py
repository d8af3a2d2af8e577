"""Examples with choices, from RACE's and SWAG's files and files of your own."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from albert_tf.data.options import LabelledData
from albert_tf.data.readers import Row, json_rows, made, read_rows
from albert_tf.errors import UserError, listed, short_repr

RACE: Final = "race"
SWAG: Final = "swag"
PARTS: Final = ("middle", "high")  # of RACE
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Example(NamedTuple):
    """A context, a question and choices; the label is the number of the right choice.

    The context or the question may be empty. Each `part` of the data has a score.
    """

    context: str
    question: str
    choices: tuple[str, ...]
    label: int | None
    part: str
    id: str
    place: str = ""


class Layout(NamedTuple):
    """The columns of a file: one with a list of choices, or one for each choice."""

    context: str
    question: str
    choices: tuple[str, ...]
    label: str
    id: str | None
    part: str | None


# The columns on Hugging Face's hub. RACE's own files are read into the same.
_LAYOUTS: Final = {
    RACE: Layout("article", "question", ("options",), "answer", "example_id", "part"),
    SWAG: Layout("sent1", "sent2", tuple(f"ending{end}" for end in range(4)), "label", None, None),
}


def read_choices(path: Path, options: LabelledData, labelled: bool) -> list[Example]:
    """Reads a file of examples, or one of RACE's folders.

    Args:
        options: the task's name, RACE's part, and the columns.
        labelled: whether rows must have a label.
    Raises:
        UserError: the file or one of its rows can't be read, or an id comes twice.
    """
    layout = _LAYOUTS.get(options.task) or Layout(
        options.context_column or "context",
        options.question_column or "question",
        options.choices_columns,
        options.label_column,
        options.id_column or "id",
        options.part_column,
    )
    named = (options.context_column, options.question_column, options.id_column)
    columns = [name for name in (*named, options.part_column) if name is not None]
    columns += [*layout.choices, *([layout.label] if labelled else [])]
    parts = PARTS if options.part == "both" else (options.part,)

    def example(row: Row) -> Example:
        row.require(columns)
        return _example(row, layout, labelled)

    if path.is_dir():
        found = made(path, _articles(path, parts), example, options.skip_bad_rows)
    else:
        skip, dialect = options.skip_bad_rows, options.dialect
        found = read_rows(path, columns, example, skip, dialect=dialect)
    if options.task == RACE:
        return _of_parts(found, parts)
    _check_ids(found)
    return found


def _of_parts(examples: Sequence[Example], parts: Sequence[str]) -> list[Example]:
    """Returns RACE's examples of the parts, with a number after each id of an article."""
    numbers: Counter[str] = Counter()
    found = []
    for example in examples:
        part = example.part or next(filter(example.id.startswith, PARTS), "")
        numbers[example.id] += 1
        if part in parts or not part:
            number = numbers[example.id] - 1
            found.append(example._replace(part=part, id=f"{example.id}-{number}"))
    if not found:
        raise UserError(
            f"RACE's data must have questions of the part {', '.join(parts)}. "
            f"Received: {len(examples)} questions of another."
        )
    return found


def _example(row: Row, layout: Layout, labelled: bool) -> Example:
    context, question = row.optional_text(layout.context), row.optional_text(layout.question)
    if not context and not question:
        raise UserError(
            f"A row must have a context or a question: {layout.context!r}, {layout.question!r}. "
            f"Received: {row.place}, with {listed(map(repr, row.fields))}. Name their columns "
            "with --context-column and --question-column."
        )
    choices = _choices(row, layout.choices)
    label = row.text(layout.label) if labelled else row.optional_text(layout.label)
    return Example(
        context,
        question,
        tuple(choices),
        _number(label, len(choices), row.place) if label else None,
        row.optional_text(layout.part),
        row.optional_text(layout.id),
        row.place,
    )


def _choices(row: Row, columns: Sequence[str]) -> list[str]:
    """Returns the texts of a list, or of columns, of which the last ones may be empty."""
    if len(columns) == 1:
        choices = row.texts(columns[0])
    else:
        choices = [row.optional_text(name) for name in columns]
        while choices and not choices[-1]:
            choices.pop()
    if len(choices) < 2:
        raise UserError(
            f"A row must have at least two choices. Received: {len(choices)}, {row.place}."
        )
    if "" in choices:
        raise UserError(
            f"Every choice must have a text. Received: none for choice {choices.index('')}, "
            f"{row.place}. Choices are counted from 0."
        )
    return choices


def _number(label: str, choices: int, place: str) -> int:
    """Returns the choice that a label means: its number from 0, or its letter."""
    written = label.strip()
    number = int(written) if written.isdecimal() else -1
    if len(written) == 1 and written in LETTERS:
        number = LETTERS.index(written)
    if not 0 <= number < choices:
        raise UserError(
            f"A label must be the number of a choice, from 0 to {choices - 1}, or its letter, from "
            f"A. Received: {short_repr(label)}, {place}."
        )
    return number


def _check_ids(examples: Sequence[Example]) -> None:
    first: dict[str, str] = {}
    for example in examples:
        if example.id and first.setdefault(example.id, example.place) != example.place:
            raise UserError(
                f"Every example must have an id of its own. Received: {short_repr(example.id)}, "
                f"{first[example.id]} and {example.place}. Remove one, or name another column with "
                "--id-column."
            )


def _articles(folder: Path, parts: Sequence[str]) -> Iterator[Row]:
    """Yields RACE's questions in the columns of `Layout`: a file has an article and its questions.

    Source: Lai et al., "RACE", arXiv 1704.04683; its download.
    """
    for part in parts:
        paths = sorted((folder / part).glob("*.txt"))
        if not paths:
            raise UserError(
                f"RACE must have .txt files in train/{part} and dev/{part}. Received: "
                f"{folder / part}, which has none. Choose the part there is with --part."
            )
        for path in paths:
            for line, fields in json_rows(path):
                row = Row(f"{path}, line {line}", fields)
                shared = {"article": row.optional_text("article"), "part": part}
                shared["example_id"] = row.optional_text("id") or path.name
                questions, options = row.items("questions"), row.items("options")
                answers = row.items("answers") if "answers" in fields else [None] * len(questions)
                if not len(questions) == len(options) == len(answers):
                    raise UserError(
                        "An article must have as many options and answers as questions. Received: "
                        f"{row.place}, {len(questions)}, {len(options)} and {len(answers)}."
                    )
                for asked in zip(questions, options, answers, strict=True):
                    each = dict(zip(("question", "options", "answer"), asked, strict=True))
                    yield Row(row.place, {**shared, **each})
