"""The signatures of exports: names, dtypes and shapes of their inputs, and each task's outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from albert_tf.layers.encoder import Unroll
from albert_tf.layers.heads import BEAM
from albert_tf.models import AlbertForQuestionAnswering
from albert_tf.models.base import PreTrainedModel
from albert_tf.tasks import INPUTS, TASKS
from albert_tf.text.preprocessing import AlbertPreprocessor, of_one_shape

Tensors = dict[str, tf.Tensor]
IDS: Final = "ids"
MASKED: Final = "masked"
TEXT: Final = "text"
TEXT_PAIR: Final = "text_pair"
POSITIONS: Final = "masked_lm_positions"
LIKE_IDS: Final = ("attention_mask", "token_type_ids")  # inputs of the shape of the ids


@dataclass(frozen=True)
class Signature:
    """A function of an export.

    Attributes:
        name: a host calls it by this name.
        inputs: declared names, dtypes and shapes, in the order of the function's arguments.
        function: the graph.
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
    strings: bool = True,
) -> Signature:
    """Takes `input_ids`, `attention_mask` and `token_type_ids`, int32 `[B, T]`.

    For multiple choice they are `[B, C, T]`. `strings=False` leaves string outputs (the names of
    classes) out.
    """
    shape = [batch, choices, length] if model.task.has_choices else [batch, length]
    specs = [tf.TensorSpec(shape, feature.dtype, feature.name) for feature in INPUTS]
    return _of_features(name, specs, model, unroll, strings)


def masked_signature(
    model: PreTrainedModel,
    *,
    unroll: Unroll,
    name: str = MASKED,
    batch: int | None = None,
    length: int | None = None,
    predictions: int | None = None,
) -> Signature:
    """Takes the inputs of `ids` and `masked_lm_positions`, int32 `[B, P]`: logits are `[B, P, V]`.

    Logits over the vocabulary at every position are large: 15 MB for a row of 128 pieces.
    """
    specs = [tf.TensorSpec([batch, length], feature.dtype, feature.name) for feature in INPUTS]
    specs.append(tf.TensorSpec([batch, predictions], tf.int32, POSITIONS))
    return _of_features(name, specs, model, unroll)


def _of_features(
    name: str,
    specs: Sequence[tf.TensorSpec],
    model: PreTrainedModel,
    unroll: Unroll,
    strings: bool = True,
) -> Signature:
    """Takes the model's inputs themselves."""

    def function(*values: tf.Tensor) -> Tensors:
        features = {spec.name: value for spec, value in zip(specs, values, strict=True)}
        with tf.control_dependencies(_checks(features, model)):
            outputs = task_outputs(model, _of_one_shape(features), unroll)
        return {
            name: value for name, value in outputs.items() if strings or value.dtype != tf.string
        }

    return Signature(name, specs, function)


def _checks(features: Tensors, model: PreTrainedModel) -> list[tf.Operation]:
    """Refuses inputs of another shape than the ids, which would be broadcast, and wrong lengths.

    Rows must have an id, and no more ids than the model has positions. Fixed shapes need no check.
    Ids outside their tables are refused by the lookup itself.
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


def _of_one_shape(features: Tensors) -> Tensors:
    """Returns the inputs after an operation that fails where their shapes differ.

    The files for TFLite and ONNX have no assertions.
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
    """Takes `text`, and with `pairs` `text_pair`, string `[B]`; for multiple choice `[B, C]`.

    A single text is a batch of one. TensorFlow removes checks of the rank from the graph, so that a
    scalar fails with "slice index 0 of dimension 0 out of bounds".

    Reads at most `max_bytes` of a text; a character that is cut in two is an unknown one.

    A special token that is written out in a text is plain text. Where outputs belong to pieces,
    the pieces are outputs too: `input_ids`, `attention_mask`, `token_type_ids`, int32 `[B, T]`.
    `in_words` replaces all of it by answers to strings `[B]`.
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

    names = (TEXT, TEXT_PAIR) if pairs else (TEXT,)
    specs = [tf.TensorSpec(leading, tf.string, name) for name in names]
    return Signature(TEXT, specs, function)


def _features(
    preprocessor: AlbertPreprocessor, texts: Sequence[tf.Tensor], leading: Sequence[int | None]
) -> Tensors:
    """Int32 `[B, T]` or `[B, C, T]`."""
    rows = preprocessor(tuple(tf.reshape(text, [-1]) for text in texts))
    sizes, length = tf.shape(texts[0]), tf.shape(rows["input_ids"])[1]
    if preprocessor.padding == "max_length":
        length = preprocessor.max_length
    # Strings have no length, so the TFLite converter can't see the rows' shape.
    shape = [sizes[axis] if size is None else size for axis, size in enumerate(leading)]
    return {name: tf.reshape(value, [*shape, length]) for name, value in rows.items()}


def task_outputs(
    model: PreTrainedModel, features: Mapping[str, tf.Tensor], unroll: Unroll
) -> Tensors:
    """Returns the outputs of an exported model.

    Every float is float32. Padding has outputs too, which mean nothing.

    Args:
        model: a task's model.
        features: `input_ids`, `attention_mask` and `token_type_ids`, int32 `[B, T]`, or
            `[B, C, T]` for multiple choice; the model's other inputs by name.
        unroll: False runs the layers as a loop of the graph; see `AlbertEncoder`.
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
    """Returns a model's outputs in float32, and those that an export adds to them:

    Probabilities, as the model's facts say: `probabilities` of `logits` `[B, C]` or `[B, T, C]`,
    `sop_probabilities` of `sop_logits` (the texts are in order, they are swapped). For regression
    `value` instead, the same as `logits`. With classes also `classes`, string `[B, C]`, their
    names, and the highest-scoring one, also for multi-label models: `label`, string `[B]`, or of
    each token `labels`, string `[B, T]`.

    The original's head for SQuAD 2.0 (`layers.AnswerSpans`) gives a position where no answer may be
    a log probability near -1e30, or -65504 where weights are stored in float16.
    """
    if getattr(model, "task", None) not in TASKS.values():
        names = ", ".join(task.model for task in TASKS.values())
        raise TypeError(
            f"An exported model must be one of {names}. Received: {type(model).__name__}."
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
        added["labels" if by_token else "label"] = _best_class(model, logits)
        added["classes"] = _classes(model, logits[:, 0] if by_token else logits)
    return {**outputs, **added}


def classes(model: PreTrainedModel) -> Sequence[str]:
    """Returns the names of the classes on the last axis of `logits`; none for other models."""
    is_regression = getattr(model, "problem_type", None) == "regression"
    return model.config.labels if model.task.has_classes and not is_regression else ()


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
