"""Converts features, labels, and weights to dicts keyed by name, at the entry points.

`batch_of` converts a batch that Keras passes to a step. `arrays_of` converts all examples of `fit`
or `evaluate`, and checks their values. `check_call` checks the arguments when a model is called
directly. The functions that they call don't check their inputs again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.errors import UserError
from albert_tf.huggingface import MODEL_CALL
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
from albert_tf.options import without_foreign
from albert_tf.text.encoding import BatchEncoding, as_leaves, from_leaves


class Batch(NamedTuple):
    """The features, labels, and weights of a step.

    Attributes:
        features: the inputs that aren't None, keyed by name. They include labels that the head
            reads.
        labels: labels keyed by target, in the order of the model's targets.
        weights: sample weights keyed by target; may be empty.
    """

    features: dict[str, Tensor]
    labels: dict[str, Tensor]
    weights: dict[str, Tensor]

    @property
    def size(self) -> Any:
        """The number of examples; may be symbolic."""
        return ops.shape(next(iter(self.features.values())))[0]

    def for_keras(self, targets: Mapping[str, Target]) -> tuple[Any, Any, Any]:
        """Returns `x`, `y`, and `sample_weight`: an array for a single target, otherwise dicts."""
        if len(targets) > 1:
            return self.features, self.labels or None, self.weights or None
        label, weight = (next(iter(each.values()), None) for each in (self.labels, self.weights))
        return self.features, label, weight


def batch_of(model: Any, x: Any, y: Any = None, sample_weight: Any = None) -> Batch:
    """Returns a batch as dicts keyed by name. Values may be symbolic.

    Args:
        model: the model, which defines the targets.
        x: a dict of inputs (and possibly labels) keyed by name, or only the ids.
        y: labels in any form that Keras accepts: one array, a list or tuple with one array per
            target, or a dict keyed by target or output.
        sample_weight: sample weights, in any form accepted for `y`. A single array applies to every
            label. Otherwise, a label without weights uses the first weights that were passed.
    """
    given = x if isinstance(x, Mapping) else {ENCODER_INPUTS[0]: x}
    features = {name: value for name, value in given.items() if value is not None}
    _reject_unknown(features, model.known_inputs, "inputs")
    labels = _by_target(model.targets, y)
    for name in features.keys() & model.targets.keys():
        if name not in model.task_inputs:
            _reject_twice(name, labels, "among the features and in `y`")
            labels[name] = features.pop(name)
        labels.setdefault(name, features.get(name))
    labels = {name: labels[name] for name in model.targets if name in labels}
    check_types(features | labels)
    if "position_ids" in features:
        features["position_ids"] = _broadcast_positions(features)
    weights = _by_target(model.targets, sample_weight)
    for weight in weights.values():
        check_types({"sample_weight": weight})
    if isinstance(sample_weight, Mapping | tuple | list):
        first = next(iter(weights.values()), None)
        weights = {name: weights.get(name, first) for name in labels} if weights else {}
    elif weights:
        weights = dict.fromkeys(labels, sample_weight)
    return Batch(features, labels, weights)


def _broadcast_positions(features: Mapping[str, Any]) -> Any:
    """Repeats `position_ids` `[1, T]` for each example, because steps split features by example."""
    positions = features["position_ids"]
    xp = np if isinstance(positions, np.ndarray) else ops
    ids = features.get("input_ids", features.get("inputs_embeds"))
    return xp.broadcast_to(positions, (xp.shape(ids)[0], *xp.shape(positions)[1:]))


def _by_target(targets: Mapping[str, Target], values: Any) -> dict[str, Any]:
    """Returns the labels or weights that aren't None, keyed by target."""
    if not isinstance(values, Mapping):
        values = values if isinstance(values, tuple | list) else (values,)
        named = dict(zip(targets, values, strict=False))
    else:
        by_output = {target.output: name for name, target in targets.items()}
        _reject_unknown(values, (*targets, *by_output), "labels")
        named = {}
        for key, value in values.items():
            name = str(by_output.get(key, key))
            if value is not None:
                _reject_twice(name, named, "under its own name and its output's name")
                named[name] = value
    return {name: value for name, value in named.items() if value is not None}


