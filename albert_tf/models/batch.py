"""The parts of a batch by name, in a step and in a call of a model.

`batch_of` names the parts of a batch as Keras passes it, once per trace of a step. `arrays_of`
does the same for all examples of a `fit` or `evaluate`, and checks their values. `check_call`
checks a direct call of a model. The code behind these three works with dicts by name.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.errors import UserError
from albert_tf.layers.common import Tensor
from albert_tf.layers.embedding import check_ids
from albert_tf.models import losses
from albert_tf.models.examples import (
    ENCODER_INPUTS,
    Target,
    as_arrays,
    check_labels,
    check_lists,
    check_types,
    input_arrays,
    label_arrays,
)
from albert_tf.models.huggingface import CALL
from albert_tf.options import without_foreign
from albert_tf.text.encoding import BatchEncoding, as_leaves, from_leaves


class Batch(NamedTuple):
    """Named features, labels, and weights: everything that a step computes with.

    Attributes:
        features: inputs by name, without None. A label that the head reads is among them.
        labels: labels by target, in the order of the model's targets.
        weights: sample weights by target; empty without weights.
    """

    features: dict[str, Tensor]
    labels: dict[str, Tensor]
    weights: dict[str, Tensor]

    @property
    def size(self) -> Any:
        """The number of examples, which may be symbolic."""
        return ops.shape(next(iter(self.features.values())))[0]

    def for_keras(self, targets: Mapping[str, Target]) -> tuple[Any, Any, Any]:
        """Returns `x`, `y`, and `sample_weight`: a bare array for a single target, else dicts."""
        if len(targets) > 1:
            return self.features, self.labels or None, self.weights or None
        label, weight = (next(iter(each.values()), None) for each in (self.labels, self.weights))
        return self.features, label, weight


def batch_of(model: Any, x: Any, y: Any = None, sample_weight: Any = None) -> Batch:
    """Names the parts of a batch, whose values may be symbolic.

    Args:
        model: has the targets.
        x: inputs by name, or only the ids. Labels may be among them.
        y: labels in any of Keras's forms: one array, one for each target in a list or tuple, or a
            dict by target or by output.
        sample_weight: weights in the same forms. One array is for every label; a label without a
            weight has that of the first.
    Raises:
        ValueError: a name is unknown, a label is passed twice, or a value is a string.
    """
    given = x if isinstance(x, Mapping) else {ENCODER_INPUTS[0]: x}
    features = {name: value for name, value in given.items() if value is not None}
    _refuse_unknown(features, model.known_inputs, "inputs")
    labels = _by_target(model.targets, y)
    for name in features.keys() & model.targets.keys():
        if name not in model.task_inputs:
            _refuse_twice(name, labels, "among the features and in `y`")
            labels[name] = features.pop(name)
        labels.setdefault(name, features.get(name))
    labels = {name: labels[name] for name in model.targets if name in labels}
    check_types(features | labels)
    if "position_ids" in features:
        features["position_ids"] = _one_row_each(features)
    weights = _by_target(model.targets, sample_weight)
    if isinstance(sample_weight, Mapping | tuple | list):
        first = next(iter(weights.values()), None)
        weights = {name: weights.get(name, first) for name in labels} if weights else {}
    elif weights:
        weights = dict.fromkeys(labels, sample_weight)
    return Batch(features, labels, weights)


def _one_row_each(features: Mapping[str, Any]) -> Any:
    """Returns `position_ids` with a row per example: a call also takes `[1, T]` for all of them.

    Steps divide each feature into parts of a batch.
    """
    positions = features["position_ids"]
    xp = np if isinstance(positions, np.ndarray) else ops
    ids = features.get("input_ids", features.get("inputs_embeds"))
    return xp.broadcast_to(positions, (xp.shape(ids)[0], *xp.shape(positions)[1:]))


def _by_target(targets: Mapping[str, Target], values: Any) -> dict[str, Any]:
    """Returns labels or weights by target, without None."""
    if not isinstance(values, Mapping):
        values = values if isinstance(values, tuple | list) else (values,)
        named = dict(zip(targets, values, strict=False))
    else:
        by_output = {target.output: name for name, target in targets.items()}
        _refuse_unknown(values, (*targets, *by_output), "labels")
        named = {}
        for key, value in values.items():
            name = str(by_output.get(key, key))
            if value is not None:
                _refuse_twice(name, named, "by its name and by its output's")
                named[name] = value
    return {name: value for name, value in named.items() if value is not None}


def _refuse_twice(name: str, labels: Mapping[str, Any], how: str) -> None:
    if name in labels:
        raise UserError(f"Pass each label once. Received: {name} {how}.")


def _refuse_unknown(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    if unknown := given.keys() - set(known):
        raise ValueError(
            f"The model's {what} are {', '.join(known)}. "
            f"Received also: {', '.join(sorted(unknown))}."
        )


def arrays_of(model: Any, x: Any, y: Any = None, sample_weight: Any = None) -> Batch:
    """Names all examples of a `fit` or `evaluate`, and checks their values.

    Args:
        model: has the targets and the configuration.
        x: arrays or lists by name, such as a tokenizer's result, or only the ids.
        y: as for `batch_of`; lists, pandas columns, and label names as well.
        sample_weight: as for `batch_of`; lists as well.
    Raises:
        ValueError: as for `batch_of`; an id or a label is out of range; or a label's shape doesn't
            fit the output.
    """
    x = input_arrays(x)
    weights = None if sample_weight is None else as_arrays(sample_weight, "sample_weight")
    batch = batch_of(model, x, label_arrays(model, y, x), weights)
    _check_ids(model, batch.features)
    check_labels(model, batch.labels, batch.features, model.loss)
    return batch


def check_call(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Checks the arguments of a direct call of a model.

    Returns:
        The arguments, with labels that are lists as arrays.
    Raises:
        ValueError: an input is a list or a string, or an id or a label is out of range.
    """
    kwargs = without_foreign(kwargs, CALL)
    if args and isinstance(args[0], Mapping):
        args = (dict(args[0]), *args[1:])
    for inputs in (kwargs, *args[:1]):
        if isinstance(inputs, Mapping):
            for name in model.targets.keys() & inputs.keys():
                inputs |= as_arrays({name: inputs[name]})
    given = {**dict(zip(ENCODER_INPUTS, args, strict=False)), **kwargs}
    if isinstance(given.get("input_ids"), Mapping):
        given |= given.pop("input_ids")
    check_lists(given)
    check_types({name: given[name] for name in model.known_inputs if name in given})
    _check_ids(model, given)
    check_labels(model, given, given)
    return args, kwargs


