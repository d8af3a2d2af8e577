"""The one place where what goes into an export and what comes out has its names and dtypes."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from albert_tf.data import features as schema
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.preprocessing import AlbertPreprocessor

IDS: Final = "ids"
TEXT: Final = "text"
TEXT_PAIR: Final = "text_pair"

Tensors = dict[str, tf.Tensor]


@dataclass(frozen=True)
class Signature:
    """A function of an export.

    Attributes:
        name: by which a host asks for it.
        inputs: declared names, dtypes and shapes, in the order of the function's arguments.
        function: the graph.
    """

    name: str
    inputs: Sequence[tf.TensorSpec]
    function: Callable[..., Tensors]


@functools.singledispatch
def answer(model: Any, features: Mapping[str, tf.Tensor], unroll: bool) -> Tensors:
    """What a model of a certain task answers; each task registers its own.

    Args:
        features: `input_ids`, `attention_mask` and `token_type_ids`, int32 `[B, T]`.
        unroll: False runs the layers as a loop of the graph.
    """
    raise TypeError(
        "A model must be of a task that exports know: AlbertForSequenceClassification. "
        f"Received: {type(model).__name__}."
    )


@answer.register
def _(
    model: AlbertForSequenceClassification, features: Mapping[str, tf.Tensor], unroll: bool
) -> Tensors:
    """`logits` float32 `[B, C]`, and for regression `value`, the same; otherwise

    `probabilities` float32 `[B, C]`, their names `classes`, string `[B, C]`, and the likeliest
    one's `label`, string `[B]`, also where several may hold.
    """
    logits = model(dict(features), unroll=unroll, training=False)["logits"]
    if model.problem_type == "regression":
        return {"logits": logits, "value": tf.identity(logits)}
    names = tf.constant(model.config.labels)
    every = tf.zeros_like(logits, tf.int32) + tf.range(model.config.num_labels)
    return {
        "logits": logits,
        "probabilities": model.probabilities(logits),
        "label": tf.gather(names, tf.argmax(logits, axis=-1, output_type=tf.int32)),
        "classes": tf.gather(names, every),
    }


def ids_signature(
    model: Any, *, unroll: bool, batch: int | None = None, length: int | None = None
) -> Signature:
    """`input_ids`, `attention_mask`, `token_type_ids`, int32 `[B, T]`, to the model's answer."""

    def ids(input_ids: tf.Tensor, attention_mask: tf.Tensor, token_type_ids: tf.Tensor) -> Tensors:
        features = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
        }
        return answer(model, features, unroll)

    specs = [tf.TensorSpec([batch, length], each.dtype, each.name) for each in schema.INPUTS]
    return Signature(IDS, specs, ids)


def text_signature(
    model: Any,
    preprocessor: AlbertPreprocessor,
    *,
    unroll: bool,
    pairs: bool = False,
    batch: int | None = None,
) -> Signature:
    """`text`, and with `pairs` `text_pair`, string `[B]`, to the model's answer."""

    def answer_text(*texts: tf.Tensor) -> Tensors:
        features = preprocessor(texts)
        if batch is not None:  # Strings have no length, so the converter can't see the rows'.
            shape = (batch, preprocessor.max_length)
            features = {name: tf.reshape(value, shape) for name, value in features.items()}
        return answer(model, features, unroll)

    def single(text: tf.Tensor) -> Tensors:
        return answer_text(text)

    def pair(text: tf.Tensor, text_pair: tf.Tensor) -> Tensors:
        return answer_text(text, text_pair)

    names = (TEXT, TEXT_PAIR) if pairs else (TEXT,)
    specs = [tf.TensorSpec([batch], tf.string, name) for name in names]
    return Signature(TEXT, specs, pair if pairs else single)
