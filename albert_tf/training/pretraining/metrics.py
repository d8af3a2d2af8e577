"""What a pretraining step reports, as the original does, from sums that add up anywhere."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from keras import ops

from albert_tf.models import losses

NAMES: Final = (
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
)


class Sums(NamedTuple):
    """Sums over examples: those of steps, micro-batches and replicas are added, then divided.

    Attributes:
        masked_lm_loss, sentence_order_loss: of cross-entropies, in nats.
        masked_lm_correct, sentence_order_correct: of right answers.
        predictions: masked positions that count.
        sentences: pairs that have a label.
    """

    masked_lm_loss: Any
    masked_lm_correct: Any
    predictions: Any
    sentence_order_loss: Any
    sentence_order_correct: Any
    sentences: Any


NOTHING: Final = Sums(*[0.0] * len(Sums._fields))


def sums(labels: Mapping[str, Any], outputs: Mapping[str, Any]) -> Sums:
    """Of one batch; float32 scalars, on any backend.

    Args:
        labels: `labels` int `[B, P]`, -100 where nothing is predicted; `sentence_order_label`
            int `[B]`, if there is one.
        outputs: `prediction_logits` `[B, P, V]`, `sop_logits` `[B, 2]`.
    """
    masked_lm = _sums(labels["labels"], outputs["prediction_logits"])
    if "sentence_order_label" not in labels:
        return Sums(*masked_lm, *[ops.zeros((), "float32")] * 3)
    return Sums(*masked_lm, *_sums(labels["sentence_order_label"], outputs["sop_logits"]))


def added(parts: Iterable[Sums]) -> Sums:
    """The sums of all parts together."""
    return Sums(*(sum(values) for values in zip(NOTHING, *parts, strict=True)))


def reported(total: Sums) -> dict[str, float]:
    """Means by `NAMES`, `loss`, the sum of both losses, and `perplexity` of the masked pieces.

    Source: google-research/albert, run_pretraining.py, `metric_fn`.
    """
    predictions, sentences = (
        max(float(count), 1.0) for count in (total.predictions, total.sentences)
    )
    found = {
        "masked_lm_loss": float(total.masked_lm_loss) / predictions,
        "masked_lm_accuracy": float(total.masked_lm_correct) / predictions,
        "sentence_order_loss": float(total.sentence_order_loss) / sentences,
        "sentence_order_accuracy": float(total.sentence_order_correct) / sentences,
    }
    loss = found["masked_lm_loss"] + found["sentence_order_loss"]
    known = min(found["masked_lm_loss"], _LARGEST)
    return {"loss": loss, **found, "perplexity": math.exp(known)}


_LARGEST: Final = 700.0  # whose exponential is a float


def _sums(labels: Any, logits: Any) -> tuple[Any, Any, Any]:
    term = losses.cross_entropy(labels, logits)
    labels = ops.reshape(ops.cast(labels, "int32"), ops.shape(term.values))
    right = ops.cast(ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), labels), "float32")
    weights = ops.cast(term.weights, "float32")
    return (
        ops.sum(ops.cast(term.values, "float32") * weights),
        ops.sum(right * weights),
        ops.sum(weights),
    )
