"""Where a model lies, on this machine or on the hub, and what Hugging Face's files are called."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf import assets
from albert_tf.checkpoints import hub, tensors
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import written_atomically

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
VOCABULARY: Final = "spiece.model"
HUB_OPTIONS: Final = hub.OPTIONS
INDEX: Final = ".index.json"  # after the name of weights that are split into shards
# In the order of preference; each may be split into shards.
WEIGHT_FILES: Final = (WEIGHTS, "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")
VOCABULARIES: Final = (VOCABULARY, "vocab.txt", "tokenizer.json")
TOKENIZER_FILES: Final = ("tokenizer_config.json", "special_tokens_map.json")
# KerasHub's presets have another config.json.
PRESET_WEIGHTS: Final = "model.weights.h5"
PRESET_VOCABULARY: Final = "assets/tokenizer/vocabulary.spm"
PRESET_TASK: Final = ("task.json", "task.weights.h5")  # of presets with a head


def split_hub_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a `from_pretrained` that are the hub's, and the others."""
    chosen = {name: value for name, value in options.items() if name in HUB_OPTIONS}
    return chosen, {name: value for name, value in options.items() if name not in HUB_OPTIONS}


def locate(
    name_or_path: str | os.PathLike[str], *, weights: bool = False, **hub_options: Any
) -> Path:
    """The directory of a model: a path as it is, a hub name through huggingface_hub's cache.

    Args:
        name_or_path: a directory, a hub name such as "albert/albert-base-v2", or "small", the model
            that comes with the package.
        weights: of a hub name bring the configuration and the weights, in the one format that is
            preferred among those there; otherwise the configuration and the tokenizer's files.
        **hub_options: `revision`, `token`, `cache_dir`, `local_files_only`, `force_download` as
            huggingface_hub takes them; `subfolder` of a directory or a repository.
    Raises:
        UserError: there is no such directory, and it isn't a hub name that can be reached.
    """
    path = Path(name_or_path).expanduser() / (hub_options.get("subfolder") or "")
    if path.is_dir():
        return path
    if is_bundled(name_or_path):
        return assets.model(str(name_or_path))
    if path.exists():
        raise UserError(
            f"A model is a directory with {CONFIG} and {WEIGHTS}. Received a file: {path}."
        )
    name = hub.repository(str(name_or_path))
    if name is None:
        raise UserError(
            "A model is a directory, or a hub name of the form owner/name. "
            f"Received: {path}, which is neither a directory here nor such a name."
        )
    repository = hub.Repository(name, **hub_options)
    return _weights(repository) if weights else _tokenizer(repository)


def is_bundled(name_or_path: str | os.PathLike[str]) -> bool:
    """Whether this is the name of a model of the package, and of no directory here."""
    return name_or_path in assets.MODELS and not Path(name_or_path).is_dir()


def _tokenizer(repository: hub.Repository) -> Path:
    config = repository.file(CONFIG)
    vocabularies = (PRESET_VOCABULARY,) if config and is_preset(config) else VOCABULARIES
    vocabulary = repository.first(vocabularies)
    if config is None and vocabulary is None:
        raise repository.failure(repository.unreachable)
    for name in TOKENIZER_FILES:
        repository.file(name)
    return config.parent if config else vocabulary.parent  # type: ignore[union-attr]


def _weights(repository: hub.Repository) -> Path:
    config = repository.file(CONFIG)
    if config is None:
        raise repository.failure(repository.unreachable, CONFIG)
    if is_preset(config):
        found = repository.file(PRESET_WEIGHTS)
        for name in PRESET_TASK:
            repository.file(name)
    else:
        found = repository.first(_with_shards())
    if found is None:
        raise repository.failure(repository.unreachable, "its weights")
    if found.name.endswith(INDEX):
        repository.shards(found)
    return config.parent


def _with_shards() -> Iterator[str]:
    for name in WEIGHT_FILES:
        yield name
        yield name + INDEX


def find_weights(folder: Path) -> Path | None:
    """The preferred weights of a directory in Hugging Face's format, or their shards' index."""
    return next((folder / name for name in _with_shards() if (folder / name).is_file()), None)


def is_preset(path: Path) -> bool:
    """Whether a config.json is KerasHub's, which names a class of it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "class_name" in content


def read_config(folder: Path) -> AlbertConfig:
    """The configuration of a model directory.

    Raises:
        UserError: the directory has none, or not an ALBERT's.
    """
    if not (folder / CONFIG).is_file():
        raise UserError(
            f"A model directory must hold {CONFIG}. "
            f"Received {folder}, which holds {listing(folder)}."
        )
    return AlbertConfig.from_json_file(folder / CONFIG)


def write(
    folder: str | os.PathLike[str], config: Mapping[str, Any], weights: Mapping[str, np.ndarray]
) -> None:
    """Writes `config.json` and `model.safetensors` as transformers does; other files there stay."""
    folder = Path(folder)
    tensors.write_tensors(folder / WEIGHTS, weights, {"format": "pt"})
    with written_atomically(folder / CONFIG, force=True) as path:
        path.write_text(
            json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )


def listing(folder: Path) -> str:
    """The first files of a directory, for messages."""
    found = sorted(entry.name for entry in folder.iterdir())
    return ", ".join(found[:8]) + (", …" if len(found) > 8 else "") if found else "nothing"
