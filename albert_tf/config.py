"""ALBERT's configuration: frozen; its published sizes; reads Google's and Hugging Face's JSON."""

import dataclasses
import difflib
import functools
import json
import logging
import os
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, TypeVar

from albert_tf.errors import UserError, short_repr
from albert_tf.files import as_json, read_json, user_path, write_json
from albert_tf.options import RATE, Range, without_foreign, without_methods

logger = logging.getLogger(__name__)
Config = TypeVar("Config", bound=type)

# Hugging Face's names: "gelu" is x·Φ(x) through erf, "gelu_new" its tanh approximation.
ACTIVATIONS: Final = ("gelu", "gelu_new", "relu", "silu", "swish", "tanh")
SHARING: Final = ("all", "attention", "ffn", "none")
_CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    "hidden_act": ACTIVATIONS,
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
_LABELS: Final = Range(1, 1_000_000)  # whose names alone take 150 MB
_LAYERS: Final = Range(1, 1024)  # the deepest published, DeepNet, has 1,000
_WIDTH: Final = Range(1, 65_536)  # three times that of the largest published models
_SCALE: Final = Range(above=0, maximum=1)  # above 1 nothing but noise is left


def _size(hidden: int, layers: int, heads: int, dropout: float, **more: Any) -> dict[str, Any]:
    """Returns a published size; the feed-forward width is 4·H (table 1)."""
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
# Source: google-research/albert's README for both releases; "mini" and "tiny" are this project's.
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

# google-research/albert writes these and never reads them; no model has other values.
GOOGLE_CONSTANTS: Final[Mapping[str, Any]] = {
    "down_scale_factor": 1,
    "gap_size": 0,
    "layers_to_keep": [],
    "net_structure_type": 0,
    "num_memory_blocks": 0,
}
# Likewise, in Chinese models, which have them from BERT.
_BERT_CONSTANTS: Final[Mapping[str, Any]] = {
    "directionality": "bidi",
    "ln_type": "postln",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
# A BERT's, where its configuration leaves a field out.
_BERT_DEFAULTS: Final[Mapping[str, Any]] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "bos_token_id": None,
    "eos_token_id": None,
}
# Hugging Face writes these about the run or the library; none changes what an encoder computes.
_HF_BOOKKEEPING: Final = frozenset(
    """_attn_implementation _attn_implementation_autoset _commit_hash _from_auto _name_or_path
    _num_labels add_cross_attention architectures attn_implementation bad_words_ids
    begin_suppress_tokens chunk_size_feed_forward cross_attention_hidden_size
    decoder_start_token_id diversity_penalty do_sample dtype early_stopping
    encoder_no_repeat_ngram_size eos_token_ids exponential_decay_length_penalty finetuning_task
    forced_bos_token_id forced_eos_token_id gradient_checkpointing is_decoder is_encoder_decoder
    language length_penalty max_length min_length name_or_path no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_attentions output_hidden_states output_past output_scores
    prefix pruned_heads remove_invalid_values repetition_penalty return_dict
    return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature
    tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript
    transformers_version typical_p use_bfloat16 use_cache xla_device""".split()  # noqa: SIM905 (a list would take forty lines)
)
# Keys of which ALBERT implements one value; all but the second are no fields.
FIXED: Final[Mapping[str, Any]] = {
    "model_type": "albert",
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}
_IN_CALLS: Final = "Pass it to each call: model(inputs, {}=True)."
_PRUNED: Final = "All layers have all heads: use the checkpoint before pruning."
_ENCODER: Final = "Every token attends to all others, as in every ALBERT."
# Arguments of transformers' constructor that also are attributes: the only value, and the way out.
_BOOKKEEPING_VALUES: Final[Mapping[str, tuple[Any, str]]] = {
    "return_dict": (True, "Call outputs.to_tuple(), or read outputs[0]."),
    "output_attentions": (False, _IN_CALLS.format("output_attentions")),
    "output_hidden_states": (False, _IN_CALLS.format("output_hidden_states")),
    "torchscript": (False, "Export the model with albert_tf.export_saved_model."),
    "is_decoder": (False, _ENCODER),
    "is_encoder_decoder": (False, _ENCODER),
    "add_cross_attention": (False, _ENCODER),
    "pruned_heads": ({}, _PRUNED),
}
_CONSTANTS: Final[Mapping[str, Any]] = {**FIXED, **GOOGLE_CONSTANTS, **_BERT_CONSTANTS}
_SAVING: Final = {"push_to_hub": (False, "Call push_to_hub(repo_id) of the model.")}
# Fields that Google's files have; every other key is written by Hugging Face alone.
GOOGLE_FIELDS: Final = frozenset(
    """attention_probs_dropout_prob embedding_size hidden_act hidden_dropout_prob hidden_size
    initializer_range inner_group_num intermediate_size max_position_embeddings
    num_attention_heads num_hidden_groups num_hidden_layers type_vocab_size
    vocab_size""".split()  # noqa: SIM905
)
# Keys of this project and of transformers besides the fields.
_OTHER_KEYS: Final = frozenset({"shared_groups", "label2id", "num_labels"})
# Fields that transformers lacks, and a problem type that it infers: only written if set.
_OMITTED: Final = {
    "problem_type": None,
    "share": "all",
    "answerability": False,
    "thresholds": None,
}


