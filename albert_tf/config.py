"""ALBERT's configuration: frozen, and read strictly from Google's or Hugging Face's JSON."""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from albert_tf.config_keys import FIXED, check_keys, is_googles
from albert_tf.errors import UserError
from albert_tf.sizes import SIZES

# Hugging Face's names: "gelu" is x·Φ(x) through erf, "gelu_new" its tanh approximation.
ACTIVATIONS: Final = ("gelu", "gelu_new", "relu", "silu", "swish", "tanh")
PROBLEM_TYPES: Final = (
    None,
    "regression",
    "single_label_classification",
    "multi_label_classification",
)


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """What an ALBERT is made of; the names and defaults are Hugging Face's (xxlarge).

    Attributes:
        vocab_size: V, rows of the word table.
        embedding_size: E, width of the embedding tables.
        hidden_size: H, a multiple of `num_attention_heads`.
        num_hidden_layers: L, how many times a group of blocks is applied.
        num_hidden_groups: G ≤ L, how many groups have weights of their own.
        inner_group_num: blocks in a group, applied in turn.
        num_attention_heads: A.
        intermediate_size: I, width inside the feed-forward network.
        hidden_act: one of `ACTIVATIONS`, in Hugging Face's meaning.
        hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout_prob: in [0, 1).
        max_position_embeddings: longest sequence.
        type_vocab_size: number of segment types.
        initializer_range: standard deviation of the truncated normal that draws new weights.
        layer_norm_eps: 1e-12 in every published model.
        pad_token_id, bos_token_id, eos_token_id: ids of `<pad>`, `[CLS]`, `[SEP]`, or None.
        id2label: label names by class index, or None for two unnamed classes.
        problem_type: "single_label_classification", "multi_label_classification", "regression", or
            None: regression for one label, single-label classification for more.

    Raises:
        ValueError: a value is out of range or contradicts another.
    Source: ALBERT, arXiv 1909.11942, tables 1 and 3.
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 4096
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    bos_token_id: int | None = 2
    eos_token_id: int | None = 3
    id2label: Mapping[int, str] | None = None
    problem_type: str | None = None

    def __post_init__(self) -> None:
        for name in _POSITIVE_INTEGERS:
            _require(name, getattr(self, name), _is_positive_integer, "a positive integer")
        for name in _DROPOUTS:
            _require(name, getattr(self, name), _is_fraction, "a number in [0, 1)")
        for name in ("initializer_range", "layer_norm_eps"):
            _require(name, getattr(self, name), _is_positive_number, "a positive number")
        for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
            _require(name, getattr(self, name), self._is_token_id, "null or an id below vocab_size")
        _require("hidden_act", self.hidden_act, ACTIVATIONS.__contains__, f"one of {ACTIVATIONS}")
        _require(
            "problem_type", self.problem_type, PROBLEM_TYPES.__contains__, f"one of {PROBLEM_TYPES}"
        )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "hidden_size must be a multiple of num_attention_heads. "
                f"Received hidden_size={self.hidden_size}, "
                f"num_attention_heads={self.num_attention_heads}."
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise ValueError(
                "num_hidden_groups must not exceed num_hidden_layers: every group needs a layer. "
                f"Received num_hidden_groups={self.num_hidden_groups}, "
                f"num_hidden_layers={self.num_hidden_layers}."
            )
        if self.id2label is not None:
            object.__setattr__(self, "id2label", _checked_labels(self.id2label))

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def _is_token_id(self, value: Any) -> bool:
        return value is None or (_is_integer(value) and 0 <= value < self.vocab_size)

    @property
    def num_labels(self) -> int:
        """Number of classes (1 for regression); two where none is named, as in transformers."""
        return 2 if self.id2label is None else len(self.id2label)

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each class in order; "LABEL_0", "LABEL_1" where none is named."""
        return tuple((self.id2label or unnamed_labels(self.num_labels)).values())

    @classmethod
    def from_size(cls, name: str, **overrides: Any) -> "AlbertConfig":
        """The configuration of a named size; "base" is short for "base-v2".

        Args:
            name: a key of `SIZES`.
            **overrides: fields to set otherwise.
        """
        if name not in SIZES:
            raise UserError(f"The size must be one of {', '.join(SIZES)}. Received: {name!r}.")
        return cls(**{**SIZES[name], **overrides})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "AlbertConfig":
        """Reads the content of Hugging Face's `config.json` or Google's `albert_config.json`.

        Which of the two it is decides what `hidden_act` "gelu" means (erf or tanh); a file without
        any key that only Hugging Face writes is Google's.

        Raises:
            UserError: an unknown key (the nearest known one is named), another model family, a
                value that no ALBERT implements, or a value out of range.
        """
        values = dict(values)
        check_keys(values, _FIELD_NAMES)
        fields = {key: value for key, value in values.items() if key in _FIELD_NAMES}
        if is_googles(values) and fields.get("hidden_act") == "gelu":
            fields["hidden_act"] = "gelu_new"
        for key in _DROPOUTS:
            if fields.get(key, 0) is None:  # older transformers write null for "as published"
                del fields[key]
        try:
            return cls(**{**fields, "id2label": _read_labels(values)})
        except ValueError as error:
            raise UserError(f"The configuration is not valid. {error}") from error

    @classmethod
    def from_json_file(cls, path: str | os.PathLike[str]) -> "AlbertConfig":
        """Reads a JSON file of either origin; see `from_dict`.

        Raises:
            UserError: the file isn't a JSON object, or doesn't describe an ALBERT.
            FileNotFoundError: there is no such file.
        """
        with open(path, encoding="utf-8") as file:
            try:
                values = json.load(file)
            except ValueError as error:
                raise UserError(
                    f"A configuration must be JSON. Received {path}: {error}."
                ) from error
        if not isinstance(values, dict):
            raise UserError(
                f"A configuration must be a JSON object. Received {path}: {type(values).__name__}."
            )
        try:
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """The content of Hugging Face's `config.json`; `from_dict` gives an equal one back."""
        values = dataclasses.asdict(self)
        labels = values.pop("id2label")
        if labels is not None:
            values["id2label"] = {str(index): label for index, label in labels.items()}
            values["label2id"] = {label: index for index, label in labels.items()}
        if values["problem_type"] is None:
            del values["problem_type"]
        return {**FIXED, **values}


