"""Multiple choice with a context, a question, or both: RACE, SWAG, and your own files."""

import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.json_rows import json_rows
from albert_tf.data.readers import Row, make_each, rows_of
from albert_tf.data.tables import BAD_ROW
from albert_tf.data.tasks.base import Graded, Keys, Outputs, Predicted, Task, grade_class
from albert_tf.data.tasks.classification import NEARLY_ALL, ONE_CLASS
from albert_tf.data.tasks.columns import columns
from albert_tf.data.tasks.rows import Rows
from albert_tf.data.text_files import require_file
from albert_tf.errors import UserError, listed, short_repr
from albert_tf.probabilities import softmax
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.sequences import EncodedSequence
from albert_tf.text.windows import text_room

RACE: Final = "race"
SWAG: Final = "swag"
PARTS: Final = ("middle", "high")  # folders of RACE
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
EVEN: Final = 0.01  # below this margin over a uniform probability, no choice is preferred
# Maximum tokens in a question and choice: `max_qa_length` in google-research/albert, run_race.py.
MAX_CHOICE_LENGTH: Final = 128
# A blank in RACE's questions: "_", or a character that the original code converts to "_".
_BLANK: Final = re.compile("[_\uff3f\ufe33\ufe34\ufe4d-\ufe4f]")
logger = logging.getLogger(__name__)


class ChoiceExample(NamedTuple):
    """A context, a question, and choices; the label is the 0-based index of the correct choice.

    The context or the question may be empty. Each `part` of the data is also scored separately.
    """

    context: str
    question: str
    choices: tuple[str, ...]
    label: int | None
    part: str
    id: str
    location: str = ""


class ChoiceColumns(NamedTuple):
    """The columns of a file; `choices` is one column of lists, or one column per choice."""

    context: str
    question: str
    choices: tuple[str, ...]
    label: str
    id: str | None
    part: str | None


# The columns on the Hugging Face Hub. RACE's own files are converted to the same columns.
_LAYOUTS: Final = {
    RACE: ChoiceColumns("article", "question", ("options",), "answer", "example_id", "part"),
    SWAG: ChoiceColumns(
        "sent1", "sent2", tuple(f"ending{end}" for end in range(4)), "label", None, None
    ),
}


def _number_race(examples: Sequence[ChoiceExample]) -> list[ChoiceExample]:
    """Sets each RACE example's part ("middle" or "high"), and adds a number to its article id."""
    numbers: Counter[str] = Counter()
    numbered = []
    for example in examples:
        part = example.part or next(filter(example.id.startswith, PARTS), "")
        numbers[example.id] += 1
        number = numbers[example.id] - 1
        numbered.append(example._replace(part=part, id=f"{example.id}-{number}"))
    return numbered


def _example(row: Row, layout: ChoiceColumns, labelled: bool) -> ChoiceExample:
    context, question = row.optional_text(layout.context), row.optional_text(layout.question)
    if not context and not question:
        raise UserError(
            f"A row must have a context ({layout.context!r}) or a question ({layout.question!r}). "
            f"Received: {row.location}, with {listed(map(repr, row.fields))}. Name their columns "
            "with --text-column and --text-pair-column."
        )
    choices = _choices(row, layout.choices)
    label = row.text(layout.label) if labelled else row.optional_text(layout.label)
    return ChoiceExample(
        context,
        question,
        tuple(choices),
        _index(label, len(choices), row.location) if label else None,
        row.optional_text(layout.part),
        row.optional_text(layout.id),
        row.location,
    )


def _choices(row: Row, columns: Sequence[str]) -> list[str]:
    """Returns the choices in a list column, or in several columns (the last ones may be empty)."""
    if len(columns) == 1:
        choices = row.texts(columns[0])
    else:
        choices = [row.optional_text(name) for name in columns]
        while choices and not choices[-1]:
            choices.pop()
    if len(choices) < 2:
        raise UserError(
            f"A row must have at least two choices. Received: {len(choices)} ({row.location})."
        )
    if "" in choices:
        raise UserError(
            f"Choice {choices.index('')} (counting from 0) must not be empty. "
            f"Received: {row.location}."
        )
    return choices


def _index(label: str, choices: int, location: str) -> int:
    """Converts a label (a 0-based index or a letter) to the index of a choice."""
    written = label.strip()
    number = int(written) if written.isdecimal() else -1
    if len(written) == 1 and written in LETTERS:
        number = LETTERS.index(written)
    if not 0 <= number < choices:
        raise UserError(
            f"A label must be the index (from 0 to {choices - 1}) or the letter (A, B, …) of a "
            f"choice. Received: {short_repr(label)} ({location})."
        )
    return number


