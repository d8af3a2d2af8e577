"""Compares predictions with labels, and writes mistakes.md and confusion.png."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from albert_tf.checkpoints.hub import in_cell
from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.answers import Answers, QuestionAnswering, answer_threshold
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.choices import ChoiceExample, Choices
from albert_tf.data.tasks.classification import Classification
from albert_tf.data.tasks.labels import MultiLabel, Regression, SingleLabel, chosen_labels
from albert_tf.data.tasks.similarity import Match, Similarity, largest_score
from albert_tf.data.tasks.tagging import Tagged, Tagging
from albert_tf.evaluation.entities import OUTSIDE, entities, parsed
from albert_tf.evaluation.metrics import judge
from albert_tf.training.plots import plot_confusion

CONFUSION: Final = "confusion.png"
MISTAKES: Final = "mistakes.md"
_MOST_MISTAKES: Final = 50
_QUOTED: Final = 400  # maximum characters per line


class Graded(NamedTuple):
    """A prediction and its label, formatted for people.

    Attributes:
        text: all texts that the prediction depends on, each on its own line.
        expected, predicted: class names, answers, entities, or numbers.
        confidence: probability of the prediction; for a number, the distance from the label.
        is_right: whether the task's metric counts the prediction as correct.
        is_number: whether the prediction is a number.
    """

    text: str
    expected: str
    predicted: str
    confidence: float
    is_right: bool
    is_number: bool = False


def write_mistakes(predicted: Predicted, folder: Path) -> None:
    """Writes the worst mistakes and, for classes or tags, a confusion matrix."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFUSION).unlink(missing_ok=True)
    task, examples, predictions, config = predicted
    graded, pairs = grade(predicted), []
    if isinstance(task, Tagging):
        pairs = entity_kinds(task.tag_names(examples, config), predictions, config)
    elif isinstance(task, Classification) and isinstance(task.label_type, SingleLabel):
        pairs = [(each.expected, each.predicted) for each in graded]
    if len({name for pair in pairs for name in pair}) > 1:
        plot_confusion(pairs, folder / CONFUSION)
    (folder / MISTAKES).write_text(mistakes(graded), encoding="utf-8", newline="\n")


def grade(predicted: Predicted) -> list[Graded]:
    """Compares predictions with the labels of their examples."""
    task, examples, predictions, config = predicted
    texts = ["\n".join(task.texts(example)) for example in examples]
    found = list(zip(examples, texts, predictions, strict=True))
    if isinstance(task, QuestionAnswering):
        threshold = answer_threshold(examples, config)
        return [grade_span(text, each.golds, answer, threshold) for each, text, answer in found]
    if isinstance(task, Choices):
        return [
            grade_class(_choice_text(each), each.choices, each.label, values)
            for each, _, values in found
        ]
    if isinstance(task, Similarity):
        scale = largest_score(examples)
        return [
            grade_partner(each.texts, match)
            if each.score is None
            else grade_number(text, each.score, match.cosine * scale)
            for each, text, match in found
        ]
    if isinstance(task, Tagging):
        names = task.tag_names(examples, config)
        return [
            grade_tags(each.words, tags, tagged, config)
            for (each, _, tagged), tags in zip(found, names, strict=True)
        ]
    assert isinstance(task, Classification)
    targets = task.label_type.targets(examples, config)
    labelled = zip(texts, targets, predictions, strict=True)
    if isinstance(task.label_type, Regression):
        return [grade_number(text, target, float(value[0])) for text, target, value in labelled]
    if isinstance(task.label_type, MultiLabel):
        return [grade_labels(text, target, values, config) for text, target, values in labelled]
    return [grade_class(text, config.labels, target, values) for text, target, values in labelled]


def _choice_text(example: ChoiceExample) -> str:
    texts = [text for text in (example.context, example.question) if text]
    return "\n".join([*texts, *(f"- {choice}" for choice in example.choices)])


def grade_class(
    text: str, names: Sequence[str], label: int | None, probabilities: np.ndarray
) -> Graded:
    """Compares the most probable class or choice with the correct one."""
    best = int(probabilities.argmax())
    expected = "" if label is None else names[label]
    return Graded(text, expected, names[best], float(probabilities[best]), best == label)


