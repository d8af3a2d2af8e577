"""The outputs of each task in an export: names, dtypes and shapes."""

import functools
from collections.abc import Mapping, Sequence

import tensorflow as tf

from albert_tf.layers.encoder import Unroll
from albert_tf.layers.heads import BEAM
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)
from albert_tf.models.base import PreTrainedModel
from albert_tf.tasks import TASKS

Tensors = dict[str, tf.Tensor]


@functools.singledispatch
def task_outputs(
    model: PreTrainedModel, features: Mapping[str, tf.Tensor], unroll: Unroll
) -> Tensors:
    """Returns the outputs of an exported model; each task registers its function.

    Every float is float32. Padding has outputs too, which mean nothing.

    Args:
        model: a task's model.
        features: `input_ids`, `attention_mask` and `token_type_ids`, int32 `[B, T]`, or
            `[B, C, T]` for multiple choice; the model's other inputs by name.
        unroll: False runs the layers as a loop of the graph; see `AlbertEncoder`.
    """
    names = ", ".join(task.model for task in TASKS.values())
    raise TypeError(f"An exported model must be one of {names}. Received: {type(model).__name__}.")


@task_outputs.register
def _(model: AlbertModel, features: Mapping[str, tf.Tensor], unroll: Unroll) -> Tensors:
    """`last_hidden_state` `[B, T, H]`, and from a model with a pooler `pooler_output` `[B, H]`."""
    return _outputs(model, features, unroll)


@task_outputs.register
def _(model: AlbertForPreTraining, features: Mapping[str, tf.Tensor], unroll: Unroll) -> Tensors:
    """`prediction_logits` `[B, T, V]`, or `[B, P, V]` with positions.

    `sop_logits` and `sop_probabilities` `[B, 2]`: the texts are in order, they are swapped.
    """
    outputs = _outputs(model, features, unroll)
    return {**outputs, "sop_probabilities": tf.nn.softmax(outputs["sop_logits"])}


@task_outputs.register
def _(model: AlbertForMaskedLM, features: Mapping[str, tf.Tensor], unroll: Unroll) -> Tensors:
    """`logits` `[B, T, V]`, or `[B, P, V]` with positions."""
    return _outputs(model, features, unroll)


@task_outputs.register
def _(
    model: AlbertForSequenceClassification, features: Mapping[str, tf.Tensor], unroll: Unroll
) -> Tensors:
    """`logits` `[B, C]`, and for regression the same as `value`. Otherwise:

    `probabilities` `[B, C]`, their names `classes`, string `[B, C]`, and `label`, string `[B]`: the
    highest-scoring class, also for multi-label models.
    """
    logits = _outputs(model, features, unroll)["logits"]
    if model.problem_type == "regression":
        return {"logits": logits, "value": tf.identity(logits)}
    return {
        "logits": logits,
        "probabilities": model.probabilities(logits),
        "label": _best_class(model, logits),
        "classes": _classes(model, logits),
    }


@task_outputs.register
def _(
    model: AlbertForTokenClassification, features: Mapping[str, tf.Tensor], unroll: Unroll
) -> Tensors:
    """`logits` and `probabilities` `[B, T, C]`, and their names `classes`, string `[B, C]`.

    `labels`, string `[B, T]`: the highest-scoring class of each piece.
    """
    logits = _outputs(model, features, unroll)["logits"]
    return {
        "logits": logits,
        "probabilities": tf.nn.softmax(logits),
        "labels": _best_class(model, logits),
        "classes": _classes(model, logits[:, 0]),
    }


@task_outputs.register
def _(
    model: AlbertForQuestionAnswering, features: Mapping[str, tf.Tensor], unroll: Unroll
) -> Tensors:
    """`start_logits` and `end_logits` `[B, T]`, or with `config.answerability`:

    `start_top_log_probs` and `start_top_index` (int32) `[B, 5]`, for each start in turn
    `end_top_log_probs` and `end_top_index` `[B, 25]`, and `cls_logits` `[B]`, higher where there is
    no answer. A position where no answer may be has a log probability near -1e30, or -65504 where
    weights are stored in float16.
    """
    if model.config.answerability:
        features = {name: at_least(BEAM, value) for name, value in features.items()}
    return _outputs(model, features, unroll)


@task_outputs.register
def _(model: AlbertForMultipleChoice, features: Mapping[str, tf.Tensor], unroll: Unroll) -> Tensors:
    """`logits` and `probabilities` `[B, C]`."""
    logits = _outputs(model, features, unroll)["logits"]
    return {"logits": logits, "probabilities": tf.nn.softmax(logits)}


def classes(model: PreTrainedModel) -> Sequence[str]:
    """Returns the names of the classes on the last axis of `logits`; none for other models."""
    if isinstance(model, AlbertForSequenceClassification):
        return () if model.problem_type == "regression" else model.config.labels
    return model.config.labels if model.task.has_classes else ()


def _outputs(model: PreTrainedModel, features: Mapping[str, tf.Tensor], unroll: Unroll) -> Tensors:
    outputs = model(dict(features), unroll=unroll, training=False)
    return {
        name: tf.cast(value, tf.float32) if value.dtype.is_floating else value
        for name, value in outputs.items()
    }


def _best_class(model: PreTrainedModel, logits: tf.Tensor) -> tf.Tensor:
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return tf.gather(tf.constant(model.config.labels), best)


def _classes(model: PreTrainedModel, logits: tf.Tensor) -> tf.Tensor:
    """The names of all classes, for each row of logits `[B, C]`."""
    every = tf.zeros_like(logits, tf.int32) + tf.range(model.config.num_labels)
    return tf.gather(tf.constant(model.config.labels), every)


def at_least(length: int, values: tf.Tensor) -> tf.Tensor:
    """Pads `[B, T]` to T ≥ length: a beam needs as many positions as it is wide."""
    if values.shape[1] is not None and values.shape[1] >= length:
        return values
    return tf.pad(values, [[0, 0], [0, tf.maximum(length - tf.shape(values)[1], 0)]])
