"""The zero-shot classification pipeline, based on natural language inference."""

import dataclasses
from collections.abc import Sequence
from string import Formatter
from typing import Any, NamedTuple

import numpy as np

from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError, listed
from albert_tf.pipelines.base import Outputs, Pipeline, Texts, TruncationOptions, as_text
from albert_tf.probabilities import softmax
from albert_tf.tasks import SEQUENCE_CLASSIFICATION
from albert_tf.text.sequences import EncodedSequence
from albert_tf.text.transformers_api import TransformersTokenizer

ENTAILS, CONTRADICTS = "entail", "contradict"  # prefixes of an NLI model's labels


class Candidates(NamedTuple):
    """A text, and the labels to choose from."""

    text: str
    labels: Sequence[str]


class ZeroShotClassificationPipeline(Pipeline):
    """Zero-shot classification pipeline, which classifies texts into labels not seen in training.

    The result for a text is a dict with the keys "sequence", "labels", and "scores", best label
    first. Each candidate label is turned into a hypothesis, and its score is the probability that
    the text entails the hypothesis. Pass labels as a list or as a comma-separated string.

    Example:

    >>> from albert_tf import AlbertForSequenceClassification, AlbertTokenizer
    >>> from albert_tf.pipelines import ZeroShotClassificationPipeline
    >>> names = {0: "contradiction", 1: "neutral", 2: "entailment"}
    >>> model = AlbertForSequenceClassification.from_pretrained("small", id2label=names)
    >>> tokenizer = AlbertTokenizer.from_pretrained("small")  # the model is not fine-tuned
    >>> ZeroShotClassificationPipeline(model, tokenizer)("A goal!", ["sport", "politics"])
    {'sequence': 'A goal!', 'labels': [...], 'scores': [...]}

    Args: see `Pipeline` and `Options`.
    Source: Yin, Hay and Roth, arXiv 1909.00161.
    """

    task = "zero-shot-classification"
    models = (SEQUENCE_CLASSIFICATION.model,)

    @dataclasses.dataclass(frozen=True)
    class Options(TruncationOptions):
        """Options for zero-shot classification.

        Attributes:
            candidate_labels: labels to choose from.
            hypothesis_template: a sentence with {} in place of the label. As in `str.format`, {{
                and }} stand for braces.
            multi_label: whether several labels can apply. If True, the score of each label is
                independent of the other labels, and compares entailment with contradiction. A
                single label is always scored this way.
        """

        candidate_labels: str | Sequence[str] = ()
        hypothesis_template: str = "This example is {}."
        multi_label: bool = False
        strategy = "only_first"  # the text, not the hypothesis

        def __post_init__(self) -> None:
            super().__post_init__()
            if not _has_one_field(self.hypothesis_template):
                raise UserError(
                    "hypothesis_template must contain {} exactly once, for the label; {{ and }} "
                    f"stand for braces. Received: {self.hypothesis_template!r}."
                )

    def __init__(
        self, model: Any, tokenizer: TransformersTokenizer, batch_size: int = 8, **options: Any
    ):
        super().__init__(model, tokenizer, batch_size, **options)
        labels = model.config.labels
        entailment = _index(labels, ENTAILS)
        if entailment is None:
            raise UserError(
                "zero-shot-classification requires a model fine-tuned on natural language "
                f"inference, with a label 'entailment'. Received: {listed(labels)}. Fine-tune with "
                "--task mnli, or pass id2label to from_pretrained."
            )
        self.entailment, self.contradiction = entailment, _index(labels, CONTRADICTS)
        if self.contradiction is None and len(labels) == 2:
            self.contradiction = 1 - self.entailment

    def __call__(
        self,
        inputs: Any,
        candidate_labels: str | Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        **options: Any,
    ) -> Any:
        if candidate_labels is not None:
            options["candidate_labels"] = candidate_labels
        return super().__call__(inputs, batch_size=batch_size, **options)

    def preprocess(self, given: Any, options: Options) -> Candidates:
        labels = options.candidate_labels
        if isinstance(labels, str):
            labels = labels.split(",")
        labels = [as_text(label, "A candidate label").strip() for label in labels]
        if not labels or not all(labels) or len(set(labels)) < len(labels):
            raise UserError(
                "candidate_labels must be one or more different, non-empty strings. "
                f"Received: {labels or 'none'}."
            )
        return Candidates(as_text(given), labels)

    def encode(self, examples: Sequence[Candidates], options: Options) -> Rows:
        pairs = [
            Texts(text, options.hypothesis_template.format(label))
            for text, labels in examples
            for label in labels
        ]
        rows = super().encode(pairs, options)
        counts = [len(labels) for _, labels in examples]
        rows.examples, rows.count = np.repeat(np.arange(len(examples)), counts), len(examples)
        return rows

    def postprocess(
        self,
        example: Candidates,
        windows: Sequence[tuple[EncodedSequence, Outputs]],
        options: Options,
    ) -> dict[str, Any]:
        logits = np.stack([outputs["logits"] for _, outputs in windows])
        if options.multi_label or len(example.labels) == 1:
            if self.contradiction is None:
                raise UserError(
                    "With multi_label=True or a single candidate label, the model must have the "
                    f"label 'contradiction'. Received: {listed(self.model.config.labels)}."
                )
            scores = softmax(logits[:, [self.contradiction, self.entailment]], axis=-1)[:, 1]
        else:
            scores = softmax(logits[:, self.entailment])
        order = np.argsort(-scores, kind="stable")
        return {
            "sequence": example.text,
            "labels": [example.labels[index] for index in order],
            "scores": [float(scores[index]) for index in order],
        }


def _has_one_field(template: str) -> bool:
    try:
        parts = list(Formatter().parse(template))
    except (TypeError, ValueError):
        return False
    return [part[1:] for part in parts if part[1] is not None] == [("", "", None)]


def _index(labels: Sequence[str], beginning: str) -> int | None:
    matching = (index for index, label in enumerate(labels) if label.lower().startswith(beginning))
    return next(matching, None)
