"""Whether two texts are in their order, or swapped."""

from collections.abc import Sequence
from typing import Any, Final

from scipy.special import softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining
from albert_tf.pipelines.base import Outputs, Pipeline
from albert_tf.pipelines.texts import TextOptions, Texts, Window, as_texts

LABELS: Final = ("in_order", "swapped")  # by `sentence_order_label`


class SentenceOrderPipeline(Pipeline[TextOptions]):
    """Returns `{"label": "in_order" or "swapped", "score": …}` for a pair of texts.

    Example:

    >>> from albert_tf import pipeline
    >>> order = pipeline("sentence-order", "small")
    >>> order(("He opened the door.", "Then he went in."))
    {'label': ..., 'score': ...}

    Args: see `Pipeline`, and `TextOptions` for the options.
    Source: sentence order prediction, ALBERT, arXiv 1909.11942, section 3.1.
    """

    task = "sentence-order"
    models = (AlbertForPreTraining,)
    options_type = TextOptions

    def example(self, given: Any, options: TextOptions) -> Texts:
        texts = as_texts(given)
        if texts.text_pair is None:
            raise UserError(
                "Sentence order needs a pair of texts: (first, second). "
                f"Received: one text, {texts.text[:60]!r}."
            )
        return texts

    def finish(
        self,
        example: Texts,
        windows: Sequence[Window],
        found: Sequence[Outputs],
        options: TextOptions,
    ) -> dict[str, Any]:
        odds = sum(softmax(each["sop_logits"]) for each in found) / len(found)
        best = int(odds.argmax())
        return {"label": LABELS[best], "score": float(odds[best])}
