"""The signatures of exports: names, dtypes and shapes of their inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from albert_tf.data import features as schema
from albert_tf.layers.encoder import Unroll
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.encoding import SpecialTokens
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf_export.task_outputs import Tensors, task_outputs

CLASSIFY: Final = "classify"
IDS: Final = "ids"
MASKED: Final = "masked"
PADDED_IDS: Final = "padded_ids"
REGRESS: Final = "regress"
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

    For multiple choice they are `[B, C, T]`. Leaves out the names of classes without `strings`.
    """
    shape = [batch, choices, length] if model.task.has_choices else [batch, length]
    specs = [tf.TensorSpec(shape, each.dtype, each.name) for each in schema.INPUTS]
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
    specs = [tf.TensorSpec([batch, length], each.dtype, each.name) for each in schema.INPUTS]
    specs.append(tf.TensorSpec([batch, predictions], tf.int32, POSITIONS))
    return _of_features(name, specs, model, unroll)


def padded_ids_signature(
    model: PreTrainedModel,
    special: SpecialTokens,
    *,
    unroll: Unroll,
    length: int | None = None,
    strings: bool = True,
) -> Signature:
    """Takes `input_ids` alone, int32 `[B, T]`, and derives the mask and the types from them.

    A row is `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, then padding. TensorFlow Serving's
    `pad_variable_length_inputs` pads a tensor with its first element, which is `[CLS]` here: a
    `[CLS]` after the row's first piece is padding too. Rows of another form are refused, but by
    TFLite, which drops assertions.
    """
    shape = [None, None, length] if model.task.has_choices else [None, length]

    def function(ids: tf.Tensor) -> Tensors:
        is_first = tf.range(tf.shape(ids)[-1]) == 0
        is_separator = ids == special.sep_id
        is_piece = (ids != special.pad_id) & ((ids != special.cls_id) | is_first)
        mask = tf.cast(is_piece, tf.int32)
        segment = tf.cumsum(tf.cast(is_separator, tf.int32), axis=-1, exclusive=True)
        ends = tf.concat([is_piece[..., 1:], tf.zeros_like(is_piece[..., :1])], axis=-1)
        is_end = is_piece & ~ends
        valid = (
            tf.reduce_all(ids[..., :1] == special.cls_id)
            & tf.reduce_all(is_separator | ~is_end)
            & tf.reduce_all(tf.reduce_sum(tf.cast(is_end, tf.int32), axis=-1) == 1)
            & tf.reduce_all(segment * mask < 2)
        )
        rule = (
            "Each row of input_ids must be [CLS] A [SEP], or [CLS] A [SEP] B [SEP], then only "
            f"padding: {special.cls_id} … {special.sep_id}, then {special.pad_id}."
        )
        checks = [tf.debugging.Assert(valid, [rule, ids]), _check_length(ids, model)]
        with tf.control_dependencies(checks):
            types = segment * mask
        features = {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": types}
        if special.pad_id:
            features["input_ids"] += special.pad_id * (1 - mask)
        return _chosen(task_outputs(model, features, unroll), strings)

    return Signature(PADDED_IDS, [tf.TensorSpec(shape, tf.int32, "input_ids")], function)


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
            return _chosen(task_outputs(model, _of_one_shape(features), unroll), strings)

    return Signature(name, specs, function)


def _chosen(outputs: Tensors, strings: bool) -> Tensors:
    return {name: value for name, value in outputs.items() if strings or value.dtype != tf.string}


def _checks(features: Tensors, model: PreTrainedModel) -> list[tf.Operation]:
    """Refuses inputs of another shape than the ids, which would be broadcast, and `_check_length`.

    Fixed shapes need no check. Ids outside their tables are refused by the lookup itself.
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
    return [*shapes, _check_length(ids, model)]


def _check_length(ids: tf.Tensor, model: PreTrainedModel) -> tf.Operation:
    """Refuses rows of no ids, and of more ids than the model has positions."""
    length, most = tf.shape(ids)[-1], model.config.max_position_embeddings
    fits = (length > 0) & (length <= most)
    return tf.debugging.Assert(fits, [f"A row of input_ids must have 1 to {most} ids.", length])


def _of_one_shape(features: Tensors) -> Tensors:
    """Returns the inputs after an operation that fails where their shapes differ.

    The files for TFLite and ONNX have no assertions.
    """
    if features["input_ids"].shape.is_fully_defined():
        return features
    names = ("input_ids", *LIKE_IDS)
    stacked = tf.stack([features[name] for name in names])
    return features | {name: stacked[place] for place, name in enumerate(names)}


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

    Reads at most `max_bytes` of a text; a character that is cut in two is an unknown one.

    A special token that is written out in a text is plain text. Where outputs belong to pieces,
    the pieces are outputs too: `input_ids`, `attention_mask`, `token_type_ids`, int32 `[B, T]`.
    `in_words` replaces all of it by answers to strings `[B]`.
    """
    leading = [batch, choices] if model.task.has_choices else [batch]

    def function(*texts: tf.Tensor) -> Tensors:
        if max_bytes is not None:
            texts = tuple(tf.strings.substr(text, 0, max_bytes) for text in texts)
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
