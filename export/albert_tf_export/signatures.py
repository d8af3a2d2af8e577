"""The signatures of exports: names, dtypes, and shapes of the inputs, and each task's outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from albert_tf.layers.encoder import Unroll
from albert_tf.models import AlbertForQuestionAnswering
from albert_tf.models.base import PreTrainedModel
from albert_tf.runtimes.run import TEXTS
from albert_tf.tasks import BEAM, INPUTS, MASKED_LM_POSITIONS, TASKS
from albert_tf.text.preprocessing import AlbertPreprocessor, of_one_shape

Tensors = dict[str, tf.Tensor]
IDS: Final = "ids"
MASKED: Final = "masked"
TEXT, TEXT_PAIR = TEXTS
POSITIONS: Final = MASKED_LM_POSITIONS.name
LIKE_IDS: Final = ("attention_mask", "token_type_ids")  # inputs with the same shape as the ids


@dataclass(frozen=True)
class Signature:
    """A function that an export provides.

    Attributes:
        name: name by which runtimes call the function.
        inputs: names, dtypes, and shapes, in the order of the function's arguments.
        function: Python function to trace.
    """

    name: str
    inputs: Sequence[tf.TensorSpec]
    function: Callable[..., Tensors]


def ids_signature(
    model: PreTrainedModel,
    *,
    unroll: Unroll,
    name: str = IDS,
    batch: int | None = None,
    length: int | None = None,
    choices: int | None = None,
    predictions: int | None = 0,
    strings: bool = True,
) -> Signature:
    """Returns a signature that takes ids.

    Its inputs are `input_ids`, `attention_mask`, and `token_type_ids`, int32 `[B, T]`, or
    `[B, C, T]` for multiple choice.

    Args:
        predictions: P, the number of positions to score, or None for any number. The signature then
            also takes `masked_lm_positions`, int32 `[B, P]`, and the logits are `[B, P, V]`. With
            0, it scores all positions; the logits for a row of 128 tokens take 15 MB.
        strings: whether to return string outputs (label names).
    """
    shape = [batch, choices, length] if model.task.has_choices else [batch, length]
    specs = [tf.TensorSpec(shape, feature.dtype, feature.name) for feature in INPUTS]
    if predictions != 0:
        specs.append(tf.TensorSpec([batch, predictions], tf.int32, POSITIONS))

    def function(*values: tf.Tensor) -> Tensors:
        features = {spec.name: value for spec, value in zip(specs, values, strict=True)}
        with tf.control_dependencies(_checks(features, model)):
            outputs = task_outputs(model, _require_one_shape(features), unroll)
        return {
            name: value for name, value in outputs.items() if strings or value.dtype != tf.string
        }

    return Signature(name, specs, function)


def _checks(features: Tensors, model: PreTrainedModel) -> list[tf.Operation]:
    """Rejects wrong lengths, and inputs that would broadcast to the shape of the ids.

    Rows must contain at least one id and at most `max_position_embeddings`. Fixed shapes need no
    check. The embedding lookup itself rejects out-of-range ids.
    """
    ids = features["input_ids"]
    if ids.shape.is_fully_defined():
        return []
    shapes = [
        tf.debugging.assert_equal(
            tf.shape(features[name]), tf.shape(ids), f"{name} must have the shape of input_ids."
        )
        for name in LIKE_IDS
    ]
    length, most = tf.shape(ids)[-1], model.config.max_position_embeddings
    fits = (length > 0) & (length <= most)
    rule = f"A row of input_ids must have 1 to {most} ids."
    return [*shapes, tf.debugging.Assert(fits, [rule, length])]


def _require_one_shape(features: Tensors) -> Tensors:
    """Passes the inputs through an operation that fails if their shapes differ.

    TFLite and ONNX files contain no assertions.
    """
    if features["input_ids"].shape.is_fully_defined():
        return features
    names = ("input_ids", *LIKE_IDS)
    stacked = tf.stack([features[name] for name in names])
    return features | {name: stacked[index] for index, name in enumerate(names)}


def text_signature(
    model: PreTrainedModel,
    preprocessor: AlbertPreprocessor,
    *,
    unroll: Unroll,
    pairs: bool = False,
    batch: int | None = None,
    choices: int | None = None,
    max_bytes: int | None = None,
    in_words: Callable[..., Tensors] | None = None,
) -> Signature:
    """Returns a signature that takes strings.

    Its inputs are `text` and, with `pairs`, also `text_pair`, string `[B]`, or `[B, C]` for
    multiple choice. To run a single text, pass a batch of one. TensorFlow removes rank checks from
    the graph, so a scalar fails with "slice index 0 of dimension 0 out of bounds".

    The signature reads at most `max_bytes` bytes of a text. A partially read character becomes an
    unknown token. Special tokens that occur in a text are treated as plain text. If the model has
    one output per token, the signature also returns `input_ids`, `attention_mask`, and
    `token_type_ids`, int32 `[B, T]`. If set, `in_words` computes all outputs from strings `[B]`.
    """
    leading = [batch, choices] if model.task.has_choices else [batch]

    def function(*texts: tf.Tensor) -> Tensors:
        if max_bytes is not None:
            texts = tuple(tf.strings.substr(text, 0, max_bytes) for text in texts)
        texts = tuple(of_one_shape(texts))
        if in_words is not None:
            return in_words(*texts)
        features = _features(preprocessor, texts, leading)
        outputs = task_outputs(model, features, unroll)
        return {**outputs, **features} if model.task.outputs_by_token else outputs

    names = TEXTS if pairs else (TEXT,)
    specs = [tf.TensorSpec(leading, tf.string, name) for name in names]
    return Signature(TEXT, specs, function)


def _features(
    preprocessor: AlbertPreprocessor, texts: Sequence[tf.Tensor], leading: Sequence[int | None]
) -> Tensors:
    """Returns the model's inputs, int32 `[B, T]` or `[B, C, T]`."""
    rows = preprocessor(tuple(tf.reshape(text, [-1]) for text in texts))
    sizes, length = tf.shape(texts[0]), tf.shape(rows["input_ids"])[1]
    if preprocessor.padding == "max_length":
        length = preprocessor.max_length
    # The TFLite converter can't infer the shape of rows made from strings.
    shape = [sizes[axis] if size is None else size for axis, size in enumerate(leading)]
    return {name: tf.reshape(value, [*shape, length]) for name, value in rows.items()}


