"""Hugging Face's directory: `config.json` beside `model.safetensors`, here or on the hub."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints import tensors
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import written_atomically

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
VOCABULARY: Final = "spiece.model"
HUB_OPTIONS: Final = ("revision", "token", "cache_dir", "local_files_only")
FILES: Final = (CONFIG, WEIGHTS, VOCABULARY, "tokenizer_config.json", "special_tokens_map.json")


def split_hub_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a `from_pretrained` that are the hub's, and the others."""
    hub = {name: value for name, value in options.items() if name in HUB_OPTIONS}
    return hub, {name: value for name, value in options.items() if name not in HUB_OPTIONS}


def locate(name_or_path: str | os.PathLike[str], **hub_options: Any) -> Path:
    """The directory of a model: a path as it is, a hub name through huggingface_hub's cache.

    Args:
        name_or_path: a directory, or a hub name such as "albert/albert-base-v2".
        **hub_options: passed to `huggingface_hub.snapshot_download`: `revision`, `token`,
            `cache_dir`, `local_files_only`.
    Raises:
        UserError: there is no such directory, and it isn't a hub name that can be reached.
    """
    path = Path(name_or_path)
    if path.is_dir():
        return path
    if path.exists():
        raise UserError(
            f"A model is a directory with {CONFIG} and {WEIGHTS}. Received a file: {path}."
        )
    if len(path.parts) != 2 or path.is_absolute() or str(name_or_path).startswith("."):
        raise UserError(
            "A model is a directory, or a hub name of the form owner/name. "
            f"Received: {name_or_path}, which is neither a directory here nor such a name."
        )
    import huggingface_hub
    import huggingface_hub.errors

    try:
        return Path(
            huggingface_hub.snapshot_download(
                str(name_or_path), allow_patterns=list(FILES), **hub_options
            )
        )
    except (
        huggingface_hub.errors.HfHubHTTPError,
        huggingface_hub.errors.LocalEntryNotFoundError,
        OSError,
    ) as error:
        cache = hub_options.get("cache_dir") or huggingface_hub.constants.HF_HUB_CACHE
        raise UserError(
            f"{name_or_path} is no directory here, the hub couldn't give it "
            f"({type(error).__name__}), and its cache {cache} doesn't hold it. "
            "Download it where there is a network, or give a directory."
        ) from error


def read_config(folder: Path) -> AlbertConfig:
    """The configuration of a model directory.

    Raises:
        UserError: the directory has none, or not an ALBERT's.
    """
    if not (folder / CONFIG).is_file():
        raise UserError(
            f"A model directory must hold {CONFIG}. "
            f"Received {folder}, which holds {_listing(folder)}."
        )
    return AlbertConfig.from_json_file(folder / CONFIG)


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """The tensors of a model directory by name.

    Raises:
        UserError: the directory has no weights in safetensors, or the file is damaged.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        raise UserError(
            f"A model directory must hold {WEIGHTS}. "
            f"Received {folder}, which holds {_listing(folder)}."
        )
    return tensors.read_tensors(path)[0]


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


def _listing(folder: Path) -> str:
    found = sorted(entry.name for entry in folder.iterdir())
    return ", ".join(found[:8]) + (", …" if len(found) > 8 else "") if found else "nothing"
