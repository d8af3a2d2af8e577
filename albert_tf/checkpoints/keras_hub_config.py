"""KerasHub's JSON files: reads them into a configuration, and makes them from one."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from albert_tf import files
from albert_tf.config import AlbertConfig, unnamed_labels
from albert_tf.errors import UserError

_FIELDS: Final = {
    "vocabulary_size": "vocab_size",
    "embedding_dim": "embedding_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_groups": "num_hidden_groups",
    "num_inner_repetitions": "inner_group_num",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
}
_BOOKKEEPING: Final = frozenset({"name", "trainable", "dtype"})
# The problem type by a classifier's activation; our logits are before it.
_ACTIVATIONS: Final = {
    "linear": None,
    "softmax": "single_label_classification",
    "sigmoid": "multi_label_classification",
}
_BACKBONE: Final = "AlbertBackbone"
_CLASSIFIERS: Final = ("AlbertTextClassifier", "AlbertClassifier")
# The kinds of task that are written, in a module's name and in a class's.
_KINDS: Final = {"text_classifier": "TextClassifier", "masked_lm": "MaskedLM"}


def read_json(path: Path) -> dict[str, Any]:
    """Reads a serialized object of Keras: its class and its configuration.

    Raises:
        UserError: the file is damaged.
    """
    content = files.read_json(path)
    if isinstance(content.get("class_name"), str) and isinstance(content.get("config"), dict):
        return content
    raise UserError(
        f'{path} must be KerasHub\'s JSON, with "class_name" and "config". Received: '
        f"{', '.join(sorted(content)[:8]) or 'nothing'}. Copy it again from its source."
    )


def class_name(content: Mapping[str, Any]) -> str:
    """Returns the class of an object; older files have the package before it."""
    return content["class_name"].rsplit(">", 1)[-1]


def to_config(path: Path, task: Mapping[str, Any] | None) -> AlbertConfig:
    """Reads the configuration in a preset's `config.json`, and that of its task.

    Raises:
        UserError: it isn't an ALBERT's, or not as KerasHub writes it.
    """
    content = read_json(path)
    if class_name(content) != _BACKBONE:
        raise UserError(
            f"A preset must be of {_BACKBONE}. Received: {path}, of {class_name(content)}."
        )
    values = content["config"]
    unknown = values.keys() - _FIELDS.keys() - _BOOKKEEPING
    missing = _FIELDS.keys() - values.keys()
    if unknown or missing:
        raise UserError(
            f"A preset's config.json must have {_BACKBONE}'s arguments. Received: {path}, with "
            f"{', '.join(sorted(unknown)) or 'nothing'} unknown and "
            f"{', '.join(sorted(missing)) or 'nothing'} missing."
        )
    fields = {ours: values[theirs] for theirs, ours in _FIELDS.items()}
    fields["attention_probs_dropout_prob"] = values["dropout"]
    try:
        config = AlbertConfig(hidden_act="gelu_new", **fields)
        return _with_task(config, task) if task else config
    except ValueError as error:
        raise UserError(f"{path}: The configuration is not valid. {error}") from error


def _with_task(config: AlbertConfig, task: Mapping[str, Any]) -> AlbertConfig:
    if class_name(task) not in _CLASSIFIERS:
        return config
    values = task["config"]
    activation = values.get("activation") or "linear"
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise UserError(
            f"A classifier's activation must be one of {', '.join(_ACTIVATIONS)}. "
            f"Received: {activation!r}."
        )
    return dataclasses.replace(
        config,
        id2label=unnamed_labels(values.get("num_classes")),
        classifier_dropout_prob=values.get("dropout", config.classifier_dropout_prob),
        problem_type=_ACTIVATIONS[activation],
    )


def check_expressible(config: AlbertConfig) -> None:
    """Raises an error for a model that KerasHub's ALBERT can't compute.

    Raises:
        UserError: lists everything that it lacks.
    """
    layers, groups = config.num_hidden_layers, config.stored_groups
    both = (config.hidden_dropout_prob, config.attention_probs_dropout_prob)
    rules = (
        (config.hidden_act == "gelu_new", f"hidden_act {config.hidden_act!r} (it has 'gelu_new')"),
        (
            config.layer_norm_eps == 1e-12,
            f"layer_norm_eps {config.layer_norm_eps} (it has 1e-12)",
        ),
        (
            layers % groups == 0,
            f"num_hidden_layers {layers} in {groups} groups (it wants as many in each)",
        ),
        (
            both[0] == both[1],
            f"hidden_dropout_prob {both[0]}, attention_probs_dropout_prob {both[1]} (it has one)",
        ),
    )
    faults = [text for holds, text in rules if not holds]
    if faults:
        raise UserError(
            "A KerasHub preset must be a model that KerasHub can compute. Received: "
            f"{'; '.join(faults)}. Keep this model in another format."
        )


def backbone(config: AlbertConfig) -> dict[str, Any]:
    """Returns the content of a preset's `config.json`."""
    values = {theirs: getattr(config, ours) for theirs, ours in _FIELDS.items()}
    values["num_groups"] = config.stored_groups
    return _object("albert_backbone", _BACKBONE, {**_layer("albert_backbone"), **values})


def task(config: AlbertConfig, kind: str, preprocessor: Any) -> dict[str, Any]:
    """Returns the content of `task.json` for a kind, "text_classifier" or "masked_lm"."""
    name = f"albert_{kind}"
    values = {"backbone": backbone(config), "preprocessor": preprocessor, "name": name}
    if kind == "text_classifier":
        values["num_classes"] = config.num_labels
        values["activation"] = "linear"
        values["dropout"] = config.classifier_dropout_prob
    return _object(name, f"Albert{_KINDS[kind]}", values)


def tokenizer() -> dict[str, Any]:
    """Returns the content of `tokenizer.json`; the vocabulary is among the assets."""
    values = {**_layer("albert_tokenizer", "int32"), "config_file": "tokenizer.json"}
    values |= {"proto": None, "sequence_length": None, "add_bos": False, "add_eos": False}
    return _object("albert_tokenizer", "AlbertTokenizer", values)


def preprocessor(config: AlbertConfig, kind: str) -> dict[str, Any]:
    """Returns the content of `preprocessor.json` for a kind of task."""
    name = f"albert_{kind}_preprocessor"
    values = {
        **_layer(name),
        "tokenizer": tokenizer(),
        "config_file": "preprocessor.json",
        "sequence_length": config.max_position_embeddings,
        "truncate": "round_robin",
    }
    return _object(name, f"Albert{_KINDS[kind]}Preprocessor", values)


def _layer(name: str, dtype: str = "float32") -> dict[str, Any]:
    policy = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": dtype}}
    return {"name": name, "trainable": True, "dtype": {**policy, "registered_name": None}}


def _object(module: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {
        "module": f"keras_hub.src.models.albert.{module}",
        "class_name": name,
        "config": values,
        "registered_name": f"keras_hub>{name}",
    }