def _check_ids(examples: Sequence[ChoiceExample]) -> None:
    first: dict[str, str] = {}
    for example in examples:
        if example.id and first.setdefault(example.id, example.location) != example.location:
            raise UserError(
                f"Ids must be unique. Received: {short_repr(example.id)}, {first[example.id]} and "
                f"{example.location}. Remove one of them, or rename the column."
            )


def _articles(folder: Path) -> Iterator[Row]:
    """Yields RACE's questions as rows. Each file contains an article and its questions.

    Source: Lai et al., "RACE", arXiv 1704.04683; format of the official download.
    """
    files = {part: sorted((folder / part).glob("*.txt")) for part in PARTS}
    if not any(files.values()):
        raise UserError(
            "A RACE folder must contain .txt files in middle/ or high/. Received: "
            f"{folder}, which has none."
        )
    for part, paths in files.items():
        for path in paths:
            require_file(path)
            for line, fields in json_rows(path):
                row = Row(f"{path}, line {line}", fields)
                if BAD_ROW in fields:
                    yield row
                    continue
                shared = {"article": row.optional_text("article"), "part": part}
                shared["example_id"] = row.optional_text("id") or path.name
                questions, options = row.items("questions"), row.items("options")
                answers = row.items("answers") if "answers" in fields else [None] * len(questions)
                if not len(questions) == len(options) == len(answers):
                    raise UserError(
                        "An article must have a list of options and an answer for each question. "
                        f"Received: {row.location}, with {len(questions)} questions, "
                        f"{len(options)} lists of options, and {len(answers)} answers."
                    )
                for asked in zip(questions, options, answers, strict=True):
                    item = dict(zip(("question", "options", "answer"), asked, strict=True))
                    yield Row(row.location, {**shared, **item})


class Choices(Task[ChoiceExample, np.ndarray]):
    """Multiple choice. A prediction is float `[C]`, the probability of each choice."""

    model = "AlbertForMultipleChoice"

    def read(self, path: Path, labelled: bool = True) -> list[ChoiceExample]:
        options = self.options
        layout = _LAYOUTS.get(options.task) or ChoiceColumns(
            options.text_column or "context",
            options.text_pair_column or "question",
            options.choices_columns,
            options.label_column or "label",
            "id",
            None,
        )
        named = (options.text_column, options.text_pair_column)
        columns = [name for name in named if name is not None]
        columns += [*layout.choices, *([layout.label] if labelled else [])]

        def example(row: Row) -> ChoiceExample:
            row.require(columns)
            return _example(row, layout, labelled)

        rows = _articles(path) if path.is_dir() else rows_of(path, columns, options.encoding)
        examples = make_each(path, rows, example, options.skip_bad_rows if labelled else None)
        if options.task == RACE:
            return _number_race(examples)
        _check_ids(examples)
        return examples

    def encode(
        self,
        examples: Sequence[ChoiceExample],
        tokenizer: BaseTokenizer,
        config: AlbertConfig,
        max_length: int,
    ) -> Rows:
        labels = [example.label for example in examples if example.label is not None]
        return choice_rows(
            tokenizer,
            [example.context for example in examples],
            [example.choices for example in examples],
            labels if len(labels) == len(examples) else None,
            [example.question for example in examples],
            max_length=max_length,
            fills_blanks=self.options.task == RACE,
            locations=[example.location for example in examples],
        )

    def predictions(
        self, examples: Sequence[ChoiceExample], rows: Rows, outputs: Outputs, config: AlbertConfig
    ) -> list[np.ndarray]:
        return [
            softmax(output["logits"][: len(example.choices)])
            for example, output in zip(examples, outputs, strict=True)
        ]

    def scores(self, predicted: Predicted[ChoiceExample, np.ndarray]) -> dict[str, float]:
        """Returns `accuracy`, and `accuracy_PART` for each part of the data.

        Adds `ONE_CLASS` if the model has no preference in at least `NEARLY_ALL` of the examples.
        """
        right = defaultdict(list)
        for example, probabilities in predicted.pairs:
            right[example.part].append(int(probabilities.argmax()) == example.label)
        scores = {"accuracy": float(np.mean(np.concatenate(list(right.values()))))}
        parts = {f"accuracy_{part}": float(np.mean(right[part])) for part in sorted(right) if part}
        even = np.mean([each.max() < 1 / len(each) + EVEN for each in predicted.predictions])
        flag = {ONE_CLASS: 1.0} if even >= NEARLY_ALL else {}
        return {**scores, **parts, **flag}

    def grade(self, predicted: Predicted[ChoiceExample, np.ndarray]) -> list[Graded]:
        return [
            grade_class(self.text(example), example.choices, example.label, probabilities)
            for example, probabilities in predicted.pairs
        ]

    def text(self, example: ChoiceExample) -> str:
        texts = [text for text in (example.context, example.question) if text]
        return "\n".join([*texts, *(f"- {choice}" for choice in example.choices)])

    def write(self, predicted: Predicted[ChoiceExample, np.ndarray], folder: Path) -> None:
        """Writes one JSON object per line: id (or location), choice, and probabilities."""
        with (folder / "predictions.jsonl").open("w", encoding="utf-8", newline="\n") as file:
            for example, prediction in predicted.pairs:
                key = {"id": example.id} if example.id else {"place": example.location}
                probabilities = [round(float(value), 6) for value in prediction]
                line = {**key, "chosen": int(prediction.argmax()), "probabilities": probabilities}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def texts(self, example: ChoiceExample) -> Iterable[str]:
        return (text for text in (example.context, example.question, *example.choices) if text)

    def keys(self, examples: Sequence[ChoiceExample]) -> Keys:
        """Returns the contexts as groups if several questions share a context."""
        contexts = [example.context or example.question for example in examples]
        return Keys(groups=contexts if len(set(contexts)) < len(contexts) else None)


