"""The one place that knows in which forms inputs, labels, and weights reach a model.

`batch_of` names the parts of a batch as Keras passes it, once per trace of a step. `arrays_of`
does the same for all examples of a `fit` or `evaluate`, and checks their values. `check_call`
checks a direct call of a model. The code behind these three works with dicts by name.
"""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Number, Real
from typing import Any, Final, Literal, NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.errors import UserError, short_repr
from albert_tf.layers.common import Tensor
from albert_tf.layers.embedding import LIMITS, check_ids, known_values, refuse_fractions
from albert_tf.models import losses
from albert_tf.models.huggingface import CALL
from albert_tf.options import without_foreign
from albert_tf.text.encoding import BatchEncoding, as_leaves, from_leaves

# The first arguments of every model's call, in their order.
ENCODER_INPUTS: Final = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "position_ids",
    "inputs_embeds",
)
# Inputs that are ids; "x" is a single array in place of the dict.
_IDS: Final = (*LIMITS, "masked_lm_positions", "x")

_SPARSE: Final = keras.losses.SparseCategoricalCrossentropy
Kind = Literal["class", "number", "multi_label", "position"]


class Target(NamedTuple):
    """The output that a label is compared with, and the kind of its values.

    Attributes:
        output: name of the output.
        kind: "class" for class ids, or probabilities of the classes; "number" for a regression;
            "multi_label" for a 0 or 1 per class; "position" for a token's position, or
            probabilities of the positions.
        classes: number of classes or numbers, or the configuration's field with it; "choices" for
            the number of an example's choices; None if it isn't fixed.
        by_token: whether there is a label for each token.
    """

    output: str
    kind: Kind = "class"
    classes: str | int | None = None
    by_token: bool = False

    @property
    def activation(self) -> str | None:
        """The function that turns the output into probabilities; None for numbers."""
        return {"number": None, "multi_label": "sigmoid"}.get(self.kind, "softmax")


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
    refuse_strings(features | labels)
    refuse_ragged(features)
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
    if model.reads_own_labels:
        check_labels(model, batch.labels, batch.features)
    return batch


def holds_rows(x: Any) -> bool:
    """Whether `x` contains its examples, in contrast to datasets and generators."""
    return hasattr(x, "shape") or isinstance(x, Mapping | list | tuple)


def is_empty(x: Any) -> bool:
    """Whether `x` has no examples: an empty list, columns without rows, or empty arrays."""
    while isinstance(x, Mapping | tuple) and x:
        x = next(iter(x.values())) if isinstance(x, Mapping) else x[0]
    return 0 in x.shape[:1] if isinstance(x, np.ndarray) else isinstance(x, list | tuple) and not x


def input_arrays(x: Any) -> Any:
    """Returns the inputs of a `fit`, `evaluate`, or `predict` with lists as arrays.

    Raises:
        ValueError: as for `as_arrays`, or inputs are passed by position.
    """
    x = as_arrays(x, "x")
    if not is_empty(x):
        _refuse_lists({ENCODER_INPUTS[0]: x})
    return x


def as_arrays(values: Any, name: str = "y") -> Any:
    """Returns a tokenizer's result as a dict of arrays, and lists of numbers as arrays.

    Keras would take every number of a list for an input. Tensors and datasets are returned
    unchanged.

    Args:
        name: what the values are, for messages.
    Raises:
        ValueError: rows of different lengths, strings, or fractions where ids are expected.
    """
    if isinstance(values, Mapping):
        return {
            name: as_arrays(list(value) if isinstance(value, tuple) else value, name)
            for name, value in values.items()
        }
    if isinstance(values, tuple | list) and values and not len(getattr(values[0], "shape", ())):
        if isinstance(values, tuple) and not isinstance(values[0], Number | str | np.generic):
            return values
        try:
            values = np.asarray(values)
        except ValueError as error:
            how = "with tokenizer(texts, padding=True)" if name in ENCODER_INPUTS else "with -100"
            raise UserError(
                f"All rows of {name} must have the same length. Pad them {how}."
            ) from error
    refuse_strings({name: values})
    if name in _IDS:
        refuse_fractions(name, values)
    return values


