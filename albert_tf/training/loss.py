"""The loss of training: totals, and class weights."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.rows import IGNORED, SAMPLE_WEIGHT, Rows
from albert_tf.layers.common import Tensor
from albert_tf.models import losses
from albert_tf.training.options import (
    BALANCED,
    FinetuningOptions,
    check_class_weights,
    weights_by_label,
)

# Float32 `[K, 3]`: loss, correct predictions and count of each of the model's targets. They add up
# over micro-batches, replicas and steps, and are divided last.
Totals: TypeAlias = Any
LOSS, CORRECT, COUNT = range(3)
Labels: TypeAlias = Mapping[str, Tensor]
Batch: TypeAlias = tuple[Mapping[str, Tensor], Labels]  # features and labels, by name
ClassWeights: TypeAlias = tuple[float, ...] | None

PRETRAINING: Final = ("masked_lm", "sentence_order")  # AlbertForPreTraining's targets, in order
_LARGEST: Final = 700.0  # its exponential is still a float


@dataclasses.dataclass(frozen=True)
class Loss:
    """The loss of a model's targets, as totals.

    Args:
        model: has `targets` and `loss_terms`.
        class_weights: weight of each class's loss, for integer class labels; the mean divides by
            the example count, not by the sum of weights, as Keras does.
    """

    model: Any
    class_weights: ClassWeights = None

    def totals(self, labels: Labels, outputs: Mapping[str, Tensor]) -> Totals:
        """Returns the totals of a batch; a target without a label has zeros.

        Args:
            labels: by the names of `model.targets`; integers of -100 don't count, nor do examples
                whose `SAMPLE_WEIGHT` is 0.
            outputs: what the model returned for the batch's features.
        """
        weight, targets = labels.get(SAMPLE_WEIGHT), self.model.targets
        given = {name: labels[name] for name in targets if name in labels}
        found = self.model.loss_terms(given, outputs) if given else []
        terms = dict(zip(given, found, strict=True))
        return ops.stack(
            [
                self._target(terms[name], given[name], outputs[output], weight)
                if name in given
                else ops.zeros((3,), "float32")
                for name, output in targets.items()
            ]
        )

    def counts(self, labels: Labels) -> Tensor:
        """Returns the column `COUNT` of `totals`, which needs no outputs."""
        weight = labels.get(SAMPLE_WEIGHT)
        counts = [
            losses.count(labels[name], weight) if name in labels else 0.0
            for name in self.model.targets
        ]
        return ops.stack([ops.cast(count, "float32") for count in counts])

    def _target(
        self, term: losses.Term, labels: Tensor, logits: Tensor, weight: Tensor | None
    ) -> Tensor:
        weights = ops.cast(term.weights, "float32")
        if weight is not None:
            weights = weights * losses.per_example(weight, weights)
        values = ops.cast(term.values, "float32")
        if losses.is_class(labels) and self.class_weights is not None:
            classes = ops.maximum(ops.reshape(ops.cast(labels, "int32"), ops.shape(values)), 0)
            values = values * ops.take(ops.array(self.class_weights, "float32"), classes)
        loss = term.weight * ops.sum(values * weights)
        correct = ops.zeros((), "float32")
        if losses.is_class(labels) and len(logits.shape) == len(weights.shape) + 1:
            labels = ops.reshape(ops.cast(labels, "int32"), ops.shape(weights))
            best = ops.cast(ops.argmax(logits, axis=-1), "int32")
            correct = ops.sum(ops.cast(ops.equal(best, labels), "float32") * weights)
        return ops.stack([loss, correct, ops.sum(weights)])


def batch_loss(part: Totals, counts: Tensor) -> Tensor:
    """Returns a part's share of a batch's loss: the sum of the targets' means.

    Args:
        part: totals of a replica or a micro-batch.
        counts: of the whole batch.
    """
    return ops.sum(part[:, LOSS] / ops.maximum(counts, 1.0))


def pretraining_means(totals: Totals) -> dict[str, float]:
    """Returns `loss`, the loss and accuracy of both targets, and the masked tokens' `perplexity`.

    A target without labels is left out.

    Source: google-research/albert, run_pretraining.py, `metric_fn`.
    """
    means: dict[str, float] = {}
    for target, row in zip(PRETRAINING, np.asarray(totals, "float64"), strict=True):
        if row[COUNT] or target == PRETRAINING[0]:
            count = max(row[COUNT], 1.0)
            means[f"{target}_loss"] = float(row[LOSS] / count)
            means[f"{target}_accuracy"] = float(row[CORRECT] / count)
    loss = sum(value for name, value in means.items() if name.endswith("_loss"))
    perplexity = math.exp(min(means["masked_lm_loss"], _LARGEST))
    return {"loss": loss, **means, "perplexity": perplexity}


def finetuning_means(totals: Totals, has_accuracy: bool) -> dict[str, float]:
    """Returns `loss`, the sum of the targets' means, and the first target's `accuracy`."""
    rows = np.asarray(totals, "float64")
    means = {"loss": float(sum(row[LOSS] / max(row[COUNT], 1.0) for row in rows))}
    if has_accuracy:
        _, correct, count = rows[0]
        means["accuracy"] = float(correct / max(count, 1.0))
    return means


def class_weights(
    options: FinetuningOptions, task: Any, config: AlbertConfig, rows: Rows
) -> ClassWeights:
    """Returns the weight of each class in fine-tuning; None without weights.

    Args:
        config: the model's.
        rows: of training, whose classes are counted for balanced weights.
    Raises:
        UserError: as for `check_class_weights`.
    """
    check_class_weights(options, task, config)
    weights = weights_by_label(options.class_weights, config.labels)
    if tuple(options.class_weights) == (BALANCED,):
        classes = np.concatenate([np.ravel(label) for label in rows.labels["labels"]])
        counts = np.bincount(classes[classes != IGNORED], minlength=config.num_labels)
        present = np.count_nonzero(counts)
        weights = np.where(counts, counts.sum() / (present * np.maximum(counts, 1)), 1.0).tolist()
    return None if weights is None else tuple(weights)
