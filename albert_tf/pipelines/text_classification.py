"""The pipelines for classifying texts or text pairs, and for sentence order prediction."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, Final

import numpy as np

from albert_tf.errors import UserError
from albert_tf.pipelines.base import (
    LongTextOptions,
    Outputs,
    Pipeline,
    Texts,
    as_texts,
    is_text,
)
from albert_tf.probabilities import sigmoid, softmax
from albert_tf.tasks import PRETRAINING, SEQUENCE_CLASSIFICATION
from albert_tf.text.sequences import EncodedSequence

BEST: Final = "best"
ORDERS: Final = ("in_order", "swapped")  # indexed by `sentence_order_label`
_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "sigmoid": sigmoid,
    "softmax": softmax,
    "none": lambda logits: logits,
}


class TextClassificationPipeline(Pipeline):
    """Text classification pipeline, which returns labels and their scores.

    A call takes texts or text pairs. A pair is a tuple, or a dict with the keys "text" and
    "text_pair". With `stride`, the scores of a text are averaged over its windows.

    As in transformers, the result for a text is a list of `top_k` dicts (by default one) with the
    keys "label" and "score". The result for a pair is a dict. The result for a list of texts is a
    list of dicts, or of lists if `top_k` is set.

    Example:

    >>> from albert_tf import AlbertForSequenceClassification, AlbertTokenizer
    >>> from albert_tf.pipelines import TextClassificationPipeline
    >>> model = AlbertForSequenceClassification.from_pretrained("small")  # not fine-tuned
    >>> tokenizer = AlbertTokenizer.from_pretrained("small")
    >>> TextClassificationPipeline(model, tokenizer)("A quiet delight.")
    [{'label': 'LABEL_...', 'score': ...}]

    Args: see `Pipeline` and `Options`.
    """

    task = "text-classification"
    models = (SEQUENCE_CLASSIFICATION.model,)
    takes_pairs = True

    @dataclasses.dataclass(frozen=True)
    class Options(LongTextOptions):
        """Options for text classification.

        Attributes:
            top_k: number of labels to return, best first. None returns all labels, and "best"
                returns the best label without a list.
            function_to_apply: function that converts logits to scores: "softmax", "sigmoid", or
                "none". Default: "none" for regression, "sigmoid" for multi-label models, and
                "softmax" for all others.
        """

        top_k: int | str | None = BEST
        function_to_apply: str | None = None

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.top_k not in (BEST, None) and not (
                isinstance(self.top_k, Integral) and self.top_k > 0
            ):
                raise UserError(
                    f"top_k must be at least 1, or None for all. Received: {self.top_k!r}."
                )
            name = self.function_to_apply
            if name not in (None, "default") and name not in _FUNCTIONS:
                raise UserError(
                    f"function_to_apply must be one of {', '.join(_FUNCTIONS)}. Received: {name!r}."
                )

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        found = super().__call__(inputs, batch_size=batch_size, **options)
        return [found] if is_text(inputs) and "top_k" not in options else found

    def _merge_options(self, options: Mapping[str, Any]) -> Options:
        given = dict(options)
        every = given.pop("return_all_scores", None)  # transformers' older form of top_k
        if every is not None:
            given.setdefault("top_k", None if every else BEST)
        return super()._merge_options(given)

    def preprocess(self, given: Any, options: Options) -> Texts:
        return as_texts(given)

    def postprocess(
        self, example: Texts, windows: Sequence[tuple[EncodedSequence, Outputs]], options: Options
    ) -> Any:
        name = options.function_to_apply
        if name in (None, "default"):
            defaults = {"regression": "none", "multi_label_classification": "sigmoid"}
            name = defaults.get(self.model.config.problem_type, "softmax")
        function = _FUNCTIONS[str(name)]
        scores = np.mean([function(outputs["logits"]) for _, outputs in windows], axis=0)
        labels = self.model.config.labels
        order = np.argsort(-scores, kind="stable")
        ranked = [{"label": labels[index], "score": float(scores[index])} for index in order]
        return ranked[0] if isinstance(options.top_k, str) else ranked[: options.top_k]


class SentenceOrderPipeline(Pipeline):
    """Sentence order pipeline, which predicts whether the two texts of a pair are in order.

    The result for a pair is a dict with the keys "label" ("in_order" or "swapped") and "score".

    Example:

    >>> from albert_tf import pipeline
    >>> order = pipeline("sentence-order", "small")
    >>> order(("He opened the door.", "Then he went in."))
    {'label': ..., 'score': ...}

    Args: see `Pipeline` and `LongTextOptions`.
    Source: sentence order prediction, ALBERT, arXiv 1909.11942, section 3.1.
    """

    task = "sentence-order"
    models = (PRETRAINING.model,)
    takes_pairs = True
    Options = LongTextOptions

    def preprocess(self, given: Any, options: LongTextOptions) -> Texts:
        texts = as_texts(given)
        if texts.text_pair is None:
            raise UserError(
                "sentence-order requires a text pair, (first, second). "
                f"Received: a single text, {texts.text[:60]!r}."
            )
        return texts

    def postprocess(
        self,
        example: Texts,
        windows: Sequence[tuple[EncodedSequence, Outputs]],
        options: LongTextOptions,
    ) -> dict[str, Any]:
        probabilities = sum(softmax(outputs["sop_logits"]) for _, outputs in windows) / len(windows)
        best = int(probabilities.argmax())
        return {"label": ORDERS[best], "score": float(probabilities[best])}
