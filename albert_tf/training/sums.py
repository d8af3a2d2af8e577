"""Sums over examples: those of micro-batches, replicas and steps add up; means come last."""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from keras import ops

from albert_tf.data.tasks.rows import SAMPLE_WEIGHT
from albert_tf.layers.common import Tensor
from albert_tf.models import losses
from albert_tf.models.base import PreTrainedModel
from albert_tf.training.objective import Objective

# Float32 `[K, 3]`: for each of the model's K targets its loss, its right answers and its count.
Sums: TypeAlias = Any
LOSS, RIGHT, COUNT = range(3)
Labels: TypeAlias = Mapping[str, Tensor]
Batch: TypeAlias = tuple[Mapping[str, Tensor], Labels]  # features and labels, by name

PLAIN: Final = Objective()
PRETRAINING: Final = ("masked_lm", "sentence_order")  # AlbertForPreTraining's targets, in order


def sums(
    model: PreTrainedModel,
    labels: Labels,
    outputs: Mapping[str, Tensor],
    objective: Objective = PLAIN,
) -> Sums:
    """Returns the sums of a batch; a target without a label has zeros.

    Args:
        labels: by the names of `model.targets`; integers of -100 don't count, nor do examples whose
            `SAMPLE_WEIGHT` is 0.
        outputs: what the model returned for the batch's features.
        objective: changes of the loss.
    """
    given = {name: labels[name] for name in model.targets if name in labels}
    terms = dict(zip(given, model.loss_terms(given, outputs), strict=True))
    nothing = ops.zeros((3,), "float32")
    weight = labels.get(SAMPLE_WEIGHT)
    rows = [
        _row(terms[name], given[name], outputs[output], weight, objective)
        if name in given
        else nothing
        for name, output in model.targets.items()
    ]
    return ops.stack(rows)


def counts(model: PreTrainedModel, labels: Labels) -> Tensor:
    """Returns the column `COUNT` of `sums`, which needs no outputs."""
    weight = labels.get(SAMPLE_WEIGHT)
    found = [
        losses.count(labels[name], weight) if name in labels else 0.0 for name in model.targets
    ]
    return ops.stack([ops.cast(each, "float32") for each in found])


def batch_loss(part: Sums, counts: Tensor) -> Tensor:
    """Returns a part's share of a batch's loss: the sum of the targets' means.

    Args:
        part: sums of a replica or a micro-batch.
        counts: of the whole batch.
    """
    return ops.sum(part[:, LOSS] / ops.maximum(counts, 1.0))


def pretraining_means(total: Sums) -> dict[str, float]:
    """Returns `loss`, each task's loss and accuracy, and the masked pieces' `perplexity`.

    A task without labels is left out.

    Source: google-research/albert, run_pretraining.py, `metric_fn`.
    """
    found: dict[str, float] = {}
    for task, row in zip(PRETRAINING, np.asarray(total, "float64"), strict=True):
        if row[COUNT] or task == PRETRAINING[0]:
            count = max(row[COUNT], 1.0)
            found[f"{task}_loss"] = float(row[LOSS] / count)
            found[f"{task}_accuracy"] = float(row[RIGHT] / count)
    loss = sum(value for name, value in found.items() if name.endswith("_loss"))
    known = min(found["masked_lm_loss"], _LARGEST)
    return {"loss": loss, **found, "perplexity": math.exp(known)}


_LARGEST: Final = 700.0  # its exponential is still a float


def finetuning_means(total: Sums, has_accuracy: bool) -> dict[str, float]:
    """Returns `loss`, the sum of the targets' means, and `accuracy` of a model with one target."""
    rows = np.asarray(total, "float64")
    found = {"loss": float(sum(row[LOSS] / max(row[COUNT], 1.0) for row in rows))}
    if has_accuracy:
        ((_, right, count),) = rows
        found["accuracy"] = float(right / max(count, 1.0))
    return found


def _row(
    term: losses.Term, labels: Tensor, logits: Tensor, weight: Tensor | None, objective: Objective
) -> Tensor:
    weights = ops.cast(term.weights, "float32")
    if weight is not None:
        weights = weights * losses.per_example(weight, weights)
    values = ops.cast(term.values, "float32")
    if objective != PLAIN:
        values = _changed(values, labels, logits, objective)
    loss = term.share * ops.sum(values * weights)
    right = ops.zeros((), "float32")
    if losses.is_class(labels):
        labels = ops.reshape(ops.cast(labels, "int32"), ops.shape(weights))
        best = ops.cast(ops.argmax(logits, axis=-1), "int32")
        right = ops.sum(ops.cast(ops.equal(best, labels), "float32") * weights)
    return ops.stack([loss, right, ops.sum(weights)])


def _changed(values: Tensor, labels: Tensor, logits: Tensor, objective: Objective) -> Tensor:
    """Returns the smoothed and weighted cross-entropies of labels that are classes."""
    if objective.label_smoothing:
        others = -ops.mean(ops.log_softmax(ops.cast(logits, "float32")), axis=-1)
        values = values + objective.label_smoothing * (others - values)
    if objective.class_weights is not None:
        classes = ops.maximum(ops.reshape(ops.cast(labels, "int32"), ops.shape(values)), 0)
        values = values * ops.take(ops.array(objective.class_weights, "float32"), classes)
    return values