def label_arrays(model: Any, y: Any, x: Any) -> Any:
    """Returns `y` with arrays in place of lists, pandas columns, and label names.

    Args:
        model: has the targets and the configuration.
        y: labels as `fit` receives them.
        x: the features, to tell a list with one array of labels from a list of rows.
    """
    y = y.to_numpy() if hasattr(y, "to_numpy") else y
    if len(model.targets) > 1:
        if isinstance(y, list | tuple) and len(y) == len(model.targets) and np.ndim(y[0]):
            return tuple(map(as_arrays, y))
        y = as_arrays(y)
        if isinstance(y, list | tuple) and y:
            raise UserError(
                f"y must have an array for each of {', '.join(model.targets)}, or be a dict with "
                f"their names. Received: a list of {len(y)}."
            )
        return y
    (target,) = model.targets.values()
    if holds_strings(y):
        return class_ids(y, target, model.config)
    if target.kind == "multi_label" and isinstance(y, list | tuple) and _is_ragged(y):
        raise UserError(
            f"Several labels per example must be a matrix of 0 and 1, [batch, {_count(model)}], or "
            f"a list of label names per example. Received: {short_repr(y)}."
        )
    y = as_arrays(y, "labels")
    if not isinstance(y, list | tuple) or not y:
        return y
    rows = next(iter(x.values()), None) if isinstance(x, Mapping) else x
    if len(y) == 1 and _length(y[0]) == _length(rows):
        return y[0]
    return np.stack([ops.convert_to_numpy(row) for row in y])


def _is_ragged(rows: Sequence[Any]) -> bool:
    return len({len(row) if isinstance(row, Sequence) else None for row in rows}) > 1


def _count(model: Any) -> int | None:
    (target,) = model.targets.values()
    return _class_count(model, target, {})


def _length(values: Any) -> Any:
    """Returns the number of examples, or None if it isn't known."""
    shape = getattr(values, "shape", None)
    return shape[0] if shape else None


def class_ids(labels: Any, target: Target, config: Any) -> np.ndarray:
    """Returns label names as class ids `[B]`, or several names per example as 0 and 1 `[B, C]`.

    Args:
        labels: names in `config.label2id`; for several labels per example a list of them each.
    Raises:
        UserError: a label isn't a name of the model.
    """
    ids: Mapping[str, int] = config.label2id
    several = target.kind == "multi_label"
    if not several and target.kind != "class":
        raise UserError(f"Labels must be numbers. Received: {short_repr(labels[0])}.")

    def class_id(name: Any, row: int) -> int:
        if not isinstance(name, str) or name not in ids:
            raise UserError(
                f"Labels must be numbers, or names in label2id: {', '.join(ids)}. "
                f"Received: {short_repr(name)} in row {row}. Pass the names to from_pretrained: "
                "id2label={0: …, 1: …}."
            )
        return ids[name]

    rows = labels.tolist() if isinstance(labels, np.ndarray) else labels
    if not several:
        return np.array([class_id(name, row) for row, name in enumerate(rows)], "int32")
    matrix = np.zeros((len(rows), len(ids)), "float32")
    for row, names in enumerate(rows):
        if not isinstance(names, list | tuple | set):
            raise UserError(
                f"Each example must have a list of label names. Received: {short_repr(names)} in "
                f"row {row}."
            )
        for name in names:
            matrix[row, class_id(name, row)] = 1.0
    return matrix


def holds_strings(values: Any) -> bool:
    """Whether the values contain a string anywhere, including in nested lists."""
    values = values.to_numpy() if hasattr(values, "to_numpy") else values  # of pandas
    if (kind := _kind(values)) in ("str", "string"):
        return True
    if isinstance(values, np.ndarray):
        return kind == "object" and any(map(holds_strings, values.flat))
    return isinstance(values, bytes) or (
        isinstance(values, Sequence) and any(map(holds_strings, values))
    )


def text_columns(x: Any, most: int = 2) -> list[list[str]]:
    """Returns texts as one column, and pairs of texts as two.

    Args:
        x: texts (a list, an array, or a pandas Series), a list of tuples of two texts, or a tuple
            of two columns.
        most: number of columns that the model takes.
    Raises:
        UserError: texts in another form, something else among them, or more columns than `most`.
    """
    if not _is_column(x):
        shape = getattr(x, "shape", None)
        kind = type(x).__name__
        raise _not_texts(short_repr(x) if shape is None else f"{kind} of shape {tuple(shape)}")
    columns = [list(x)]
    if isinstance(x, tuple) and len(x) == 2:
        if not all(map(_is_column, x)) or all(map(_is_pair, x)):
            raise _not_texts(f"{short_repr(x)}, which may be two rows or two columns")
        columns = [list(column) for column in x]
    elif all(map(_is_pair, x)):
        columns = [list(column) for column in zip(*x, strict=True)]
    for column in columns:
        for row, value in enumerate(column):
            if not isinstance(value, str):
                raise _not_texts(f"{short_repr(value)} ({type(value).__name__}) in row {row}")
    if len(columns[0]) != len(columns[-1]):
        raise _not_texts(f"{len(columns[0])} texts and {len(columns[1])} texts")
    if len(columns) > most:
        raise UserError("This model takes single texts, but the examples are pairs.")
    return columns