def _reject_twice(name: str, labels: Mapping[str, Any], how: str) -> None:
    if name in labels:
        raise UserError(f"Pass each label once. Received: {name} {how}.")


def _reject_unknown(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    if unknown := given.keys() - set(known):
        raise ValueError(
            f"Unknown {what}: {', '.join(sorted(unknown))}. "
            f"The model's {what} are {', '.join(known)}."
        )


def arrays_of(model: Any, x: Any, y: Any = None, sample_weight: Any = None) -> Batch:
    """Returns all examples of `fit` or `evaluate` keyed by name, and checks their values.

    Unlike in `batch_of`, all arguments can contain lists, and `y` can contain pandas columns or
    label names.
    """
    x = input_arrays(x)
    if y is None and isinstance(x, dict) and len(model.targets) == 1 and not model.task_inputs:
        y = x.pop(next(iter(model.targets)), None)
    weights = None if sample_weight is None else as_arrays(sample_weight, "sample_weight")
    batch = batch_of(model, x, label_arrays(model, y, x), weights)
    check_ids(model.config, batch.features)
    check_labels(model, batch.labels, batch.features, model.loss)
    return batch


def check_call(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Checks the arguments when a model is called, and converts lists of labels to arrays."""
    kwargs = without_foreign(kwargs, MODEL_CALL)
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
    check_ids(model.config, given)
    check_labels(model, given, given)
    return args, kwargs


def named_inputs(arguments: Mapping[str, Any], known: Sequence[str]) -> dict[str, Tensor]:
    """Returns all `known` inputs keyed by name. Inputs that weren't passed are None.

    In `arguments`, `input_ids` can be a dict of inputs.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(given.get("input_ids"), Mapping):
        within = {n: value for n, value in given.pop("input_ids").items() if value is not None}
        if twice := sorted(given.keys() & within.keys()):
            raise UserError(
                f"Pass each input once. Received: {', '.join(twice)} in the dict and by keyword."
            )
        given |= within
    _reject_unknown(given, known, "inputs")
    if ("input_ids" in given) == ("inputs_embeds" in given):
        received = "both" if "input_ids" in given else "neither"
        raise ValueError(f"Pass either input_ids or inputs_embeds. Received: {received}.")
    return dict.fromkeys(known) | given


def check_shapes(inputs: Mapping[str, Tensor], longest: int) -> None:
    """Rejects ids of the wrong rank or length, and inputs whose shape doesn't match the ids.

    Broadcasting would hide such mistakes. Unknown sizes are accepted.
    """
    name = "inputs_embeds" if inputs["input_ids"] is None else "input_ids"
    given, axes = inputs[name], ["batch", "length", "embedding"][: 2 + (name == "inputs_embeds")]
    if len(given.shape) != len(axes):
        raise ValueError(
            f"{name} must have shape [{', '.join(axes)}]. Received shape {tuple(given.shape)}."
        )
    batch, length = given.shape[:2]
    is_guess = getattr(given, "is_meta", False)  # Keras guesses sizes to trace torch models
    if isinstance(length, int) and length > longest and not is_guess:
        raise ValueError(
            f"A sequence of length {length} is longer than max_position_embeddings={longest}. "
            "Truncate it or split it into windows."
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
                f"{name} must have the shape {' or '.join(map(str, shapes))} to match the ids. "
                f"Received shape {shape}."
            )


if keras.backend.backend() == "torch":
    from torch.utils import _pytree

    _pytree.register_pytree_node(
        BatchEncoding, as_leaves, lambda values, names: from_leaves(names, values)
    )