def _check(name: str, value: Any, allowed: Range, types: Any = int) -> None:
    """Raises ValueError for a value that isn't a number within a range; True is no number."""
    if not isinstance(value, types) or isinstance(value, bool):
        rule = "a whole number" if types in (int, Integral) else "a number"
    elif not allowed.allows(value):
        rule = str(allowed) or "finite"
    else:
        return
    raise ValueError(f"{name} must be {rule}. Received: {name}={short_repr(value)}.")


def unnamed_labels(count: int) -> dict[int, str]:
    """Returns `{0: "LABEL_0", …}`, as transformers names classes without names."""
    _check("num_labels", count, _LABELS)
    return {index: f"LABEL_{index}" for index in range(count)}


_UNNAMED: Final = unnamed_labels(2)  # transformers' default, which it doesn't write either


def _number(default: float, allowed: Range) -> Any:
    """Declares a field that is a number within a range.

    Without limits a file of a few bytes could claim a model that no machine allocates.
    """
    return dataclasses.field(default=default, metadata={"range": allowed})


def _own_fields(arguments: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Returns the fields among a constructor's arguments, with the labels merged.

    Drops transformers' arguments about a run or the library, as `from_dict` does.

    Args:
        arguments: by name.
        count: number of classes; see `_merged_labels`.
    Raises:
        UserError: a value that no ALBERT implements.
    """
    arguments = without_foreign(arguments, _BOOKKEEPING_VALUES)
    _check_constants(arguments)
    dropped = _HF_BOOKKEEPING | _CONSTANTS.keys() - _FIELDS
    own = {name: value for name, value in arguments.items() if name not in dropped}
    return _merged_labels(own, count)


def _as_in_transformers(cls: Config) -> Config:
    """Lets the constructor take transformers' other arguments; says how to change a field."""
    construct = cls.__init__  # type: ignore[misc]

    @functools.wraps(construct)
    def init(self: Any, *args: Any, **arguments: Any) -> None:
        construct(self, *args, **_own_fields(arguments, len(_UNNAMED)))

    def refuse(self: Any, name: str, value: Any) -> None:
        without_foreign({name: value}, _BOOKKEEPING_VALUES)
        raise dataclasses.FrozenInstanceError(
            f"A configuration can't be changed. Received: {name}={short_repr(value)}. Give it to "
            "from_pretrained. Labels' names, problem_type and thresholds may change later: "
            "model.config = model.config.replace(id2label=…)."
        )

    cls.__init__, cls.__setattr__ = init, refuse  # type: ignore[misc, assignment]
    return cls


@without_methods(
    {
        "update": "A configuration can't be changed. Write config = config.replace(field=value).",
        "update_from_string": "Write config = config.replace(field=value).",
        "get_config_dict": "Write AlbertConfig.from_pretrained(name).to_dict().",
        "push_to_hub": "Call push_to_hub(repo_id) of the model.",
        "register_for_auto_class": "Import the class from its own module.",
    }
)
@_as_in_transformers
@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """The sizes and settings of an ALBERT; names and defaults are Hugging Face's (xxlarge).

    As in transformers, `num_labels` and `label2id` are arguments too. Arguments of transformers
    that have no effect on an ALBERT, such as `use_cache`, are accepted and not kept.

    Attributes:
        vocab_size: V, rows of the word table.
        embedding_size: E, width of the embedding tables.
        hidden_size: H, a multiple of `num_attention_heads`.
        num_hidden_layers: L, number of times that a group of blocks is applied.
        num_hidden_groups: G ≤ L, number of groups; groups share no weights.
        share: weights that the layers of a group share (table 4): "all", "attention", "ffn" or
            "none".
        num_attention_heads: A.
        intermediate_size: I, inner width of the feed-forward network.
        inner_group_num: blocks in a group, applied in turn.
        hidden_act: one of `ACTIVATIONS`, in Hugging Face's meaning.
        hidden_dropout_prob, attention_probs_dropout_prob: in [0, 1).
        classifier_dropout_prob: in [0, 1).
        max_position_embeddings: longest sequence.
        type_vocab_size: number of segment types.
        initializer_range: standard deviation of the truncated normal that draws new weights.
        layer_norm_eps: 1e-12 in every published model.
        position_embedding_type: "absolute", the only type.
        pad_token_id, bos_token_id, eos_token_id: ids of `<pad>`, `[CLS]`, `[SEP]`, or None.
        id2label: label names by class index; None means two classes without names.
        problem_type: "single_label_classification", "multi_label_classification", "regression", or
            None: regression for one label, single-label classification for more.
        answerability: whether question answering has the original's head for SQuAD 2.0, which also
            predicts whether there is an answer.
        thresholds: decision thresholds tuned on dev: one probability per label (multi-label), or
            one null-score difference above which there is no answer (question answering). None
            means 0.5, or 0.

    Raises:
        ValueError: a value is out of range or contradicts another.
    Source: ALBERT, arXiv 1909.11942, tables 1, 3 and 4.

    Example:
        >>> from albert_tf import AlbertConfig
        >>> config = AlbertConfig.from_size("base", num_hidden_layers=6)
        >>> config.hidden_size, config.num_hidden_layers
        (768, 6)
    """

    vocab_size: int = _number(30000, Range(1, 10_000_000))  # XLM-V, the largest, has a million
    embedding_size: int = _number(128, _WIDTH)
    hidden_size: int = _number(4096, _WIDTH)
    num_hidden_layers: int = _number(12, _LAYERS)
    num_hidden_groups: int = _number(1, _LAYERS)
    num_attention_heads: int = _number(64, _WIDTH)  # it divides H
    intermediate_size: int = _number(16384, Range(1, 262_144))  # 4·H, as published
    inner_group_num: int = _number(1, _LAYERS)
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = _number(0.0, RATE)
    attention_probs_dropout_prob: float = _number(0.0, RATE)
    max_position_embeddings: int = _number(512, Range(1, 2**20))  # whose scores take terabytes
    type_vocab_size: int = _number(2, Range(1, 65_536))  # TAPAS has 256, for columns
    initializer_range: float = _number(0.02, _SCALE)
    layer_norm_eps: float = _number(1e-12, _SCALE)
    classifier_dropout_prob: float = _number(0.1, RATE)
    position_embedding_type: str = "absolute"
    pad_token_id: int | None = 0
    bos_token_id: int | None = 2
    eos_token_id: int | None = 3
    id2label: Mapping[int, str] = None  # type: ignore[assignment]
    problem_type: str | None = None
    share: str = "all"
    answerability: bool = False
    thresholds: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.metadata:
                types = int if field.type is int else (int, float)
                _check(field.name, getattr(self, field.name), field.metadata["range"], types)
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
        _check("num_hidden_layers * inner_group_num", blocks, _LAYERS)
        if (thresholds := self.thresholds) is not None:
            if not isinstance(thresholds, list | tuple):
                raise ValueError(
                    f"thresholds must be a list of numbers. Received: {short_repr(thresholds)}."
                )
            for threshold in thresholds:
                _check("thresholds", threshold, Range(), Real)
            object.__setattr__(self, "thresholds", tuple(map(float, thresholds)))
        labels = _UNNAMED if self.id2label is None else _checked_labels(self.id2label)
        object.__setattr__(self, "id2label", dict(labels))

    def __getattr__(self, name: str) -> Any:
        """Returns a constant of transformers' configurations, such as `model_type`."""
        if name in FIXED:
            return FIXED[name]
        if name in _BOOKKEEPING_VALUES:
            return _BOOKKEEPING_VALUES[name][0]
        raise AttributeError(f"AlbertConfig has no field {name!r}.")

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    @property
    def num_labels(self) -> int:
        """Number of classes (1 for regression)."""
        return len(self.id2label)

    @property
    def label2id(self) -> dict[str, int]:
        """Class indices by name."""
        return {name: index for index, name in self.id2label.items()}

    def at_depth(self, num_hidden_layers: int) -> "AlbertConfig":
        """Returns the configuration of the same model, truncated to `num_hidden_layers` layers.

        A single group of shared layers may also be applied more often.

        Raises:
            UserError: no configuration describes that model.
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
                f"A model of {layers}, share={self.share!r}, has no depth {num_hidden_layers}: its "
                "layers can't be divided into equal groups. Received: that depth. Choose one that "
                "ends with a group; a model with one group of shared layers has any."
            )
        changed = {"num_hidden_groups": groups} if self.share == "all" else {}
        return self.replace(num_hidden_layers=num_hidden_layers, **changed)

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
        """Probability threshold of each label (multi-label): `thresholds`, otherwise 0.5."""
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
    def from_dict(cls, config_dict: Mapping[str, Any], **changes: Any) -> "AlbertConfig":
        """Reads the content of Hugging Face's `config.json` or Google's `albert_config.json`.

        A BERT's becomes that of the ALBERT that computes the same: E = H, a group for each layer.
        `changes` override fields, as in `replace`.

        `hidden_act` "gelu" is erf in Hugging Face's file and tanh in Google's. A file without any
        key that only Hugging Face writes is Google's.

        Raises:
            UserError: a misspelt key, another model family, a value that no ALBERT implements, or
                a value out of range. Warns of other unknown keys.
        """
        values = dict(config_dict)
        if values.get("model_type") == "bert":
            values = _from_bert(values)
        _check_keys(values)
        fields = {key: value for key, value in values.items() if key in _FIELDS}
        google_keys = GOOGLE_FIELDS | GOOGLE_CONSTANTS.keys() | _BERT_CONSTANTS.keys()
        if values.keys() <= google_keys and fields.get("hidden_act") == "gelu":
            fields["hidden_act"] = "gelu_new"
        for key in (
            "classifier_dropout_prob",
            "hidden_dropout_prob",
            "attention_probs_dropout_prob",
        ):
            if fields.get(key, 0) is None:  # older transformers write null for "as published"
                del fields[key]
        if fields.get("share", "all") != "all":
            fields["num_hidden_groups"] = values.get("shared_groups", 1)
        try:
            config = cls(**{**fields, "id2label": _labels_of_file(values)})
        except ValueError as error:
            raise UserError(f"The configuration is not valid. {error}") from error
        return config.replace(**changes) if changes else config

    @classmethod
    def from_json_file(cls, json_file: str | os.PathLike[str]) -> "AlbertConfig":
        """Reads a JSON file of either origin; see `from_dict`.

        Raises:
            UserError: the file isn't a JSON object, or doesn't describe an ALBERT.
            FileNotFoundError: there is no such file.
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
        """Returns the configuration of a checkpoint of any format.

        Args:
            pretrained_model_name_or_path: a directory or a name on the hub, as models take it.
            **options: `revision`, `token`, `cache_dir`, … for the hub; anything else overrides a
                field, and `num_labels` or `label2id` the labels.
        Raises:
            UserError: there is no such checkpoint, or its configuration isn't an ALBERT's.
        """
        from albert_tf.checkpoints import finder  # Imports this module.

        hub_options, fields = finder.split_hub_options(options)
        return finder.read_config(pretrained_model_name_or_path, **hub_options).replace(**fields)

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], push_to_hub: bool = False
    ) -> None:
        """Writes `config.json`, as transformers reads it.

        In the folder of an ALBERT the new file keeps "architectures", the name of the model's
        class.

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
        """Returns a copy with other values.

        Args:
            **changes: fields, and `num_labels` or `label2id` as transformers has them.
        Raises:
            TypeError: there is no such field.
            ValueError: a value is out of range or contradicts another.
        """
        changes = _own_fields(changes, self.num_labels)
        if unknown := sorted(changes.keys() - _FIELDS):
            raise TypeError(
                f"Unknown option {', '.join(unknown)}: neither an option of from_pretrained nor a "
                "field of AlbertConfig."
            )
        return dataclasses.replace(self, **changes)

    def to_diff_dict(self) -> dict[str, Any]:
        """Returns the items of `to_dict` that differ from the defaults, and the model type."""
        defaults = AlbertConfig().to_dict()
        differs = {k: v for k, v in self.to_dict().items() if k not in defaults or defaults[k] != v}
        return {"model_type": self.model_type, **differs}

    def to_json_string(self, use_diff: bool = True) -> str:
        """Returns the JSON text of `to_diff_dict`, or of `to_dict` if `use_diff` is False."""
        values = self.to_diff_dict() if use_diff else self.to_dict()
        return as_json(values, sort_keys=True, ensure_ascii=False)

    def to_json_file(self, json_file_path: str | os.PathLike[str], use_diff: bool = True) -> None:
        """Writes the text of `to_json_string` to a file, which `from_json_file` reads."""
        values = self.to_diff_dict() if use_diff else self.to_dict()
        write_json(json_file_path, values, sort_keys=True, ensure_ascii=False)

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


def is_size(model: str) -> bool:
    """Whether `model` names random weights: a size or a configuration file."""
    return model in SIZES or (model.endswith(".json") and not Path(model).is_dir())


def group_schedule(num_hidden_layers: int, num_hidden_groups: int) -> list[int]:
    """Returns the group that each layer applies: `[0, 0, 1, 1]` for 4 layers in 2 groups.

    The formula is transformers', rounding included, because the format on disk is theirs. The
    original's `int(i / L * G)` gives the same list up to 17 layers and in every published model.
    """
    return [
        int(layer / (num_hidden_layers / num_hidden_groups)) for layer in range(num_hidden_layers)
    ]


_FIELDS: Final = frozenset(field.name for field in dataclasses.fields(AlbertConfig))


def _from_bert(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration of the ALBERT that computes what a BERT's does."""
    for key in ("is_decoder", "add_cross_attention"):
        if values.get(key):
            raise UserError(
                f"{key} must be false in a BERT's configuration: each token attends to all others "
                f"here. Received: {short_repr(values[key])}."
            )
    if values.get("type_vocab_size") == 1 and values.get("pad_token_id"):
        raise UserError(
            "The configuration must be a BERT's. Received: type_vocab_size=1 with pad_token_id="
            f"{short_repr(values['pad_token_id'])}, as RoBERTa has them, whose positions begin "
            "after pad_token_id. Choose a BERT, or an ALBERT."
        )
    fields = {**_BERT_DEFAULTS, **values, "model_type": "albert"}
    dropout = fields.pop("classifier_dropout", None)
    return {
        **fields,
        "classifier_dropout_prob": fields["hidden_dropout_prob"] if dropout is None else dropout,
        "embedding_size": fields["hidden_size"],
        "num_hidden_groups": fields["num_hidden_layers"],
    }


