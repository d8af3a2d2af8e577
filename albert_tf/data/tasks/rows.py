"""Encoded examples and their padded batches."""

import copy
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from albert_tf.errors import UserError
from albert_tf.tasks import (
    ATTENTION_MASK,
    IGNORED,
    INPUT_IDS,
    INPUTS,
    MASKED_LM_POSITIONS,
    TOKEN_TYPE_IDS,
)
from albert_tf.text.sequences import EncodedSequence, Positions

FEATURES: Final = (INPUT_IDS.name, TOKEN_TYPE_IDS.name)
logger = logging.getLogger(__name__)


class Rows:
    """Encoded examples without padding, and their labels.

    Args:
        arrays: features by name, with one array per row: `input_ids` and `token_type_ids`, `[T]` or
            `[C, T]` for choices, and additional features of the same shape. The choices of a row
            are padded to the same length, and have an `attention_mask`. Other rows contain no
            padding. The shape of `masked_lm_positions` is `[P]`.
        labels: labels by target name, with one number or array per row; empty for unlabeled rows.
        pad_id: id of `<pad>`.
        examples: index of each row's example, `[N]`, because a long text may be split into several
            rows; None if each row is one example.
        label_inputs: targets that are also passed to the model during training.
        tags: whether labels are arrays `[T]`, which are padded like the features.
        details: the data for each row that is needed to decode the model's outputs.
    Attributes:
        lengths: int `[N]`, the length T of each row.
        longest: maximum length of a batch. Default: the length of the longest row.
        count: number of examples, including those without a row.
        weights: a weight per row, or an array with the same shape as the row's labels; None if
            there are no weights.
        cut: number of rows that were truncated to `max_length` tokens.
    """

    def __init__(
        self,
        arrays: Mapping[str, Sequence[Any]],
        labels: Mapping[str, Sequence[Any]],
        pad_id: int,
        examples: Sequence[int] | None = None,
        label_inputs: Sequence[str] = (),
        tags: bool = False,
        details: Sequence[Any] = (),
    ):
        self.arrays: dict[str, Any] = {
            name: [np.asarray(row, "int32") for row in rows] for name, rows in arrays.items()
        }
        self.labels: dict[str, Any] = {name: _labels(rows) for name, rows in labels.items()}
        self._ids = self.arrays[INPUT_IDS.name]
        self.lengths = np.array([row.shape[-1] for row in self._ids])
        self.longest = int(self.lengths.max(initial=0))
        self.examples = np.arange(len(self)) if examples is None else np.asarray(examples)
        self.count = int(self.examples.max(initial=-1)) + 1
        self.label_inputs, self.has_tags = tuple(label_inputs), tags
        self.details, self.cut, self.max_length = details, 0, self.longest
        self.weights: Any = None
        self._fills = {INPUT_IDS.name: pad_id}

    @classmethod
    def of_windows(
        cls,
        windows: Sequence[Sequence[EncodedSequence]],
        pad_id: int,
        labels: Mapping[str, Sequence[Any]] = {},
        label_inputs: Sequence[str] = (),
    ) -> "Rows":
        """Creates one row per window; `details` contains the windows."""
        details = [window for each in windows for window in each]
        arrays = features_of(details)
        examples = [number for number, each in enumerate(windows) for _ in each]
        rows = cls(arrays, labels, pad_id, examples, label_inputs, details=details)
        rows.count = len(windows)
        return rows

    @classmethod
    def of_choices(
        cls,
        choices: Sequence[Sequence[EncodedSequence]],
        labels: Mapping[str, Sequence[Any]],
        pad_id: int,
    ) -> "Rows":
        """Creates one row per example, whose choices are padded to its longest choice."""
        arrays: dict[str, list[np.ndarray]] = {feature.name: [] for feature in INPUTS}
        fills = {**dict.fromkeys(arrays, 0), INPUT_IDS.name: pad_id}
        for positions in map(Positions, choices):
            for name, fill in fills.items():
                arrays[name].append(_padded(positions.split(name), fill, None))
        return cls(arrays, labels, pad_id)

    def by_example(self, outputs: Sequence[Any]) -> list[list[tuple[Any, Any]]]:
        """Returns the details and the outputs of each example's rows."""
        found: list[list[tuple[Any, Any]]] = [[] for _ in range(self.count)]
        for example, detail, output in zip(self.examples, self.details, outputs, strict=True):
            found[example].append((detail, output))
        return found

    def warn_of_cut(self) -> None:
        """Logs how many rows were truncated."""
        if self.cut:
            logger.warning(
                "%d of %d texts are longer than %d tokens and are truncated. To keep more of each "
                "text, train with a larger tokenizer.model_max_length (in commands: --max-length), "
                "up to the model's max_position_embeddings.",
                *(self.cut, len(self), self.max_length),
            )

    def __len__(self) -> int:
        return len(self._ids)

    def in_epoch(self, epoch: int, seed: int) -> "Rows":
        """Returns the rows of an epoch. Only masked texts differ between epochs."""
        return self

    def batch(
        self, rows: np.ndarray, jit_compile: bool = False
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray | None]:
        """Returns features, labels, and weights, padded to the longest row.

        Features are `[B, T]` or `[B, C, T]`. With `jit_compile`, T is rounded up by
        `padded_length`, but not beyond `longest`, because the model may not support more positions.
        Padding has mask 0, label -100, and weight 0.
        """
        features = self.inputs(rows, jit_compile)
        length = features[INPUT_IDS.name].shape[-1] if self.has_tags else None

        def padded(values: Sequence[np.ndarray], fill: int) -> np.ndarray:
            return _padded([values[row] for row in rows], fill, length)

        labels = {name: padded(values, IGNORED) for name, values in self.labels.items()}
        features |= {name: labels[name] for name in self.label_inputs}
        return features, labels, None if self.weights is None else padded(self.weights, 0)

    def inputs(self, rows: np.ndarray, jit_compile: bool = False) -> dict[str, np.ndarray]:
        """Returns only the features of `batch`."""
        arrays = {name: [values[row] for row in rows] for name, values in self.arrays.items()}
        arrays.setdefault(ATTENTION_MASK.name, [np.ones_like(self._ids[row]) for row in rows])
        length = padded_length(int(self.lengths[rows].max()), jit_compile)
        length = min(length, self.longest)
        lengths = {MASKED_LM_POSITIONS.name: None}  # padded to their own maximum
        return {
            name: _padded(values, self._fills.get(name, 0), lengths.get(name, length))
            for name, values in arrays.items()
        }

    def weight_by_class(self, weights: Sequence[float] | None) -> None:
        """Sets each label's weight to the weight of its class, unless `weights` is None."""
        if weights is not None:
            by_class = np.asarray(weights, "float32")
            (labels,) = self.labels.values()
            self.weights = [by_class[np.maximum(label, 0)] for label in labels]

    def digest(self) -> str:
        """Returns the hexadecimal SHA-256 digest of features, labels, and weights."""
        total = hashlib.sha256()
        weights = (
            self.weights if isinstance(self.weights, dict) else {"weights": self.weights or ()}
        )
        for columns in (self.arrays, self.labels, weights):
            for name, column in columns.items():
                total.update(name.encode())
                for row in column:
                    total.update(repr(np.shape(row)).encode())
                    total.update(np.ascontiguousarray(row).tobytes())
        return total.hexdigest()

    def split(self, share: float) -> "tuple[Rows, Rows]":
        """Splits off the rows of the last examples. `share` is their fraction of all examples.

        Raises:
            UserError: if one of the two parts would be empty.
        """
        is_first = self.examples < int(self.count * (1 - share))
        if is_first.all() or not is_first.any():
            raise UserError(
                f"validation_split={share} leaves no examples for training or for validation. "
                f"Received: {self.count} examples."
            )
        return self.select(np.flatnonzero(is_first)), self.select(np.flatnonzero(~is_first))

    def select(self, rows: np.ndarray) -> "Rows":
        """Returns some of the rows."""
        chosen = copy.copy(self)
        chosen.arrays, chosen.labels = (
            {name: [values[row] for row in rows] for name, values in each.items()}
            for each in (self.arrays, self.labels)
        )
        chosen._ids = chosen.arrays[INPUT_IDS.name]
        chosen.lengths, chosen.examples = self.lengths[rows], self.examples[rows]
        chosen.longest = int(chosen.lengths.max(initial=0))
        chosen.details = [self.details[row] for row in rows] if len(self.details) else ()
        if self.weights is not None:
            chosen.weights = [self.weights[row] for row in rows]
        return chosen