def _check_ids(model: Any, inputs: Mapping[str, Any]) -> None:
    ids, embedded = inputs.get("input_ids"), inputs.get("inputs_embeds")
    shape = getattr(ids, "shape", None) or getattr(embedded, "shape", (None, None))[:-1]
    check_ids(model.config, inputs, shape[-1] if shape else None)


def named_inputs(arguments: Mapping[str, Any], known: Sequence[str]) -> dict[str, Tensor]:
    """Returns the inputs of a call by name, with None for those that aren't passed.

    Args:
        arguments: the inputs by name; `input_ids` may be a dict with any of them.
        known: names of the model's inputs.
    Raises:
        ValueError: a name is unknown or passed twice, or neither or both of `input_ids` and
            `inputs_embeds` are passed.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(given.get("input_ids"), Mapping):
        within = {n: value for n, value in given.pop("input_ids").items() if value is not None}
        if twice := sorted(given.keys() & within.keys()):
            raise UserError(
                f"Pass each input once. Received: {', '.join(twice)} in the dict and by keyword."
            )
        given |= within
    _refuse_unknown(given, known, "inputs")
    if ("input_ids" in given) == ("inputs_embeds" in given):
        received = "both" if "input_ids" in given else "neither"
        raise ValueError(f"A model needs either input_ids or inputs_embeds. Received {received}.")
    return dict.fromkeys(known) | given


def check_shapes(inputs: Mapping[str, Tensor], longest: int) -> None:
    """Rejects ids of a wrong rank or length, and inputs whose shape differs from that of the ids.

    Broadcasting would compute something else than what was asked for. Unknown sizes pass.
    """
    name = "inputs_embeds" if inputs["input_ids"] is None else "input_ids"
    given, axes = inputs[name], ["batch", "length", "embedding"][: 2 + (name == "inputs_embeds")]
    if len(given.shape) != len(axes):
        raise ValueError(
            f"{name} must have shape [{', '.join(axes)}]. Received shape {tuple(given.shape)}."
        )
    batch, length = given.shape[:2]
    is_guess = getattr(given, "is_meta", False)  # Keras's, on torch
    if isinstance(length, int) and length > longest and not is_guess:
        raise ValueError(
            "A sequence must not be longer than max_position_embeddings: truncate it, or split it "
            f"into windows. Received a length of {length}, max_position_embeddings={longest}."
        )
    for name, shapes in {
        "attention_mask": [(batch, length), (batch, length, length)],
        "token_type_ids": [(batch, length)],
        "position_ids": [(batch, length), (1, length)],
    }.items():
        if inputs[name] is None:
            continue
        shape = tuple(inputs[name].shape)
        if shape not in shapes and not any(losses.agree(shape, each) for each in shapes):
            raise ValueError(
                f"{name} must have the shape of the ids, {' or '.join(map(str, shapes))}. "
                f"Received: {shape}."
            )


if keras.backend.backend() == "torch":
    from torch.utils import _pytree

    _pytree.register_pytree_node(
        BatchEncoding, as_leaves, lambda values, names: from_leaves(names, values)
    )
