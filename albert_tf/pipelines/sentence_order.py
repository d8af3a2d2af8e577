"""Whether two texts follow one another, or were swapped."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from scipy.special import softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining
from albert_tf.pipelines.base import Outputs, Pipeline
from albert_tf.pipelines.batches import Row
from albert_tf.pipelines.inputs import Texts, as_texts
from albert_tf.pipelines.long_texts import LengthOptions, encode

LABELS: Final = ("in_order", "swapped")  # by `sentence_order_label`


class SentenceOrderPipeline(Pipeline[LengthOptions]):
    """`{"label": "in_order" or "swapped", "score": …}` for a pair of texts.

    Args: see `Pipeline`, and `LengthOptions` for the options.
    Source: sentence order prediction, ALBERT, arXiv 1909.11942, section 3.1.
    """

    task = "sentence-order"
    models = (AlbertForPreTraining,)
    options_type = LengthOptions

    def example(self, given: Any, options: LengthOptions) -> Texts:
        texts = as_texts(given)
        if texts.text_pair is None:
            raise UserError(
                "Sentence order is asked of a pair: (first, second). "
                f"Received: one text, {texts.text[:60]!r}."
            )
        return texts

    def encode(self, examples: Sequence[Texts], options: LengthOptions) -> Iterable[list[Row]]:
        return encode(self.tokenizer, examples, options, self.max_length)

    def finish(
        self, example: Texts, rows: Sequence[Row], found: Sequence[Outputs], options: LengthOptions
    ) -> dict[str, Any]:
        odds = sum(softmax(each["sop_logits"]) for each in found) / len(found)
        best = int(odds.argmax())
        return {"label": LABELS[best], "score": float(odds[best])}