def two_columns(x: Any, what: str) -> tuple[list[Any], list[Any]]:
    """Returns the columns of a list of tuples of two, or of a tuple of two columns.

    Args:
        what: the form of a row, for messages.
    """
    if isinstance(x, tuple) and len(x) == 2 and not any(isinstance(each, str) for each in x):
        if all(map(_is_column, x)) and not all(map(_is_pair, x)):
            return list(x[0]), list(x[1])
    elif _is_column(x) and all(map(_is_pair, x)):
        first, second = zip(*x, strict=True)
        return list(first), list(second)
    raise UserError(
        f"Examples must be a list of {what} tuples, or a tuple of two columns. Received: "
        f"{short_repr(x)}."
    )


def _not_texts(received: str) -> UserError:
    return UserError(
        "Texts must be a list of strings; pairs a list of tuples, [(text, pair), …], or a tuple of "
        f"two columns, (texts, pairs). Received: {received}. "
        "AlbertPreprocessor takes tensors of strings, in tf.data and graphs."
    )


def _is_column(values: Any) -> bool:
    if isinstance(values, np.ndarray) or hasattr(values, "to_list"):
        return np.ndim(values) == 1
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _is_pair(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 2


def refuse_strings(inputs: Mapping[str, Any]) -> None:
    """Rejects arrays and tensors of strings."""
    for name, values in inputs.items():
        if _kind(values) not in ("string", "str", "object"):
            continue
        others = np.ravel(values) if isinstance(values, np.ndarray | str) else ["…"]
        other = next((each for each in others if not isinstance(each, Number)), others[:1])
        received = f"{other.item() if isinstance(other, np.generic) else other!r:.60}"
        raise UserError(
            f"Inputs and labels must be numbers. Received: {received}, … as {name}. "
            "config.label2id maps label names to class ids. A tokenizer, or AlbertPreprocessor in "
            "tf.data and graphs, maps texts to ids."
        )


def _kind(values: Any) -> str:
    if isinstance(values, str):
        return "str"
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype):
        return {"O": "object", "U": "str", "S": "str", "T": "str"}.get(dtype.kind, dtype.name)
    return str(getattr(dtype, "name", dtype))


def _check_ids(model: Any, inputs: Mapping[str, Any]) -> None:
    ids, embedded = inputs.get("input_ids"), inputs.get("inputs_embeds")
    shape = getattr(ids, "shape", None) or getattr(embedded, "shape", (None, None))[:-1]
    check_ids(model.config, inputs, shape[-1] if shape else None)