def choice_rows(
    tokenizer: BaseTokenizer,
    contexts: Sequence[str],
    choices: Sequence[Sequence[str]],
    labels: Sequence[int] | None = None,
    questions: Sequence[str] | None = None,
    *,
    max_length: int | None = None,
    fills_blanks: bool = False,
    locations: Sequence[str] = (),
) -> Rows:
    """Returns the rows of multiple-choice examples; see `data.multiple_choice_dataset`.

    A row `[C, T]` contains the pairs `[CLS] context [SEP] question and choice [SEP]`. The second
    segment is truncated to its last `MAX_CHOICE_LENGTH` tokens, or fewer to fit. The first segment
    is truncated to the remaining length, by dropping its last tokens.

    Args:
        fills_blanks: whether choices fill the blanks of the question, as in RACE.
        locations: locations of the examples, for use in a warning.
    Source: google-research/albert, race_utils.py, `convert_single_example`.
    """
    contexts, choices, labels, questions = columns(
        contexts=contexts, choices=choices, labels=labels, questions=questions
    )
    for number, texts in enumerate(choices):
        label = None if labels is None else labels[number]
        has_label = label is None or label in range(len(texts))
        if len(texts) < 2 or isinstance(texts, str) or not has_label:
            raise UserError(
                "Each example must have at least two choices, and its label must be the index of "
                f"a choice. Received: {short_repr(texts)} with label {label} in example {number}."
            )
    asked = questions or [""] * len(contexts)
    pairs = [
        segments(*example, fills_blanks) for example in zip(contexts, asked, choices, strict=True)
    ]
    max_length = max_length or tokenizer.model_max_length
    room = text_room(max_length, tokenizer.special, is_pair=True)
    most = min(MAX_CHOICE_LENGTH, room)
    # A RACE article has several questions.
    articles = list(dict.fromkeys(first for first, _ in pairs))
    firsts = dict(zip(articles, tokenizer.tokens_of(articles), strict=True))
    seconds = iter(tokenizer.tokens_of([text for _, texts in pairs for text in texts]))
    rows, cut = [], []
    for number, (first, texts) in enumerate(pairs):
        ends = [next(seconds) for _ in texts]
        if max(len(end.ids) for end in ends) > most:
            cut.append(number)
        row = []
        for end in ends:
            size = len(end.ids)
            second = end.cut(max(0, size - most), size)
            first_part = firsts[first].cut(0, room - len(second.ids))
            row.append(EncodedSequence([first_part, second], tokenizer.special))
        rows.append(row)
    if cut:
        logger.warning(
            "In %d of %d examples, a question and choice together exceed %d tokens. These are "
            "truncated at the start%s. With a larger max_length, up to %d tokens are kept.",
            *(len(cut), len(pairs), most),
            *(f"; the first: {locations[cut[0]]}" if locations else "", MAX_CHOICE_LENGTH),
        )
    targets = {} if labels is None else {"labels": labels}
    return Rows.of_choices(rows, targets, tokenizer.pad_token_id)


def segments(
    context: str, question: str, choices: Sequence[str], fills_blanks: bool = False
) -> tuple[str, list[str]]:
    """Returns the first segment, and a second segment per choice.

    Without a context, the question is the first segment.

    Args:
        fills_blanks: whether choices fill the blanks of the question, as in RACE.
    """
    if not context:
        return question, list(choices)
    if fills_blanks and _BLANK.search(question):
        return context, [choice.join(_BLANK.split(question)) for choice in choices]
    return context, [f"{question} {choice}" if question else choice for choice in choices]
