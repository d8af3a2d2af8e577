"""The ALBERT configuration, which is checked and immutable, and the published sizes."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Final, TypeVar

from albert_tf.config_files import FIXED, FOREIGN, arguments_of, without_bookkeeping
from albert_tf.errors import UserError, short_repr
from albert_tf.files import as_json, read_json, user_path, write_json
from albert_tf.labels import UNNAMED, merge_labels, sort_labels
from albert_tf.options import POSITIVE, RATE, Range, check_number, without_foreign, without_methods

Config = TypeVar("Config", bound=type)

# Hugging Face's names: "gelu" is x·Φ(x), computed with erf; "gelu_new" is its tanh approximation.
ACTIVATIONS: Final = ("gelu", "gelu_new", "relu", "silu", "swish", "tanh")
SHARING: Final = ("all", "attention", "ffn", "none")
_ACTIVATION_ALIASES: Final = {  # transformers' other names for these functions
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_python": "gelu",
    "gelu_python_tanh": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
}
_CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    "hidden_act": (*ACTIVATIONS, *_ACTIVATION_ALIASES),
    "position_embedding_type": ("absolute",),
    "share": SHARING,
    "answerability": (True, False),
    "problem_type": (
        None,
        "regression",
        "single_label_classification",
        "multi_label_classification",
    ),
}
_LAYERS: Final = Range(1, 1024)  # The deepest published model, DeepNet, has 1,000.
_WIDTH: Final = Range(1, 65_536)  # Three times the width of the largest published models.
_SCALE: Final = Range(above=0, maximum=1)  # Larger values are never useful.


def _size(hidden: int, layers: int, heads: int, dropout: float, **more: Any) -> dict[str, Any]:
    """Returns the fields of a published size; the feed-forward width is 4·H (table 1)."""
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        **more,
    }


_PUBLISHED: Final[Mapping[str, Mapping[str, Any]]] = {
    "base-v1": _size(768, 12, 12, 0.1),
    "large-v1": _size(1024, 24, 16, 0.1),
    "xlarge-v1": _size(2048, 24, 16, 0.1),
    "xxlarge-v1": _size(4096, 12, 64, 0.0),
    "base-v2": _size(768, 12, 12, 0.0),
    "large-v2": _size(1024, 24, 16, 0.0),
    "xlarge-v2": _size(2048, 24, 16, 0.0),
    "xxlarge-v2": _size(4096, 12, 64, 0.0),
}
# Source: the google-research/albert README for both releases; this project added "mini" and "tiny".
SIZES: Final[Mapping[str, Mapping[str, Any]]] = {
    **_PUBLISHED,
    **{name.removesuffix("-v2"): size for name, size in _PUBLISHED.items() if name.endswith("-v2")},
    "mini": _size(256, 4, 4, 0.1),
    "tiny": _size(
        32,
        3,
        4,
        0.0,
        vocab_size=1000,
        embedding_size=16,
        intermediate_size=64,
        max_position_embeddings=128,
    ),
}

_SAVING: Final = {"push_to_hub": (False, "Call model.push_to_hub(repo_id).")}
# Fields that are written only if they are set, because transformers lacks or infers them.
_OMITTED: Final = {
    "problem_type": None,
    "share": "all",
    "answerability": False,
    "thresholds": None,
    "largest_score": None,
}


def _in_range(default: float, allowed: Range) -> Any:
    """Declares a numeric field with a range.

    Without limits, a file of a few bytes could describe a model that no machine can allocate.
    """
    return dataclasses.field(default=default, metadata={"range": allowed})


def _accept_foreign_arguments(cls: Config) -> Config:
    """Makes the constructor accept transformers arguments, and makes fields read-only."""
    construct = cls.__init__  # type: ignore[misc]

    @functools.wraps(construct)
    def init(self: Any, *args: Any, **arguments: Any) -> None:
        fields = without_bookkeeping(arguments, _FIELDS)
        construct(self, *args, **merge_labels(fields, len(UNNAMED)))

    def reject(self: Any, name: str, value: Any) -> None:
        without_foreign({name: value}, FOREIGN)
        raise dataclasses.FrozenInstanceError(
            f"AlbertConfig is immutable. Received: {name}={short_repr(value)}. Pass the value to "
            "from_pretrained; to change label names, problem_type, or thresholds later, set "
            "model.config = model.config.replace(id2label=…)."
        )

    cls.__init__, cls.__setattr__ = init, reject  # type: ignore[misc, assignment]
    return cls


@without_methods(
    {
        "update": "AlbertConfig is immutable. Write config = config.replace(field=value).",
        "update_from_string": "Write config = config.replace(field=value).",
        "get_config_dict": "Write AlbertConfig.from_pretrained(name).to_dict().",
        "push_to_hub": "Call model.push_to_hub(repo_id).",
        "register_for_auto_class": "Import the class from its own module.",
    }
)
@_accept_foreign_arguments
@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """Stores the sizes and settings of an ALBERT model.

    Names and defaults are the same as in Hugging Face transformers, so the default size is
    xxlarge. The constructor also accepts `num_labels` and `label2id`. It ignores transformers
    arguments that have no effect on ALBERT, such as `use_cache`.

    Attributes:
        vocab_size: V, number of rows of the word embedding matrix.
        embedding_size: E, width of the embedding matrices.
        hidden_size: H, a multiple of `num_attention_heads`.
        num_hidden_layers: L, number of times that a group is applied.
        num_hidden_groups: G ≤ L, number of groups. Groups don't share weights with each other.
        share: weights that the layers of a group share (table 4): "all", "attention", "ffn", or
            "none".
        num_attention_heads: A, number of attention heads in a layer.
        intermediate_size: I, inner width of the feed-forward network.
        inner_group_num: number of blocks in a group, applied one after the other.
        hidden_act: one of `ACTIVATIONS`, as defined by Hugging Face. Other names for the same
            functions, such as "gelu_pytorch_tanh", are converted.
        hidden_dropout_prob, attention_probs_dropout_prob: dropout rates in [0, 1).
        classifier_dropout_prob: dropout rate in [0, 1).
        max_position_embeddings: maximum sequence length.
        type_vocab_size: number of token types (segments).
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: layer-norm epsilon, 1e-12 in every published model.
        position_embedding_type: "absolute", the only supported type.
        pad_token_id, bos_token_id, eos_token_id: ids of `<pad>`, `[CLS]`, `[SEP]`, or None.
        id2label: label names by class id. None means two unnamed classes.
        problem_type: "single_label_classification", "multi_label_classification", "regression", or
            None. None means regression if there is one label, and single-label classification
            otherwise.
        answerability: whether question answering uses the original SQuAD 2.0 head, which also
            predicts whether the question is answerable.
        thresholds: decision thresholds tuned on the dev set. For multi-label classification, one
            probability per label (default: 0.5); for question answering, the null-score difference
            above which the question has no answer (default: 0).
        largest_score: for sentence similarity trained on scores, the largest score in the training
            data, which corresponds to a cosine of 1; None if the model wasn't trained on scores.

    Raises:
        ValueError: a value is out of range or contradicts another.
    Source: ALBERT, arXiv 1909.11942, tables 1, 3 and 4.

    Example:
        >>> from albert_tf import AlbertConfig
        >>> config = AlbertConfig.from_size("base", num_hidden_layers=6)
        >>> config.hidden_size, config.num_hidden_layers
        (768, 6)
    """

    vocab_size: int = _in_range(30000, Range(1, 10_000_000))  # XLM-V has the largest, 1 million.
    embedding_size: int = _in_range(128, _WIDTH)
    hidden_size: int = _in_range(4096, _WIDTH)
    num_hidden_layers: int = _in_range(12, _LAYERS)
    num_hidden_groups: int = _in_range(1, _LAYERS)
    num_attention_heads: int = _in_range(64, _WIDTH)  # A divisor of H.
    intermediate_size: int = _in_range(16384, Range(1, 262_144))  # 4·H in published models.
    inner_group_num: int = _in_range(1, _LAYERS)
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = _in_range(0.0, RATE)
    attention_probs_dropout_prob: float = _in_range(0.0, RATE)
    max_position_embeddings: int = _in_range(512, Range(1, 2**20))  # Scores would take terabytes.
    type_vocab_size: int = _in_range(2, Range(1, 65_536))  # TAPAS uses 256, for table columns.
    initializer_range: float = _in_range(0.02, _SCALE)
    layer_norm_eps: float = _in_range(1e-12, _SCALE)
    classifier_dropout_prob: float = _in_range(0.1, RATE)
    position_embedding_type: str = "absolute"
    pad_token_id: int | None = 0
    bos_token_id: int | None = 2
    eos_token_id: int | None = 3
    id2label: Mapping[int, str] = None  # type: ignore[assignment]
    problem_type: str | None = None
    share: str = "all"
    answerability: bool = False
    thresholds: tuple[float, ...] | None = None
    largest_score: float | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.metadata:
                kind = int if field.type is int else (int, float)
                check_number(field.name, getattr(self, field.name), field.metadata["range"], kind)
        for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
            value = getattr(self, name)
            if value is not None and not (type(value) is int and 0 <= value < self.vocab_size):
                raise ValueError(
                    f"{name} must be null or an id below vocab_size. "
                    f"Received: {name}={short_repr(value)}."
                )
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise ValueError(
                    f"{name} must be one of {choices}. Received: {name}={short_repr(value)}."
                )
        activation = _ACTIVATION_ALIASES.get(self.hidden_act, self.hidden_act)
        object.__setattr__(self, "hidden_act", activation)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "hidden_size must be a multiple of num_attention_heads. "
                f"Received: hidden_size={self.hidden_size}, "
                f"num_attention_heads={self.num_attention_heads}."
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise ValueError(
                "num_hidden_groups must not exceed num_hidden_layers. "
                f"Received: num_hidden_groups={self.num_hidden_groups}, "
                f"num_hidden_layers={self.num_hidden_layers}."
            )
        blocks = self.num_hidden_layers * self.inner_group_num
        check_number("num_hidden_layers * inner_group_num", blocks, _LAYERS)
        if (thresholds := self.thresholds) is not None:
            if not isinstance(thresholds, list | tuple):
                raise ValueError(
                    f"thresholds must be a list of numbers. Received: {short_repr(thresholds)}."
                )
            for threshold in thresholds:
                check_number("thresholds", threshold, Range(), Real)
            object.__setattr__(self, "thresholds", tuple(map(float, thresholds)))
        if self.largest_score is not None:
            check_number("largest_score", self.largest_score, POSITIVE, Real)
        labels = dict(UNNAMED) if self.id2label is None else sort_labels(self.id2label)
        object.__setattr__(self, "id2label", labels)

    def __getattr__(self, name: str) -> Any:
        """Returns a constant of transformers configurations, such as `model_type`."""
        if name in FIXED:
            return FIXED[name]
        if name in FOREIGN:
            return FOREIGN[name][0]
        raise AttributeError(f"AlbertConfig has no field {name!r}.")

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    @property
    def num_labels(self) -> int:
        """Number of classes (1 for regression)."""
        return len(self.id2label)

    @property
    def label2id(self) -> dict[str, int]:
        """Class ids by label name."""
        return {name: index for index, name in self.id2label.items()}

    def at_depth(self, num_hidden_layers: int) -> "AlbertConfig":
        """Returns the configuration with a different number of layers.

        Fewer layers truncate the model. More layers require a single group of shared layers.

        Raises:
            UserError: no configuration can describe the resulting model.
        """
        schedule = group_schedule(self.num_hidden_layers, self.stored_groups)
        if self.stored_groups == 1:
            schedule = [0] * num_hidden_layers
        prefix = schedule[:num_hidden_layers]
        groups = prefix[-1] + 1 if prefix else 0
        if (
            self.share not in ("all", "none")
            or len(prefix) != num_hidden_layers
            or group_schedule(num_hidden_layers, groups) != prefix
        ):
            layers = f"{self.num_hidden_layers} layers in {self.stored_groups} groups"
            raise UserError(
                f"A model with {layers} and share={self.share!r} can't have num_hidden_layers="
                f"{num_hidden_layers}. Choose a smaller multiple of the group size; only a model "
                "with a single group of shared layers supports every depth."
            )
        changed = {"num_hidden_groups": groups} if self.share == "all" else {}
        return self.replace(num_hidden_layers=num_hidden_layers, **changed)

    @property
    def stored_groups(self) -> int:
        """Number of groups in a checkpoint: G if the layers share all weights, L otherwise."""
        return self.num_hidden_groups if self.share == "all" else self.num_hidden_layers

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names in order. Unnamed classes are called "LABEL_0", "LABEL_1", …."""
        return tuple(self.id2label.values())

    @property
    def label_thresholds(self) -> tuple[float, ...]:
        """Probability threshold of each label for multi-label classification, 0.5 by default."""
        thresholds = self.thresholds or ()
        return thresholds if len(thresholds) == self.num_labels else (0.5,) * self.num_labels

    @classmethod
    def from_size(cls, name: str, **overrides: Any) -> "AlbertConfig":
        """Returns the configuration of a named size.

        Args:
            name: a key of `SIZES`. "base" is short for "base-v2".
            **overrides: field values that override those of the size.
        """
        if name not in SIZES:
            raise UserError(f"The size must be one of {', '.join(SIZES)}. Received: {name!r}.")
        return cls(**{**SIZES[name], **overrides})

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any], **changes: Any) -> "AlbertConfig":
        """Reads the content of Hugging Face's `config.json` or Google's `albert_config.json`.

        A BERT configuration is converted to the equivalent ALBERT with E = H and one group per
        layer.

        `hidden_act="gelu"` means the erf form in Hugging Face's files and the tanh form in
        Google's. A file is treated as Google's unless it has a key that only Hugging Face writes.

        Args:
            config_dict: the content of a file. Unknown keys are ignored with a warning.
            **changes: values that override fields, as in `replace`.
        Raises:
            UserError: a key is misspelled, the file describes a different model family, or a value
                is out of range or unsupported.
        """
        arguments = arguments_of(config_dict, _FIELDS)
        try:
            config = cls(**arguments)
        except ValueError as error:
            raise UserError(f"The configuration is invalid: {error}") from error
        return config.replace(**changes) if changes else config

    @classmethod
    def from_json_file(cls, json_file: str | os.PathLike[str]) -> "AlbertConfig":
        """Reads a configuration from a JSON file; see `from_dict`.

        Raises:
            UserError: the file isn't a JSON object or doesn't describe an ALBERT model.
            FileNotFoundError: the file doesn't exist.
        """
        values = read_json(user_path(json_file))
        try:
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{json_file}: {error}") from error

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], **options: Any
    ) -> "AlbertConfig":
        """Returns the configuration of a checkpoint in any format.

        Args:
            pretrained_model_name_or_path: a directory or a Hub model ID, as for models.
            **options: Hub options (`revision`, `token`, `cache_dir`, …). All other options
                override fields; `num_labels` and `label2id` override the labels.
        Raises:
            UserError: the checkpoint doesn't exist or isn't an ALBERT model.
        """
        # Imported here, because `checkpoints` imports this module (see tests/test_imports.py).
        from albert_tf.checkpoints import finder

        hub_options, fields = finder.split_hub_options(options)
        return finder.read_config(pretrained_model_name_or_path, **hub_options).replace(**fields)

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], push_to_hub: bool = False
    ) -> None:
        """Writes a `config.json` that transformers can read.

        If the folder already contains an ALBERT configuration, the new file keeps its
        "architectures", the name of the model class.

        Raises:
            UserError: `push_to_hub` is True. Push the model instead.
        """
        without_foreign({"push_to_hub": push_to_hub}, _SAVING)
        path = user_path(save_directory) / "config.json"
        values = self.to_dict()
        old = read_json(path) if path.is_file() else {}
        if old.get("model_type") == self.model_type and "architectures" in old:
            values["architectures"] = old["architectures"]
        write_json(path, values, sort_keys=True, ensure_ascii=False)

    def replace(self, **changes: Any) -> "AlbertConfig":
        """Returns a copy with some values replaced.

        Args:
            **changes: new field values, or `num_labels` and `label2id`, as in transformers.
        Raises:
            TypeError: a field doesn't exist.
            ValueError: a value is out of range or contradicts another.
        """
        changes = merge_labels(without_bookkeeping(changes, _FIELDS), self.num_labels)
        if unknown := sorted(changes.keys() - _FIELDS):
            raise TypeError(
                f"Unknown option {', '.join(unknown)}: it is neither an option of from_pretrained "
                "nor a field of AlbertConfig."
            )
        return dataclasses.replace(self, **changes)

    def to_diff_dict(self) -> dict[str, Any]:
        """Returns the model type and the items of `to_dict` that differ from the defaults."""
        defaults = AlbertConfig().to_dict()
        differs = {k: v for k, v in self.to_dict().items() if k not in defaults or defaults[k] != v}
        return {"model_type": self.model_type, **differs}

    def to_json_string(self, use_diff: bool = True) -> str:
        """Returns the JSON text of `to_diff_dict`, or of `to_dict` if `use_diff` is False."""
        values = self.to_diff_dict() if use_diff else self.to_dict()
        return as_json(values, sort_keys=True, ensure_ascii=False)

    def to_json_file(self, json_file_path: str | os.PathLike[str], use_diff: bool = True) -> None:
        """Writes the text of `to_json_string` to a file that `from_json_file` can read."""
        values = self.to_diff_dict() if use_diff else self.to_dict()
        write_json(json_file_path, values, sort_keys=True, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of Hugging Face's `config.json`, which `from_dict` can read."""
        values = dataclasses.asdict(self)
        labels = values.pop("id2label")
        if labels != UNNAMED:
            values["id2label"] = {str(index): label for index, label in labels.items()}
            values["label2id"] = self.label2id
        if self.thresholds is not None:
            values["thresholds"] = list(self.thresholds)
        for key, unset in _OMITTED.items():
            if values[key] == unset:
                del values[key]
        if self.share != "all":
            # transformers only implements "all", so each layer is written as a group.
            values |= {
                "num_hidden_groups": self.stored_groups,
                "shared_groups": self.num_hidden_groups,
            }
        return {**FIXED, **values}


def is_size(model: str) -> bool:
    """Returns whether `model` is a size or a configuration file, rather than pretrained weights."""
    return model in SIZES or (model.endswith(".json") and not Path(model).is_dir())


def group_schedule(num_hidden_layers: int, num_hidden_groups: int) -> list[int]:
    """Returns the index of each layer's group: `[0, 0, 1, 1]` for 4 layers in 2 groups.

    The formula and its rounding are the same as in transformers, which defines the format on disk.
    The original code's `int(i / L * G)` returns the same list for up to 17 layers and for every
    published model.
    """
    return [
        int(layer / (num_hidden_layers / num_hidden_groups)) for layer in range(num_hidden_layers)
    ]


_FIELDS: Final = frozenset(field.name for field in dataclasses.fields(AlbertConfig))


def parameters(config: AlbertConfig) -> int:
    """Returns the number of parameters of the encoder and the pooler, as the paper counts them."""
    e, h, i = config.embedding_size, config.hidden_size, config.intermediate_size
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    embedding = rows * e + 2 * e + e * h + h
    copies = {True: config.num_hidden_groups, False: config.num_hidden_layers}
    attention = copies[config.share in ("all", "attention")] * (4 * (h * h + h) + 2 * h)
    ffn = copies[config.share in ("all", "ffn")] * (2 * h * i + i + 3 * h)
    return embedding + config.inner_group_num * (attention + ffn) + h * h + h


def applied_parameters(config: AlbertConfig) -> int:
    """Returns V·E + E·H + L·(4·H² + 2·H·I) + H², which measures the cost of a forward pass.

    Each kernel counts once per application, and inner blocks count as layers. Biases, layer norms,
    and the small embedding matrices don't count.
    """
    e, h = config.embedding_size, config.hidden_size
    blocks = config.num_hidden_layers * config.inner_group_num
    block = 4 * h * h + 2 * h * config.intermediate_size
    return config.vocab_size * e + e * h + blocks * block + h * h
