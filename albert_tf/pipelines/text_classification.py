"""Labels for texts and pairs of texts."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from scipy.special import expit, softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.pipelines.base import Outputs, Pipeline
from albert_tf.pipelines.batches import Row
from albert_tf.pipelines.inputs import Texts, as_texts
from albert_tf.pipelines.long_texts import LengthOptions, encode

BEST: Final = "best"
_FUNCTIONS: Final = {
    "sigmoid": expit,
    "softmax": softmax,
    "none": lambda logits: logits,
}


@dataclasses.dataclass(frozen=True)
class TextClassificationOptions(LengthOptions):
    """How texts are labelled.

    Attributes:
        top_k: how many labels, best first; None for all; "best" for the best one without a list.
        function_to_apply: "softmax", "sigmoid" or "none", from logits to scores. Default: none for
            regression, the sigmoid for several labels at once and for a single label, else the
            softmax.
    """

    top_k: int | str | None = BEST
    function_to_apply: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_k not in (BEST, None) and not (isinstance(self.top_k, int) and self.top_k > 0):
            raise UserError(f"top_k must be 1 or more, or None for all. Received: {self.top_k!r}.")
        name = self.function_to_apply
        if name not in (None, "default") and name not in _FUNCTIONS:
            raise UserError(
                f"function_to_apply must be one of {', '.join(_FUNCTIONS)}. Received: {name!r}."
            )


class TextClassificationPipeline(Pipeline[TextClassificationOptions]):
    """Labels with their scores: `[{"label": …, "score": …}]`.

    A text gives a list of one dict, or of `top_k`; a list of texts gives a list of dicts, or a list
    of such lists given `top_k`, as in transformers. A pair is a tuple, or a dict with `text` and
    `text_pair`, and gives its dict alone. The scores of a text read in windows (`stride`) are the
    means of its windows'.

    Args: see `Pipeline`, and `TextClassificationOptions` for the options.
    """

    task = "text-classification"
    models = (AlbertForSequenceClassification,)
    options_type = TextClassificationOptions

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        found = super().__call__(inputs, batch_size=batch_size, **options)
        return [found] if isinstance(inputs, str) and "top_k" not in options else found

    def example(self, given: Any, options: TextClassificationOptions) -> Texts:
        return as_texts(given)

    def encode(
        self, examples: Sequence[Texts], options: TextClassificationOptions
    ) -> Iterable[list[Row]]:
        return encode(self.tokenizer, examples, options, self.max_length)

    def finish(
        self,
        example: Texts,
        rows: Sequence[Row],
        found: Sequence[Outputs],
        options: TextClassificationOptions,
    ) -> Any:
        function = _FUNCTIONS[self._function(options)]
        scores = np.mean([function(each["logits"]) for each in found], axis=0)
        order = np.argsort(-scores, kind="stable")
        labels = self.model.config.labels
        ranked = [{"label": labels[place], "score": float(scores[place])} for place in order]
        return ranked[0] if isinstance(options.top_k, str) else ranked[: options.top_k]

    def _function(self, options: TextClassificationOptions) -> str:
        if options.function_to_apply not in (None, "default"):
            return str(options.function_to_apply)
        config = self.model.config
        if config.problem_type == "regression":
            return "none"
        is_single = config.num_labels == 1 or config.problem_type == "multi_label_classification"
        return "sigmoid" if is_single else "softmax"