def check_labels(model: Any, labels: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Rejects labels with values that their target doesn't have, if the values are known.

    Args:
        model: has the targets and the configuration.
        labels: by target.
        inputs: by name; their shape contains the number of choices.
    """
    for name, target in model.targets.items():
        known = known_values(labels.get(name))
        if known is None:
            continue
        if target.kind == "position":
            if known.ndim < 2:  # otherwise probabilities
                refuse_fractions(name, known)
        elif target.kind == "class":
            count = _class_count(model, target, inputs)
            if count is not None:
                is_sparse = isinstance(getattr(model, "loss", None), _SPARSE)
                rank = 2 if target.by_token else 1
                losses.check_classes(name, known, count, rank, ids_only=is_sparse)
        else:
            count = _class_count(model, target, inputs)
            losses.check_numbers(name, known, count, several=target.kind == "multi_label")


def _class_count(model: Any, target: Target, inputs: Mapping[str, Any]) -> int | None:
    if target.classes == "choices":
        given = inputs.get("input_ids", inputs.get("inputs_embeds"))
        return None if given is None else given.shape[1]
    return (
        getattr(model.config, target.classes) if isinstance(target.classes, str) else target.classes
    )


def class_weights(model: Any, class_weight: Any) -> dict[int, float] | None:
    """Returns `class_weight` of `fit` by class id; its keys may also be label names.

    Raises:
        UserError: the model doesn't predict one class per example, `class_weight` isn't a dict, or
            a key or value is out of range.
    """
    if class_weight is None:
        return None
    target, *others = model.targets.values()
    if others or target.by_token or target.kind != "class" or target.classes == "choices":
        raise UserError(
            f"class_weight requires one class per example. {type(model).__name__} has other "
            "labels: pass sample_weight with one weight per label."
        )
    if not isinstance(class_weight, Mapping):
        raise UserError(
            "class_weight must be a dict with the weight of each class: dict(enumerate(weights)). "
            f"Received: {short_repr(class_weight)}."
        )
    ids, count = model.config.label2id, _class_count(model, target, {})
    weights = {ids.get(key, key): weight for key, weight in class_weight.items()}
    for key in weights:
        if not isinstance(key, Integral) or not 0 <= int(key) < (count or math.inf):
            raise UserError(
                f"The keys of class_weight must be class ids, or names in label2id: "
                f"{', '.join(ids)}. Received: {short_repr(key)}."
            )
    for key, weight in class_weight.items():
        if not isinstance(weight, Real) or not 0 <= float(weight) < math.inf:
            raise UserError(
                "The values of class_weight must be numbers, 0 or more. Received: "
                f"{short_repr(weight)} for {short_repr(key)}."
            )
    return {**dict.fromkeys(range(count or 0), 1.0), **weights}


def check_call(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Checks the arguments of a direct call of a model.

    Returns:
        the arguments, with labels that are lists as arrays.
    Raises:
        ValueError: an input is a list or a string, or an id or a label is out of range.
    """

    def with_arrays(inputs: Mapping[str, Any]) -> dict[str, Any]:
        labels = {name: inputs[name] for name in model.targets if name in inputs}
        return {**inputs, **as_arrays(labels)}

    kwargs = with_arrays(without_foreign(kwargs, CALL))
    if args and isinstance(args[0], Mapping):
        args = (with_arrays(args[0]), *args[1:])
    given = {**dict(zip(ENCODER_INPUTS, args, strict=False)), **kwargs}
    if isinstance(given.get("input_ids"), Mapping):
        given |= given.pop("input_ids")
    _refuse_lists(given)
    refuse_ragged(given)
    refuse_strings({name: given[name] for name in model.known_inputs if name in given})
    _check_ids(model, given)
    check_labels(model, given, given)
    return args, kwargs


def _refuse_lists(inputs: Mapping[str, Any]) -> None:
    """Rejects lists, which Keras would split into single numbers, and inputs by position."""
    ids = inputs.get("input_ids")
    if isinstance(ids, list | tuple) and ids and all(hasattr(each, "shape") for each in ids):
        named = ", ".join(f"{name!r}: …" for name in ENCODER_INPUTS[: len(ids)])
        raise ValueError(
            f"Pass a model's inputs by name: model({{{named}}}). Received: a list of {len(ids)}."
        )
    if lists := [name for name, value in inputs.items() if isinstance(value, list | tuple)]:
        raise ValueError(
            "A model's inputs must be arrays or tensors, as tokenizer(texts, padding=True, "
            f"return_tensors='np') returns them. Received: a list as {', '.join(lists)}."
        )


def refuse_ragged(inputs: Mapping[str, Any]) -> None:
    """Rejects ragged tensors, which no layer here computes."""
    if ragged := [name for name, value in inputs.items() if hasattr(value, "row_splits")]:
        raise UserError(
            "A model's inputs must be dense tensors. Received: a ragged tensor as "
            f"{', '.join(ragged)}. Pad its rows: pass ids.to_tensor() as input_ids, and "
            "tf.sequence_mask(ids.row_lengths()) as attention_mask."
        )


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
        value = inputs[name]
        if value is not None and not any(losses.agree(value.shape, shape) for shape in shapes):
            raise ValueError(
                f"{name} must have the shape of the ids, {' or '.join(map(str, shapes))}. "
                f"Received: {tuple(value.shape)}."
            )


if keras.backend.backend() == "torch":
    from torch.utils import _pytree

    _pytree.register_pytree_node(
        BatchEncoding, as_leaves, lambda values, names: from_leaves(names, values)
    )
