"""One of several choices for a context, a question, or both: RACE, SWAG, and files of your own."""

import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import softmax

from albert_tf.data import features
from albert_tf.data.tasks.base import Judged, Outputs, Task
from albert_tf.data.tasks.choice_files import RACE, SWAG, Example, read_choices
from albert_tf.data.tasks.classification import NEARLY_ALL, ONE_CLASS
from albert_tf.data.tasks.rows import Rows

EVEN: Final = 0.01  # a choice must exceed an equal share by this much to count as preferred
# Most pieces of a question with its choice: `max_qa_length` of google-research/albert, run_race.py.
MAX_QUESTION: Final = 128
# A blank in RACE's questions: the underscore, and the characters that the original makes one.
_BLANK: Final = re.compile("[_\uff3f\ufe33\ufe34\ufe4d-\ufe4f]")
logger = logging.getLogger(__name__)


class Choices(Task[Example, np.ndarray]):
    """One of several choices. A prediction is float `[C]`: the probability of each choice."""

    model = "AlbertForMultipleChoice"

    def files(self, part: str) -> list[Path]:
        """Finds RACE's folder of a part, SWAG's `val.csv`, or a file as other tasks have it."""
        folder = self.options.data / part
        if self.options.task == RACE and folder.is_dir():
            return [folder]
        is_swag = self.options.task == SWAG and self.options.data.is_dir()
        return super().files("val" if is_swag and part == "dev" else part)

    def read(self, path: Path, labelled: bool = True) -> list[Example]:
        return read_choices(path, self.options, labelled)

    def config_fields(self, train: Sequence[Example]) -> dict[str, Any]:
        """Returns the defaults: a model of choices has no names of classes."""
        return {"id2label": {0: "LABEL_0", 1: "LABEL_1"}, "problem_type": None}

    def check(self, examples: Sequence[Example], config: Any) -> None:
        """Does nothing: labels are numbers of an example's own choices, which `read` checks."""

    def encode(
        self, examples: Sequence[Example], tokenizer: Any, config: Any, max_length: int
    ) -> Rows:
        labels = [example.label for example in examples if example.label is not None]
        return choice_rows(
            [segments(*example[:3], self.options.task == RACE) for example in examples],
            labels if len(labels) == len(examples) else None,
            tokenizer,
            max_length,
            [example.place for example in examples],
        )

    def predictions(
        self, examples: Sequence[Example], rows: Rows, outputs: Sequence[Outputs], config: Any
    ) -> list[np.ndarray]:
        return [
            softmax(output["logits"][: len(example.choices)])
            for example, output in zip(examples, outputs, strict=True)
        ]

    def scores(
        self, examples: Sequence[Example], predictions: Sequence[np.ndarray], config: Any
    ) -> dict[str, float]:
        """Returns `accuracy`, and where there are parts `accuracy_PART` of each.

        Adds `ONE_CLASS` if the model prefers no choice in `NEARLY_ALL` examples or more.
        """
        right = defaultdict(list)
        for example, found in zip(examples, predictions, strict=True):
            right[example.part].append(int(found.argmax()) == example.label)
        scores = {"accuracy": float(np.mean(np.concatenate(list(right.values()))))}
        parts = {f"accuracy_{part}": float(np.mean(right[part])) for part in sorted(right) if part}
        even = np.mean([found.max() < 1 / len(found) + EVEN for found in predictions])
        flag = {ONE_CLASS: 1.0} if even >= NEARLY_ALL else {}
        return {**scores, **parts, **flag}

    def write(
        self,
        folder: Path,
        examples: Sequence[Example],
        predictions: Sequence[np.ndarray],
        config: Any,
    ) -> None:
        """Writes an object a line: the id, or the place of a row without, choice, probabilities."""
        with (folder / "predictions.jsonl").open("w", encoding="utf-8") as file:
            for example, found in zip(examples, predictions, strict=True):
                key = {"id": example.id} if example.id else {"place": example.place}
                odds = [round(float(each), 6) for each in found]
                line = {**key, "chosen": int(found.argmax()), "probabilities": odds}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def judged(
        self, examples: Sequence[Example], predictions: Sequence[np.ndarray], config: Any
    ) -> list[Judged]:
        return list(map(_judged, examples, predictions))

    def texts(self, example: Example) -> Iterable[str]:
        return (text for text in (example.context, example.question, *example.choices) if text)

    def groups(self, examples: Sequence[Example]) -> Sequence[Any] | None:
        """Returns the contexts where questions share one."""
        contexts = [example.context or example.question for example in examples]
        return contexts if len(set(contexts)) < len(contexts) else None