def grade_labels(
    text: str, target: np.ndarray, probabilities: dict[str, float], config: AlbertConfig
) -> Graded:
    """Compares the predicted set of labels with the expected set."""
    expected = {name for name, holds in zip(config.labels, target, strict=True) if holds}
    chosen = chosen_labels(probabilities, config)
    confidence = min(
        value if name in chosen else 1 - value for name, value in probabilities.items()
    )
    right, predicted = (", ".join(labels) or "no label" for labels in (sorted(expected), chosen))
    return Graded(text, right, predicted, confidence, expected == {*chosen})


def grade_number(text: str, target: float, value: float) -> Graded:
    """Compares a number with its label; the confidence is the distance between them."""
    distance = abs(value - target)
    return Graded(text, f"{target:g}", f"{value:.3g}", distance, distance == 0, True)


def grade_partner(texts: Sequence[str], match: Match) -> Graded:
    """Compares a first text's partner with the text that was found to be most similar."""
    return Graded(texts[0], texts[1], match.best, match.cosine, match.rank == 1)


def grade_span(text: str, golds: Sequence[str], answers: Answers, threshold: float) -> Graded:
    """Compares an answer with all gold answers, but the result contains only the first."""
    answer = answers.text(threshold)
    is_right = bool(judge(answer, golds).exact_match)
    return Graded(text, golds[0] if golds else "", answer, answers.confidence(threshold), is_right)


def grade_tags(
    words: Sequence[str], tags: Sequence[str], tagged: Tagged, config: AlbertConfig
) -> Graded:
    """Compares the tags of a sentence, and shows only the entities."""
    known = parsed(config.labels)

    def entities_of(tags: Sequence[str]) -> str:
        spans = entities(known[tag] for tag in tags)
        return ", ".join(f"{' '.join(words[start:end])} ({name})" for name, start, end in spans)

    return Graded(
        " ".join(words),
        entities_of(tags),
        entities_of(tagged.tags),
        min(tagged.probabilities),
        tags == tagged.tags,
    )


def entity_kinds(
    names: Sequence[Sequence[str]], predictions: Sequence[Tagged], config: AlbertConfig
) -> list[tuple[str, str]]:
    """Returns the expected and the predicted entity type of each word.

    The type is "O" for a word outside entities, and the tag itself if tags have no entity prefix.
    """
    kinds = {
        label: OUTSIDE if label == OUTSIDE else label if tag.kind == OUTSIDE else tag.kind
        for label, tag in parsed(config.labels).items()
    }
    return [
        (kinds[tag], kinds[other])
        for tags, prediction in zip(names, predictions, strict=True)
        for tag, other in zip(tags, prediction.tags, strict=True)
    ]


def mistakes(graded: Sequence[Graded]) -> str:
    """Returns the mistakes with the highest confidence or distance, as Markdown."""
    wrong = [prediction for prediction in graded if not prediction.is_right]
    wrong.sort(key=lambda prediction: -prediction.confidence)
    measure, lines = "confidence", ["# Mistakes", ""]
    lines.append(f"{len(wrong):,} of {len(graded):,} predictions are wrong.")
    if any(prediction.is_number for prediction in graded):
        mean = sum(prediction.confidence for prediction in graded) / max(len(graded), 1)
        measure, lines = "distance", ["# Largest errors", ""]
        lines.append(f"The mean distance of {len(graded):,} predictions is {mean:.3g}.")
    if len(wrong) > _MOST_MISTAKES:
        lines[-1] += f" These {_MOST_MISTAKES} have the highest {measure}."
    if wrong:
        lines += ["", f"| {measure} | expected | predicted | text |", "|---|---|---|---|"]
    for each in wrong[:_MOST_MISTAKES]:
        text = "<br>".join(_shorten(line, each) for line in each.text.splitlines())
        cells = _shorten(each.expected), _shorten(each.predicted), text
        lines.append(f"| {each.confidence:.3g} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _shorten(text: str, around: Graded | None = None) -> str:
    """Returns text for a table cell; a long text is cut to its start, or around an answer."""
    answers = (around.expected, around.predicted) if around else ()
    shown = [answer for answer in answers if answer and answer in text]
    start = max(text.find(shown[0]) - _QUOTED // 2, 0) if shown and len(text) > _QUOTED else 0
    cut = text[start : start + _QUOTED]
    end = "…" if start + _QUOTED < len(text) else ""
    return in_cell(f"{'…' if start else ''}{cut}{end}") or "–"
