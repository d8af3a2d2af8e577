"""The files of a tokenizer in a Hugging Face directory."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.directory import VOCABULARY, locate
from albert_tf.errors import UserError
from albert_tf.files import written_atomically

TOKENIZER_CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
# Settings that the constructor takes; the file's others belong to transformers.
SETTINGS = (
    "do_lower_case",
    "keep_accents",
    "digit_comma",
    "quotes",
    "model_max_length",
    "split_special_tokens",
)


def read_tokenizer(
    name_or_path: str | os.PathLike[str], hub: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """The vocabulary file of a tokenizer, and its settings by the constructor's names.

    Raises:
        UserError: nothing there, no vocabulary, or a damaged `tokenizer_config.json`.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path, {}
    folder = locate(name_or_path, **hub)
    if not (folder / VOCABULARY).is_file():
        raise UserError(
            f"A tokenizer's directory must hold {VOCABULARY}. Received: {name_or_path}, which "
            f"doesn't.{_other_vocabulary(folder)} Copy the checkpoint's {VOCABULARY} there, or "
            "write one with AlbertTokenizer.save_pretrained."
        )
    return folder / VOCABULARY, _settings(folder / TOKENIZER_CONFIG)


def write_tokenizer(
    folder: str | os.PathLike[str], settings: Mapping[str, Any], special: Mapping[str, str]
) -> tuple[str, str]:
    """Writes the two JSON files beside the vocabulary, and returns their paths."""
    config = {"tokenizer_class": "AlbertTokenizer", **settings, **special}
    paths = os.path.join(folder, TOKENIZER_CONFIG), os.path.join(folder, SPECIAL_TOKENS_MAP)
    for target, content in zip(paths, (config, special), strict=True):
        with written_atomically(target, force=True) as path:
            path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return paths


def _settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{TOKENIZER_CONFIG} must be JSON. Received: {path}, which doesn't read as such "
            f"({error}). Copy it again, or remove it to use the defaults."
        ) from error
    return {name: content[name] for name in SETTINGS if content.get(name) is not None}


def _other_vocabulary(folder: Path) -> str:
    if (folder / "vocab.txt").is_file():
        return " It holds vocab.txt, a WordPiece vocabulary as BERT has, which is not supported."
    return ""