def _judged(example: Example, probabilities: np.ndarray) -> Judged:
    best, label = int(probabilities.argmax()), example.label
    context = [text for text in (example.context, example.question) if text]
    return Judged(
        "\n".join([*context, *(f"- {choice}" for choice in example.choices)]),
        "" if label is None else example.choices[label],
        example.choices[best],
        float(probabilities[best]),
        best == label,
    )


def choice_rows(
    pairs: Sequence[tuple[str, Sequence[str]]],
    labels: Sequence[int] | None,
    tokenizer: Any,
    max_length: int,
    places: Sequence[str] = (),
) -> Rows:
    """Returns rows `[C, T]` of pairs `[CLS] context [SEP] question and choice [SEP]`.

    A second segment has its last `MAX_QUESTION` pieces at most, or as many as fit; the first gets
    the rest of the window, and loses its end.

    Args:
        pairs: for each example the first segment, and the second one of each choice.
        labels: the right choices, if known.
        places: of the examples, for a warning.
    Source: google-research/albert, race_utils.py, `convert_single_example`.
    """
    most = min(MAX_QUESTION, max_length - tokenizer.num_special_tokens_to_add(pair=True))
    texts = dict.fromkeys(first for first, _ in pairs)  # RACE's articles have many questions
    firsts = dict(zip(texts, _pieces(list(texts), tokenizer), strict=True))
    seconds = iter(_pieces([text for _, each in pairs for text in each], tokenizer))
    arrays: dict[str, list[np.ndarray]] = {feature.name: [] for feature in features.INPUTS}
    cut = []
    for number, (first, choices) in enumerate(pairs):
        ends = [next(seconds) for _ in choices]
        if max(map(len, ends)) > most:
            cut.append(number)
        row = [_pair(firsts[first], end[-most:], tokenizer, max_length) for end in ends]
        for name, values in zip(arrays, _stacked(row, tokenizer.pad_token_id), strict=True):
            arrays[name].append(values)
    if cut:
        logger.warning(
            "%d of %d examples have a question with a choice of more than %d pieces, which lose "
            "their beginnings%s. A larger max_length takes up to %d pieces.",
            *(len(cut), len(pairs), most),
            *(f"; the first: {places[cut[0]]}" if places else "", MAX_QUESTION),
        )
    return Rows(arrays, {} if labels is None else {"labels": labels}, tokenizer.pad_token_id)


def _pieces(texts: list[str], tokenizer: Any) -> list[list[int]]:
    encoded = tokenizer(texts, add_special_tokens=False, split_special_tokens=True, verbose=False)
    return list(encoded["input_ids"])


def _pair(
    first: list[int], second: list[int], tokenizer: Any, max_length: int
) -> tuple[list[int], list[int]]:
    """Returns ids and segments of a pair; the first loses what doesn't fit."""
    room = max_length - len(second) - tokenizer.num_special_tokens_to_add(pair=True)
    ids = tokenizer.build_inputs_with_special_tokens(first[:room], second)
    ones = len(second) + 1
    return ids, [0] * (len(ids) - ones) + [1] * ones


def _stacked(row: Sequence[tuple[list[int], list[int]]], pad_id: int) -> Iterator[np.ndarray]:
    """Yields ids, mask and segments `[C, T]`, padded to the longest choice."""
    longest = max(len(ids) for ids, _ in row)
    lengths = [longest - len(ids) for ids, _ in row]
    pairs = list(zip(row, lengths, strict=True))
    yield np.array([ids + [pad_id] * missing for (ids, _), missing in pairs], "int32")
    yield np.array([[1] * len(ids) + [0] * missing for (ids, _), missing in pairs], "int32")
    yield np.array([types + [0] * missing for (_, types), missing in pairs], "int32")


def segments(
    context: str, question: str, choices: Sequence[str], fills_blanks: bool = False
) -> tuple[str, list[str]]:
    """Returns the first segment, and the second one of each choice.

    Without a context the question is the first.

    Args:
        fills_blanks: whether choices fill the question's blanks, as in RACE.
    """
    if not context:
        return question, list(choices)
    if fills_blanks and _BLANK.search(question):
        return context, [choice.join(_BLANK.split(question)) for choice in choices]
    return context, [f"{question} {choice}" if question else choice for choice in choices]