def _check_keys(values: Mapping[str, Any]) -> None:
    """Warns of unknown keys, which another library wrote; refuses those that change a model.

    Raises:
        UserError: another value of a constant, pruned heads, or a misspelt field.
    """
    _check_constants(values)
    if values.get("pruned_heads") not in (None, {}, []):
        raise UserError(
            f"pruned_heads must be empty. Received: {short_repr(values['pruned_heads'])}. {_PRUNED}"
        )
    known = _FIELDS | _CONSTANTS.keys() | _HF_BOOKKEEPING | _OTHER_KEYS
    unknown = sorted(values.keys() - known)
    for key in unknown:
        if nearest := difflib.get_close_matches(key, _FIELDS - values.keys(), n=1, cutoff=0.85):
            raise UserError(
                f"Unknown key {short_repr(key)} in the configuration. Did you mean {nearest[0]!r}?"
            )
    if unknown:
        logger.warning(
            "Unknown keys in the configuration are ignored: %s.",
            ", ".join(map(short_repr, unknown[:8])) + ", …" * (len(unknown) > 8),
        )


def _check_constants(values: Mapping[str, Any]) -> None:
    """Rejects values that no ALBERT implements."""
    for key, only in _CONSTANTS.items():
        if key in values and values[key] != only:
            raise UserError(
                f"{key} must be {only!r} in an ALBERT configuration. "
                f"Received: {short_repr(values[key])}."
            )