class ArrayRows(Rows):
    """Examples that are already padded arrays.

    Args:
        features: arrays keyed by name, `[N, …]`.
        labels: an array, or arrays by target; None if there are no labels.
        weights: sample weights in the same format as labels; None if there are no weights.
    """

    def __init__(self, features: Mapping[str, Any], labels: Any, weights: Any):
        self.arrays = {name: np.asarray(values) for name, values in features.items()}
        self.labels = {} if labels is None else _by_name(labels)
        self.weights = None if weights is None else _by_name(weights)
        self.examples = np.arange(len(next(iter(self.arrays.values()))))
        self.count = len(self.examples)
        self.lengths = np.zeros(len(self.examples), int)  # all rows are equally long
        self.has_tags = False

    def __len__(self) -> int:
        return len(self.examples)

    def batch(self, rows: np.ndarray, jit_compile: bool = False) -> Any:
        features, labels = (
            {name: values[rows] for name, values in each.items()}
            for each in (self.arrays, self.labels)
        )
        weights = self.weights and {name: values[rows] for name, values in self.weights.items()}
        return features, labels, weights if len(labels) > 1 else weights and weights["labels"]

    def select(self, rows: np.ndarray) -> "ArrayRows":
        features, labels, weights = self.batch(rows)
        return ArrayRows(features, labels, weights)