def task_outputs(
    model: PreTrainedModel, features: Mapping[str, tf.Tensor], unroll: Unroll
) -> Tensors:
    """Returns the outputs of an exported model; floats are always float32.

    Args:
        model: a model with a task head, or an encoder.
        features: `input_ids`, `attention_mask`, and `token_type_ids`, int32 `[B, T]`, or
            `[B, C, T]` for multiple choice, and the model's other inputs, keyed by name. Outputs at
            padding positions are undefined.
        unroll: whether to unroll the layers instead of running a loop; see `AlbertEncoder`.
    """
    if isinstance(model, AlbertForQuestionAnswering) and model.config.answerability:
        features = {name: at_least(BEAM, value) for name, value in features.items()}
    outputs = model(dict(features), unroll=unroll, training=False)
    return with_task_outputs(
        model,
        {
            name: tf.cast(value, tf.float32) if value.dtype.is_floating else value
            for name, value in outputs.items()
        },
    )


def with_task_outputs(model: PreTrainedModel, outputs: Tensors) -> Tensors:
    """Adds the outputs that only exports return to a model's float32 outputs.

    The task determines the probabilities: `probabilities` from `logits`, `[B, C]` or `[B, T, C]`,
    and `sop_probabilities` from `sop_logits` (class 0: in order, class 1: swapped). For regression,
    `value` (equal to `logits`) is added instead. Models with classes, including multi-label models,
    add strings: the label names `classes` `[B, C]`, and the best label per text (`label` `[B]`) or
    per token (`labels` `[B, T]`).

    The original SQuAD 2.0 head (`layers.AnswerSpans`) assigns a log probability near -1e30 to
    positions where no answer is allowed. With float16 weights, the value is -65504.
    """
    if getattr(model, "task", None) not in TASKS.values():
        names = ", ".join(task.model for task in TASKS.values())
        raise TypeError(
            f"Only these models can be exported: {names}. Received: {type(model).__name__}."
        )
    task = model.task
    if task.has_classes and not classes(model):
        return {**outputs, "value": tf.identity(outputs["logits"])}
    added = {
        name.replace("logits", "probabilities"): model.probabilities(outputs[name], name)
        for name in task.probabilities
    }
    if task.has_classes:
        logits, by_token = outputs["logits"], task.outputs_by_token
        names = tf.constant(model.config.labels)
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)
        added["labels" if by_token else "label"] = tf.gather(names, best)
        rows = logits[:, 0] if by_token else logits
        every = tf.zeros_like(rows, tf.int32) + tf.range(model.config.num_labels)
        added["classes"] = tf.gather(names, every)
    return {**outputs, **added}


def classes(model: PreTrainedModel) -> Sequence[str]:
    """Returns the label names for the last axis of `logits`; empty for models without classes."""
    is_regression = getattr(model, "problem_type", None) == "regression"
    return model.config.labels if model.task.has_classes and not is_regression else ()


def at_least(length: int, values: tf.Tensor) -> tf.Tensor:
    """Pads `[B, T]` to T ≥ length, because a beam needs at least as many positions as its width."""
    if values.shape[1] is not None and values.shape[1] >= length:
        return values
    return tf.pad(values, [[0, 0], [0, tf.maximum(length - tf.shape(values)[1], 0)]])