def _checked_labels(labels: Mapping[int, str]) -> dict[int, str]:
    """Returns `id2label` in order; every class must have a name, no two the same."""
    received = f"Received: {short_repr(labels)}."
    if not isinstance(labels, Mapping) or not all(type(index) is int for index in labels):
        raise ValueError(f"id2label must map class numbers to names. {received}")
    ordered = {index: labels[index] for index in sorted(labels)}
    if not ordered or list(ordered) != list(range(len(ordered))):
        raise ValueError(f"id2label must name the classes 0, 1, 2, … without a gap. {received}")
    for name in ordered.values():
        # UTF-8 can't express half of a surrogate pair.
        if not isinstance(name, str) or any("\ud800" <= char <= "\udfff" for char in name):
            raise ValueError(f"id2label must have text as names. {received}")
    if len(set(ordered.values())) < len(ordered):
        raise ValueError(f"id2label must not name two classes alike. {received}")
    _check("num_labels", len(ordered), _LABELS)
    return ordered


def _labels_of_file(values: Mapping[str, Any]) -> dict[int, str] | None:
    """Returns a file's labels: `id2label`, or `num_labels` unnamed ones."""
    labels, count = values.get("id2label"), values.get("num_labels", values.get("_num_labels"))
    if isinstance(labels, Mapping) and all(str(index).isdigit() for index in labels):
        return {int(index): label for index, label in labels.items()}
    if labels is not None:
        received = short_repr(labels)
        raise ValueError(f"id2label must map class numbers to names. Received: {received}.")
    return None if count is None else unnamed_labels(count)