def evaluation_order(
    lengths: np.ndarray, batch_size: int, rows: np.ndarray | None = None
) -> list[np.ndarray]:
    """Returns the row indices of each evaluation batch, sorted by length.

    Args:
        lengths: int `[N]`, the length of each row.
        rows: int `[N]`, the row indices. Default: 0 to N - 1.
    """
    order = np.argsort(lengths, kind="stable")
    return in_batches(order if rows is None else rows[order], batch_size)


def in_batches(rows: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Splits rows into batches; the last one may be smaller."""
    return np.split(rows, range(batch_size, len(rows), batch_size))


def padded_length(longest: int, jit_compile: bool) -> int:
    """Returns the length to which a batch is padded: the length of its longest sequence.

    With XLA, the length is rounded up to a multiple of 8, because XLA recompiles for each length.
    """
    return -(-longest // 8) * 8 if jit_compile else longest


def _by_name(values: Any) -> dict[str, np.ndarray]:
    named = values if isinstance(values, Mapping) else {"labels": values}
    return {name: np.asarray(each) for name, each in named.items()}


def features_of(sequences: Sequence[EncodedSequence]) -> dict[str, list[np.ndarray]]:
    """Returns the features of sequences, with one array per sequence."""
    positions = Positions(sequences)
    return {name: positions.split(name) for name in FEATURES}


def _labels(rows: Sequence[Any]) -> list[np.ndarray]:
    """Converts labels to int32 if it can represent all of them, otherwise to float32."""
    flat = np.concatenate([np.zeros(0, int), *map(np.ravel, rows)])
    is_exact = flat.dtype.kind in "iub" and np.array_equal(flat, flat.astype("int32"))
    return [np.asarray(row, "int32" if is_exact else "float32") for row in rows]


def _padded(values: Sequence[np.ndarray], fill: int, length: int | None) -> np.ndarray:
    """Stacks arrays of the same rank. Pads axes to their maximum, or the last axis to `length`."""
    shape = np.max([value.shape for value in values], axis=0, initial=0).astype(int)
    if length is not None and shape.size:  # a weight per row has no axis
        shape[-1] = length
    stacked = np.full((len(values), *shape), fill, values[0].dtype)
    for row, value in enumerate(values):
        place: Any = (row, *map(slice, value.shape))
        stacked[place] = value
    return stacked
