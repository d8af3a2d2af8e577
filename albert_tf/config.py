"""ALBERT's configuration: frozen; reads Google's and Hugging Face's JSON strictly."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from albert_tf.config_checks import (
    FIXED,
    check_keys,
    checked_labels,
    checked_numbers,
    is_fraction,
    is_googles,
    is_in_unit,
    is_integer,
    merged_labels,
    read_labels,
    require,
    require_count,
    unnamed_labels,
)
from albert_tf.errors import UserError, short_repr
from albert_tf.files import read_json, write_json
from albert_tf.sizes import SIZES

# Hugging Face's names: "gelu" is x·Φ(x) through erf, "gelu_new" its tanh approximation.
ACTIVATIONS: Final = ("gelu", "gelu_new", "relu", "silu", "swish", "tanh")
# transformers' default, which it doesn't write either.
_UNNAMED: Final = unnamed_labels(2)
# Fields that transformers lacks, and a problem type that it finds out: only written if set.
_OMITTED: Final = {
    "problem_type": None,
    "share": "all",
    "answerability": False,
    "thresholds": None,
}
SHARING: Final = ("all", "attention", "ffn", "none")
PROBLEM_TYPES: Final = (
    None,
    "regression",
    "single_label_classification",
    "multi_label_classification",
)
Config = TypeVar("Config", bound=type)


def _count(default: int, limit: int) -> Any:
    """Declares a field that is a positive integer up to a limit.

    Without limits a file of a few bytes could claim a model that no machine allocates.
    """
    return dataclasses.field(default=default, metadata={"limit": limit})


def _as_in_transformers(cls: Config) -> Config:
    """Lets the constructor take `num_labels` and `label2id`; says how to change a field."""
    construct = cls.__init__  # type: ignore[misc]

    @functools.wraps(construct)
    def init(self: Any, *args: Any, **fields: Any) -> None:
        construct(self, *args, **merged_labels(fields, len(_UNNAMED)))

    def refuse(self: Any, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(
            f"A configuration can't be changed. Received: {name}={short_repr(value)}. Give it to "
            f"from_pretrained, or make another one: model.config = config.replace({name}=…)."
        )

    cls.__init__, cls.__setattr__ = init, refuse  # type: ignore[misc, assignment]
    return cls


@_as_in_transformers
@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """The sizes and settings of an ALBERT; names and defaults are Hugging Face's (xxlarge).

    As in transformers, `num_labels` and `label2id` are arguments too.

    Attributes:
        vocab_size: V, rows of the word table.
        embedding_size: E, width of the embedding tables.
        hidden_size: H, a multiple of `num_attention_heads`.
        num_hidden_layers: L, number of times that a group of blocks is applied.
        num_hidden_groups: G ≤ L, number of groups; groups share no weights.
        share: weights that the layers of a group share (table 4): "all", "attention", "ffn" or
            "none".
        inner_group_num: blocks in a group, applied in turn.
        num_attention_heads: A.
        intermediate_size: I, inner width of the feed-forward network.
        hidden_act: one of `ACTIVATIONS`, in Hugging Face's meaning.
        hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout_prob: in [0, 1).
        max_position_embeddings: longest sequence.
        type_vocab_size: number of segment types.
        initializer_range: standard deviation of the truncated normal that draws new weights.
        layer_norm_eps: 1e-12 in every published model.
        pad_token_id, bos_token_id, eos_token_id: ids of `<pad>`, `[CLS]`, `[SEP]`, or None.
        id2label: label names by class index; None means two classes without names.
        problem_type: "single_label_classification", "multi_label_classification", "regression", or
            None: regression for one label, single-label classification for more.
        answerability: whether question answering has the original's head for SQuAD 2.0, which also
            predicts whether there is an answer.
        thresholds: decisions that fine-tuning chose on dev: for several labels the probability
            from which each holds; for question answering the one difference of scores above which
            there is no answer. None means the usual ones.

    Raises:
        ValueError: a value is out of range or contradicts another.
    Source: ALBERT, arXiv 1909.11942, tables 1, 3 and 4.

    Example:
        >>> from albert_tf import AlbertConfig
        >>> config = AlbertConfig.from_size("base", num_hidden_layers=6)
        >>> config.hidden_size, config.num_hidden_layers
        (768, 6)
    """

    vocab_size: int = _count(30000, 10_000_000)  # XLM-V's, the largest published, is a million
    embedding_size: int = _count(128, 65_536)  # as H
    hidden_size: int = _count(4096, 65_536)  # three times that of the largest published models
    num_hidden_layers: int = _count(12, 1024)  # the deepest published, DeepNet, has 1,000
    num_hidden_groups: int = _count(1, 1024)  # as L
    inner_group_num: int = _count(1, 1024)  # as L
    num_attention_heads: int = _count(64, 65_536)  # as H, which it divides
    intermediate_size: int = _count(16384, 262_144)  # four times H, as in every published model
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout_prob: float = 0.1
    max_position_embeddings: int = _count(512, 2**20)  # whose attention scores take terabytes
    type_vocab_size: int = _count(2, 65_536)  # TAPAS, which marks columns with them, has 256
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    bos_token_id: int | None = 2
    eos_token_id: int | None = 3
    id2label: Mapping[int, str] = None  # type: ignore[assignment]
    problem_type: str | None = None
    share: str = "all"
    answerability: bool = False
    thresholds: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            require_count(name, getattr(self, name), limit)
        for name in _DROPOUTS:
            require(name, getattr(self, name), is_fraction, "a number in [0, 1)")
        for name in ("initializer_range", "layer_norm_eps"):  # above 1 nothing but noise is left
            require(name, getattr(self, name), is_in_unit, "a positive number up to 1")
        for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
            require(name, getattr(self, name), self._is_token_id, "null or an id below vocab_size")
        require("hidden_act", self.hidden_act, ACTIVATIONS.__contains__, f"one of {ACTIVATIONS}")
        require("share", self.share, SHARING.__contains__, f"one of {SHARING}")
        require("answerability", self.answerability, (True, False).__contains__, "True or False")
        require(
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
        blocks = self.num_hidden_layers * self.inner_group_num
        require_count("num_hidden_layers * inner_group_num", blocks, _LIMITS["num_hidden_layers"])
        if self.thresholds is not None:
            object.__setattr__(self, "thresholds", checked_numbers("thresholds", self.thresholds))
        labels = _UNNAMED if self.id2label is None else checked_labels(self.id2label)
        object.__setattr__(self, "id2label", dict(labels))

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def _is_token_id(self, value: Any) -> bool:
        return value is None or (is_integer(value) and 0 <= value < self.vocab_size)

    @property
    def num_labels(self) -> int:
        """Number of classes (1 for regression)."""
        return len(self.id2label)

    @property
    def label2id(self) -> dict[str, int]:
        """Class indices by name."""
        return {name: index for index, name in self.id2label.items()}

    @property
    def stored_groups(self) -> int:
        """Number of groups in a checkpoint: G if layers share all weights, else L."""
        return self.num_hidden_groups if self.share == "all" else self.num_hidden_layers

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes in order; "LABEL_0", "LABEL_1", … where they have none."""
        return tuple(self.id2label.values())

    @property
    def label_thresholds(self) -> tuple[float, ...]:
        """Probability from which each of several labels holds: `thresholds`, otherwise 0.5."""
        chosen = self.thresholds or ()
        return chosen if len(chosen) == self.num_labels else (0.5,) * self.num_labels

    @classmethod
    def from_size(cls, name: str, **overrides: Any) -> "AlbertConfig":
        """Returns the configuration of a named size; "base" is short for "base-v2".

        Args:
            name: a key of `SIZES`.
            **overrides: fields with other values.
        """
        if name not in SIZES:
            raise UserError(f"The size must be one of {', '.join(SIZES)}. Received: {name!r}.")
        return cls(**{**SIZES[name], **overrides})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "AlbertConfig":
        """Reads the content of Hugging Face's `config.json` or Google's `albert_config.json`.

        `hidden_act` "gelu" is erf in Hugging Face's file and tanh in Google's. A file without any
        key that only Hugging Face writes is Google's.

        Raises:
            UserError: a misspelt key, another model family, a value that no ALBERT implements, or
                a value out of range. Other unknown keys are warned of.
        """
        values = dict(values)
        check_keys(values, _FIELD_NAMES)
        fields = {key: value for key, value in values.items() if key in _FIELD_NAMES}
        if is_googles(values) and fields.get("hidden_act") == "gelu":
            fields["hidden_act"] = "gelu_new"
        for key in _DROPOUTS:
            if fields.get(key, 0) is None:  # older transformers write null for "as published"
                del fields[key]
        if fields.get("share", "all") != "all":
            fields["num_hidden_groups"] = values.get("shared_groups", 1)
        try:
            return cls(**{**fields, "id2label": read_labels(values)})
        except ValueError as error:
            raise UserError(f"The configuration is not valid. {error}") from error

    @classmethod
    def from_json_file(cls, path: str | os.PathLike[str]) -> "AlbertConfig":
        """Reads a JSON file of either origin; see `from_dict`.

        Raises:
            UserError: the file isn't a JSON object, or doesn't describe an ALBERT.
            FileNotFoundError: there is no such file.
        """
        values = read_json(Path(path))
        try:
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | os.PathLike[str], **options: Any
    ) -> "AlbertConfig":
        """Returns the configuration of a checkpoint of any format.

        Args:
            name_or_path: a directory or a name on the hub, as models take it.
            **options: `revision`, `token`, `cache_dir`, … for the hub; anything else overrides a
                field, and `num_labels` or `label2id` the labels.
        Raises:
            UserError: there is no such checkpoint, or its configuration isn't an ALBERT's.
        """
        from albert_tf.checkpoints import finder  # Imports this module.

        hub_options, fields = finder.split_hub_options(options)
        return finder.read_config(name_or_path, **hub_options).replace(**fields)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes `config.json`, as transformers reads it."""
        path = Path(folder).expanduser() / "config.json"
        write_json(path, self.to_dict(), sort_keys=True, ensure_ascii=False)

    def replace(self, **changes: Any) -> "AlbertConfig":
        """Returns a copy with other values.

        Args:
            **changes: fields, and `num_labels` or `label2id` as transformers has them.
        Raises:
            TypeError: there is no such field.
            ValueError: a value is out of range or contradicts another.
        """
        changes = merged_labels(changes, self.num_labels)
        if unknown := sorted(changes.keys() - _FIELD_NAMES):
            raise TypeError(
                "An option must be one of from_pretrained's, or a field of AlbertConfig. "
                f"Received: {', '.join(unknown)}."
            )
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of Hugging Face's `config.json`; `from_dict` reads it."""
        values = dataclasses.asdict(self)
        labels = values.pop("id2label")
        if labels != _UNNAMED:
            values["id2label"] = {str(index): label for index, label in labels.items()}
            values["label2id"] = self.label2id
        if self.thresholds is not None:
            values["thresholds"] = list(self.thresholds)
        for key, unset in _OMITTED.items():
            if values[key] == unset:
                del values[key]
        if self.share != "all":
            # Lets transformers, which implements "all" alone, find every layer.
            values |= {
                "num_hidden_groups": self.stored_groups,
                "shared_groups": self.num_hidden_groups,
            }
        return {**FIXED, **values}


def group_schedule(num_hidden_layers: int, num_hidden_groups: int) -> list[int]:
    """Returns the group that each layer applies: `[0, 0, 1, 1]` for 4 layers in 2 groups.

    The formula is transformers', rounding included, because the format on disk is theirs. The
    original's `int(i / L * G)` gives the same list up to 17 layers and in every published model.
    """
    return [
        int(layer / (num_hidden_layers / num_hidden_groups)) for layer in range(num_hidden_layers)
    ]


_FIELD_NAMES: Final = frozenset(field.name for field in dataclasses.fields(AlbertConfig))
_LIMITS: Final[dict[str, int]] = {
    field.name: field.metadata["limit"]
    for field in dataclasses.fields(AlbertConfig)
    if "limit" in field.metadata
}
_DROPOUTS: Final = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout_prob",
)