_FIELD_NAMES: Final = frozenset(field.name for field in dataclasses.fields(AlbertConfig))
_POSITIVE_INTEGERS: Final = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_hidden_groups",
    "inner_group_num",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
_DROPOUTS: Final = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout_prob",
)


def _require(name: str, value: Any, holds: Any, rule: str) -> None:
    if not holds(value):
        raise ValueError(f"{name} must be {rule}. Received: {name}={value!r}.")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive_integer(value: Any) -> bool:
    return _is_integer(value) and value > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_integer(value)


def _is_fraction(value: Any) -> bool:
    return _is_number(value) and 0 <= value < 1


def _is_positive_number(value: Any) -> bool:
    return _is_number(value) and 0 < value < float("inf")


def _checked_labels(labels: Mapping[int, str]) -> dict[int, str]:
    ordered = {index: labels[index] for index in sorted(labels)}
    if not ordered or list(ordered) != list(range(len(ordered))):
        raise ValueError(
            f"id2label must name the classes 0, 1, 2, … without a gap. Received: {dict(labels)!r}."
        )
    if len(set(ordered.values())) < len(ordered):
        raise ValueError(f"id2label must not name two classes alike. Received: {dict(labels)!r}.")
    return ordered


def _read_labels(values: Mapping[str, Any]) -> dict[int, str] | None:
    """Labels from `id2label`, or as many unnamed ones as `num_labels` asks for."""
    labels, count = values.get("id2label"), values.get("num_labels")
    if isinstance(labels, Mapping) and all(str(index).isdigit() for index in labels):
        return {int(index): label for index, label in labels.items()}
    if labels is not None:
        raise ValueError(f"id2label must map class numbers to names. Received: {labels!r}.")
    if count is None:
        return None
    _require("num_labels", count, _is_positive_integer, "a positive integer")
    return unnamed_labels(count)


def unnamed_labels(count: int) -> dict[int, str]:
    """`{0: "LABEL_0", …}`, the names that transformers gives classes without names."""
    return {index: f"LABEL_{index}" for index in range(count)}
