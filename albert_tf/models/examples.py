"""Converts and checks the examples that users pass.

Features are texts, or arrays and lists keyed by name. Labels are arrays, lists, pandas columns, or
label names; a model's targets describe them. `albert_tf.models.batch` builds on these functions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Number, Real
from typing import Any, Final, Literal, NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.errors import UserError, short_repr
from albert_tf.layers.embedding import known_values, reject_fractions
from albert_tf.models.losses import not_ids
from albert_tf.tasks import IGNORED

# The first arguments of every model's `call`, in order.
ENCODER_INPUTS: Final = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "position_ids",
    "inputs_embeds",
)
_ARROW_NUMBERS: Final = ("int", "uint", "float", "double", "halffloat", "bool")  # name prefixes
SUM_TOLERANCE: Final = 1e-2  # allows for half precision and for rounding in files
_SPARSE: Final = keras.losses.SparseCategoricalCrossentropy
Kind = Literal["class", "group", "number", "multi_label", "position"]


class Target(NamedTuple):
    """The output that a label is compared with, and the kind of label.

    Attributes:
        output: name of the output.
        kind: "class" for class ids or class probabilities, "group" for group ids, "number" for
            regression, "multi_label" for 0 or 1 per class, or "position" for a token position or a
            probability per position.
        classes: number of classes (or of regression values), or the configuration field that
            contains this number; "choices" for the number of choices per example; None if the
            number varies.
        by_token: whether each token has a label.
        limits: smallest and largest values allowed for a number.
    """

    output: str
    kind: Kind = "class"
    classes: str | int | None = None
    by_token: bool = False
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def activation(self) -> str | None:
        """The function that converts the output to probabilities, or None if there is none."""
        functions = {"number": None, "group": None, "multi_label": "sigmoid"}
        return functions.get(self.kind, "softmax")


def holds_rows(x: Any) -> bool:
    """Returns whether all examples in `x` are in memory, unlike in a dataset or generator."""
    return hasattr(x, "shape") or isinstance(x, Mapping | Sequence)


def is_empty(x: Any) -> bool:
    """Returns whether `x` is an empty list or set, or contains empty columns or arrays."""
    while isinstance(x, Mapping | tuple) and x:
        x = next(iter(x.values())) if isinstance(x, Mapping) else x[0]
    if isinstance(x, np.ndarray):
        return 0 in x.shape[:1]
    return isinstance(x, list | tuple | Set) and not x


def reject_empty(x: Any) -> None:
    """Rejects a call without examples."""
    if is_empty(x):
        raise UserError("Training and evaluation require at least one example.")


def holds_strings(values: Any) -> bool:
    """Returns whether the values contain a string anywhere, including in nested lists and sets."""
    values = _to_numpy(values) if hasattr(values, "to_numpy") else values
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = values.ravel().tolist()
    elif isinstance(values, bytes) or _may_be_strings(values):
        return True
    if isinstance(values, Sequence | Set):
        numbers: set[type] = set()  # each type is checked once, because lists of ids can be long
        for value in values:
            if type(value) in numbers:
                continue
            if isinstance(value, Number):
                numbers.add(type(value))
            elif isinstance(value, str) or holds_strings(value):
                return True
    return False


def _to_numpy(values: Any) -> np.ndarray:
    """Converts a pandas object or a numeric pyarrow array to a NumPy array."""
    if hasattr(values, "to_pylist") and not str(values.type).startswith(_ARROW_NUMBERS):
        raise UserError(
            f"A pyarrow array of {values.type} values must be passed as a list. Received: "
            f"{type(values).__name__}. Write column.to_pylist()."
        )
    return np.asarray(values.to_numpy())


def _may_be_strings(values: Any) -> bool:
    """Returns whether the values are a string, or an array of strings or Python objects."""
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind in "OUST"
    return isinstance(values, str) or getattr(dtype, "name", dtype) == "string"


def check_types(inputs: Mapping[str, Any]) -> None:
    """Rejects strings, dates, and ragged tensors."""
    for name, values in inputs.items():
        if hasattr(values, "row_splits"):
            raise UserError(
                f"Inputs must be dense tensors. Received: a ragged tensor as {name}. Pass "
                "ids.to_tensor() as input_ids, and tf.sequence_mask(ids.row_lengths()) as "
                "attention_mask."
            )
        if _may_be_strings(values) or getattr(getattr(values, "dtype", 0), "kind", "") in {*"mM"}:
            others = np.ravel(values) if isinstance(values, np.ndarray | str) else ["…"]
            other = next((each for each in others if not isinstance(each, Number)), others[:1])
            received = f"{other.item() if isinstance(other, np.generic) else other!r:.60}"
            raise UserError(
                f"Inputs and labels must be numbers. Received: {received}, … as {name}. Map label "
                "names to class ids with config.label2id, and texts to ids with a tokenizer (in "
                "tf.data and graphs, with AlbertPreprocessor). Convert dates, for example with "
                "column.dt.year, and drop missing values."
            )


def check_lists(inputs: Mapping[str, Any]) -> None:
    """Rejects lists of numbers, which Keras would split, and lists of inputs."""
    ids = inputs.get("input_ids")
    if isinstance(ids, list | tuple) and ids and all(hasattr(each, "shape") for each in ids):
        named = ", ".join(f"{name!r}: …" for name in ENCODER_INPUTS[: len(ids)])
        raise ValueError(
            f"Pass a model's inputs by name: model({{{named}}}). Received: a list of {len(ids)} "
            "arrays."
        )
    if lists := [name for name, value in inputs.items() if isinstance(value, list | tuple)]:
        raise ValueError(
            f"Inputs must be arrays or tensors. Received: a list for {', '.join(lists)}. "
            "tokenizer(texts, padding=True, return_tensors='np') returns arrays."
        )


def from_pandas(values: Any) -> Any:
    """Converts pandas objects to arrays and returns other values unchanged.

    pandas converts some columns of nullable and pyarrow types to Python objects. If all of these
    objects are numbers, the array has a numeric type.
    """
    if not hasattr(values, "to_numpy"):
        return values
    array = _to_numpy(values)
    if array.dtype.kind == "O" and all(isinstance(value, Real) for value in array.flat):
        return np.array(array.tolist())
    return array


def as_arrays(values: Any, name: str = "y", by_row: bool = False) -> Any:
    """Converts a tokenizer's output to a dict of arrays, and lists and pandas objects to arrays.

    Keras would treat every number in a list as an input. Returns tensors and datasets unchanged. A
    column of a Hugging Face dataset is treated as a list.

    Args:
        by_row: whether a list of arrays contains one array per example, as in dicts and in pandas
            columns. By default, it is returned unchanged, because it could be a list of inputs.
    """
    if isinstance(values, Mapping):
        return {
            name: as_arrays(list(value) if isinstance(value, tuple) else value, name, by_row=True)
            for name, value in values.items()
        }
    values = from_pandas(values)
    is_object = isinstance(values, np.ndarray) and values.dtype.kind == "O" and values.ndim == 1
    first = values[0] if is_object and values.size else None
    if isinstance(first, list | np.ndarray) and not holds_strings(values):
        values, by_row = values.tolist(), True
    if isinstance(values, Sequence) and not isinstance(values, list | tuple | str | bytes):
        values = list(values)
    if isinstance(values, tuple | list) and values:
        if not by_row and len(getattr(values[0], "shape", ())):
            return values
        if isinstance(values, tuple) and not isinstance(values[0], Number | str | np.generic):
            return values
        return stacked(values, name)
    return values


def stacked(rows: Any, name: str) -> np.ndarray:
    """Returns an array of rows, which can be numbers, lists, arrays, or tensors."""
    if rows and len(getattr(rows[0], "shape", ())):
        rows = [ops.convert_to_numpy(row) for row in rows]
    try:
        return np.asarray(rows)
    except ValueError as error:
        how = "with tokenizer(texts, padding=True)" if name in ENCODER_INPUTS else "with -100"
        raise UserError(f"All rows of {name} must have the same length. Pad them {how}.") from error


def input_arrays(x: Any) -> Any:
    """Converts lists in the inputs of `fit`, `evaluate`, or `predict` to arrays."""
    if hasattr(x, "to_tf_dataset"):
        raise UserError(
            "Pass the columns of a Hugging Face dataset, as in fit(dataset['text'], "
            "dataset['label']), or convert it with to_tf_dataset. Received: "
            f"{type(x).__name__} with the columns {', '.join(x.column_names)}."
        )
    x = as_arrays(x, "x")
    if isinstance(x, np.ndarray) and x.ndim == 1 and x.size and not _may_be_strings(x):
        raise UserError(
            "x must be texts, or token ids of shape [batch, length]. Received: an array of shape "
            f"{x.shape}, starting with {short_repr(x[0])}. Convert a column of numbers or dates to "
            "texts with column.astype(str)."
        )
    if not is_empty(x):
        check_lists({ENCODER_INPUTS[0]: x})
    return x


def text_columns(x: Any, most: int = 2) -> list[list[str]]:
    """Returns texts as one column, or text pairs as two.

    Args:
        x: texts (a list, an array, or a pandas Series), a list of text pairs (tuples), or a tuple
            of two columns.
        most: maximum number of columns.
    """
    columns = _columns(x)
    if columns is None:
        shape = getattr(x, "shape", None)
        received = short_repr(x) if shape is None else f"{type(x).__name__} of shape {tuple(shape)}"
        which = ", which can be read as rows or as columns" if isinstance(x, tuple) else ""
        raise _not_texts(received + which)
    for column in columns:
        for row, value in enumerate(column):
            if not isinstance(value, str):
                raise _not_texts(f"{short_repr(value)} ({type(value).__name__}) in row {row}")
    if len(columns[0]) != len(columns[-1]):
        raise _not_texts(f"{len(columns[0])} texts and {len(columns[1])} texts")
    if len(columns) > most:
        raise UserError("This model accepts only single texts. Received: text pairs.")
    return columns


def two_columns(x: Any, what: str) -> tuple[list[Any], list[Any]]:
    """Returns two columns, given a list of pairs or a tuple of two columns.

    `what` describes a pair, such as "(question, context)".
    """
    columns = _columns(x)
    if columns is None or len(columns) != 2:
        raise UserError(
            f"Examples must be a list of {what} tuples, or a tuple of two columns. Received: "
            f"{short_repr(x)}."
        )
    return columns[0], columns[1]


def _columns(x: Any) -> list[list[Any]] | None:
    """Returns the columns in `x`, or None if its form is unknown or ambiguous."""
    if not _is_column(x):
        return None
    if isinstance(x, tuple) and len(x) == 2:
        is_by_column = all(map(_is_column, x)) and not all(map(_is_pair, x))
        return [list(column) for column in x] if is_by_column else None
    is_by_row = all(map(_is_pair, x))
    return [list(column) for column in zip(*x, strict=True)] if is_by_row else [list(x)]


def _not_texts(received: str) -> UserError:
    return UserError(
        "Texts must be a list of strings; text pairs must be a list of tuples, [(text, pair), …], "
        f"or a tuple of two columns, (texts, pairs). Received: {received}. Convert other "
        "values with str(value), and drop missing ones. For string tensors, use AlbertPreprocessor "
        "in tf.data."
    )


def _is_column(values: Any) -> bool:
    if isinstance(values, np.ndarray) or hasattr(values, "to_list"):
        return np.ndim(values) == 1
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _is_pair(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 2


def label_arrays(model: Any, y: Any, x: Any) -> Any:
    """Converts lists, pandas columns, and label names in the `y` of `fit` to arrays.

    Integers become floats if the target is a number, because a backend may convert integers to
    int32. In a DataFrame whose columns are the label names, the columns can be in any order. The
    number of rows in `x` determines whether a list of length 1 contains all labels.
    """
    if len(model.targets) > 1:
        if isinstance(y, list | tuple) and len(y) == len(model.targets) and np.ndim(y[0]):
            return tuple(map(as_arrays, y))
        y = as_arrays(y)
        if isinstance(y, list | tuple) and y:
            raise UserError(
                f"y must be a dict, or a list of arrays for {', '.join(model.targets)}. "
                f"Received: a list of length {len(y)}."
            )
        return y
    ((name, target),) = model.targets.items()
    if isinstance(y, Mapping) and len(y) == 1 and y.keys() <= {name, target.output}:
        (y,) = y.values()
    if set(getattr(y, "columns", ())) == set(model.config.labels):
        y = y[list(model.config.labels)]
    y = from_pandas(y)
    is_list = isinstance(y, Sequence) or (isinstance(y, np.ndarray) and y.dtype.kind == "O")
    is_unlabeled = target.kind == "multi_label" and is_list and all(map(is_empty, y))
    if is_unlabeled or holds_strings(y):
        return class_ids(y, target, model.config)
    if target.kind == "multi_label" and isinstance(y, list | tuple):
        lengths = {len(row) if isinstance(row, Sequence) else None for row in y}
        if len(lengths) > 1:
            count = _class_count(model, target, {})
            raise UserError(
                f"Multi-label targets must be a matrix of 0 and 1, [batch, {count}], or a list of "
                f"label names for each example. Received: {short_repr(y)}."
            )
    y = as_arrays(y, "labels")
    if isinstance(y, list | tuple) and y:
        rows: Any = next(iter(x.values()), None) if isinstance(x, Mapping) else x
        is_wrapped = len(y) == 1 and tuple(np.shape(y[0])[:1]) == tuple(np.shape(rows)[:1])
        y = y[0] if is_wrapped else stacked(y, "labels")
    if target.kind == "number" and isinstance(y, np.ndarray) and y.dtype.kind in "iub":
        return y.astype("float32")
    known = known_values(y) if target.kind == "class" and not target.by_token else None
    if known is not None and known.dtype.kind != "O" and known.shape[1:] in ((), (1,)):
        _reject_ambiguous(known.ravel().tolist(), model.config.label2id)
    return y


def _reject_ambiguous(labels: Iterable[Any], label2id: Mapping[str, int]) -> None:
    """Rejects integers that could be class ids or names, such as 1 to 4 for names "1" to "5"."""
    ids = {int(name): index for name, index in label2id.items() if name.isdecimal()}
    if all(name == index for name, index in ids.items()):
        return
    found = {label for label in labels if not isinstance(label, str)} - {IGNORED}
    if found and found <= ids.keys() & {*label2id.values()}:
        raise UserError(
            "Integer labels are ambiguous if label names are integers other than their class ids "
            f"({', '.join(map(repr, label2id))}). Received: {short_repr(sorted(found))}. Convert "
            "names with str(label), or class ids with model.config.id2label[label]."
        )


def class_ids(labels: Any, target: Target, config: Any) -> np.ndarray:
    """Maps names in `config.label2id` to class ids `[B]`.

    For multi-label targets, maps each example's list of names to 0 or 1 per class, `[B, C]`.
    """
    ids: Mapping[str, int] = config.label2id
    several = target.kind == "multi_label"
    if not several and target.kind != "class":
        raise UserError(f"Labels must be numbers. Received: {short_repr(labels[0])}.")

    def class_id(name: Any, row: int) -> int:
        if not several and isinstance(name, list | tuple | set | np.ndarray):
            raise UserError(
                f"Each example must have one label. Received: {short_repr(name)} in row {row}. To "
                'allow any number, set problem_type="multi_label_classification".'
            )
        if not isinstance(name, str) or name not in ids:
            raise UserError(
                f"Labels must be class ids, or names in label2id ({', '.join(ids)}). Received: "
                f"{short_repr(name)} in row {row}. Pass your own names to from_pretrained: "
                "id2label={0: …, 1: …}."
            )
        return ids[name]

    rows = labels.tolist() if isinstance(labels, np.ndarray) else labels
    if not several:
        return np.array([class_id(name, row) for row, name in enumerate(rows)], "int32")
    matrix = np.zeros((len(rows), len(ids)), "float32")
    for row, names in enumerate(rows):
        if not isinstance(names, list | tuple | set | np.ndarray):
            raise UserError(
                f"The labels of an example must be a list of names. Received: {short_repr(names)} "
                f"in row {row}."
            )
        for name in names:
            matrix[row, class_id(name, row)] = 1.0
    return matrix


def class_weights(model: Any, class_weight: Any) -> dict[int, float]:
    """Checks the `class_weight` of `fit` and converts its keys (ids or label names) to ids."""
    target, *others = model.targets.values()
    if others or target.by_token or target.kind != "class" or target.classes == "choices":
        raise UserError(
            "class_weight requires a model that predicts one class per example, unlike "
            f"{type(model).__name__}. Pass sample_weight instead."
        )
    if not isinstance(class_weight, Mapping):
        raise UserError(
            f"class_weight must be a dict. Received: {short_repr(class_weight)}. Pass "
            "dict(enumerate(weights))."
        )
    ids, count = model.config.label2id, _class_count(model, target, {})
    _reject_ambiguous(class_weight, ids)
    weights = {ids.get(key, key): weight for key, weight in class_weight.items()}
    for key in weights:
        number = float(key) if isinstance(key, Real) else math.nan
        if not 0 <= number < (count or math.inf) or not number.is_integer():
            raise UserError(
                "The keys of class_weight must be class ids, or names in label2id "
                f"({', '.join(ids)}). Received: {short_repr(key)}."
            )
    if len(weights) < len(class_weight):
        raise UserError(
            "class_weight must contain each class only once, as a class id or a name. Received: "
            f"{short_repr(class_weight)}."
        )
    for key, weight in class_weight.items():
        if not isinstance(weight, Real) or not 0 <= float(weight) < math.inf:
            raise UserError(
                "The values of class_weight must be finite numbers >= 0. Received: "
                f"{short_repr(weight)} for {short_repr(key)}."
            )
    return dict.fromkeys(range(count or 0), 1.0) | {int(key): weights[key] for key in weights}


def check_labels(
    model: Any, labels: Mapping[str, Any], inputs: Mapping[str, Any], loss: Any = None
) -> None:
    """Rejects labels whose shape or values don't fit their target. Symbolic labels are accepted.

    Args:
        labels: labels keyed by target; other names are ignored.
        inputs: inputs keyed by name. Their shape determines the number of choices.
        loss: the loss passed to `compile`. Labels are checked only if the loss is None (the model's
            own) or sparse cross-entropy.
    """
    if not isinstance(loss, _SPARSE | None):
        return
    for name, target in model.targets.items():
        known = known_values(labels.get(name))
        if known is None:
            continue
        count = _class_count(model, target, inputs)
        if target.kind in ("position", "group"):
            if target.kind == "group" or known.ndim < 2:  # not probabilities of positions
                reject_fractions(name, known)
        elif target.kind != "class":
            limits = (0, 1) if target.kind == "multi_label" else target.limits
            check_numbers(name, known, count, limits)
        elif count is not None:
            rank = 2 if target.by_token else 1
            check_classes(name, known, count, rank, ids_only=loss is not None)


def _class_count(model: Any, target: Target, inputs: Mapping[str, Any]) -> int | None:
    if target.classes == "choices":
        given = inputs.get("input_ids", inputs.get("inputs_embeds"))
        return None if given is None else given.shape[1]
    return (
        getattr(model.config, target.classes) if isinstance(target.classes, str) else target.classes
    )


def check_classes(
    name: str, known: np.ndarray, count: int, rank: int, ids_only: bool = False
) -> None:
    """Rejects labels that are neither class ids nor probabilities of `count` classes.

    In a graph, an out-of-range id raises an error in TensorFlow's CPU kernel. Elsewhere, the loss
    becomes NaN.

    Args:
        rank: rank of class ids; probabilities have one more axis.
        ids_only: whether to also reject probabilities.
    """
    if known.ndim == rank + 1 and known.shape[-1] == count > 1:
        if ids_only or known.dtype.kind != "f":
            raise not_ids(known.shape)
        _check_probabilities(name, known)
        return
    inside = (known >= 0) & (known < count) & (known == np.floor(known))
    outside = known[(known != IGNORED) & ~inside]
    if outside.size:
        raise ValueError(
            f"{name} must be class ids from 0 to {count - 1}, or {IGNORED} to be ignored. "
            f"Received: {outside[0]} (invalid: {outside.size} of {known.size}). For more classes, "
            "pass num_labels to from_pretrained. Pass label names as strings: '5', not 5."
        )


def _check_probabilities(name: str, known: np.ndarray) -> None:
    rows = known.reshape(-1, known.shape[-1]).astype("float64")
    if known.ndim == 3:
        rows = rows[rows[:, 0] != IGNORED]
    wrong = (np.abs(rows.sum(axis=-1) - 1) > SUM_TOLERANCE) | (rows < 0).any(axis=-1)
    if wrong.any():
        raise ValueError(
            f"Probabilities in {name} must be >= 0 and sum to 1 over the classes. Received: "
            f"{rows[wrong][0].round(4).tolist()} (invalid: {wrong.sum()} of {len(rows)}). Pass the "
            "softmax of logits, or class ids (int)."
        )


def check_numbers(
    name: str, labels: np.ndarray, count: int | None, limits: tuple[float, float]
) -> None:
    """Rejects labels that aren't finite, are outside `limits`, or don't match the outputs' shape.

    Args:
        count: number of labels per example; None accepts any number.
        limits: smallest and largest values allowed. Rounding errors are accepted.
    """
    columns = labels.shape[-1] if labels.ndim == 2 else 1
    if count is not None and (labels.ndim > 2 or columns != count):
        shape = "[batch]" if count == 1 else f"[batch, {count}]"
        raise ValueError(f"{name} must have shape {shape}. Received shape {labels.shape}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        received = labels[~np.isfinite(labels)][0]
        raise ValueError(f"{name} must be finite. Received: {received} among {labels.size} values.")
    low, high = limits
    rounded = labels.astype("float64").round(5)
    outside = labels[(rounded < low) | (rounded > high)]
    if outside.size:
        raise ValueError(
            f"{name} must be between {low:g} and {high:g}. Received: {outside[0]} "
            f"(invalid: {outside.size} of {labels.size})."
        )