def _merged_labels(changes: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Returns `changes` with `num_labels`, `id2label` and `label2id` merged into `id2label`.

    Args:
        changes: fields to override.
        count: number of classes; `num_labels` keeps their names if it is the same.
    """
    fields = dict(changes)
    num_labels, labels = fields.pop("num_labels", None), fields.pop("id2label", None)
    if num_labels is not None:
        _check("num_labels", num_labels, _LABELS, Integral)
    label2id = fields.pop("label2id", None)
    if labels is None and label2id is not None:
        labels = {index: name for name, index in label2id.items()}
    if labels is not None:
        if not isinstance(labels, Mapping):
            received = short_repr(labels)
            raise ValueError(f"id2label must map class numbers to names. Received: {received}.")
        labels = {int(index): name for index, name in labels.items()}
        if num_labels not in (None, len(labels)):
            raise ValueError(
                "num_labels must be the number of names in id2label. "
                f"Received: num_labels={num_labels}, id2label={short_repr(labels)}."
            )
        return {**fields, "id2label": labels}
    if num_labels not in (None, count):
        return {**fields, "id2label": unnamed_labels(int(num_labels))}
    is_removed = "id2label" in changes and num_labels is None
    return {**fields, "id2label": None} if is_removed else fields


def parameters(config: AlbertConfig) -> int:
    """Returns the number of parameters of encoder and pooler, which the paper counts."""
    e, h, i = config.embedding_size, config.hidden_size, config.intermediate_size
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    embedding = rows * e + 2 * e + e * h + h
    copies = {True: config.num_hidden_groups, False: config.num_hidden_layers}
    attention = copies[config.share in ("all", "attention")] * (4 * (h * h + h) + 2 * h)
    ffn = copies[config.share in ("all", "ffn")] * (2 * h * i + i + 3 * h)
    return embedding + config.inner_group_num * (attention + ffn) + h * h + h


def applied_parameters(config: AlbertConfig) -> int:
    """Returns V·E + E·H + L·(4·H² + 2·H·I) + H², a measure of the work of a forward pass.

    Counts each kernel once per application; inner blocks count as layers. Biases, norms
    and the small tables are left out.
    """
    e, h = config.embedding_size, config.hidden_size
    blocks = config.num_hidden_layers * config.inner_group_num
    block = 4 * h * h + 2 * h * config.intermediate_size
    return config.vocab_size * e + e * h + blocks * block + h * h
