"""The files of a tokenizer: each publisher's names for the vocabulary, and the JSON beside it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from albert_tf.checkpoints.directory import locate
from albert_tf.errors import UserError
from albert_tf.files import write_json, written_atomically

TOKENIZER_CONFIG: Final = "tokenizer_config.json"
TOKENIZER_JSON: Final = "tokenizer.json"
SPECIAL_TOKENS_MAP: Final = "special_tokens_map.json"
# File names in order of precedence (Hugging Face, google-research/albert, TensorFlow Hub,
# KerasHub); if none of them exists, the only file with one of the endings.
SENTENCEPIECE: Final = (
    "spiece.model",
    "30k-clean.model",
    "assets/30k-clean.model",
    "assets/tokenizer/vocabulary.spm",
)
SENTENCEPIECE_ENDINGS: Final = ("*.model", "*.spm", "assets/*.model", "assets/*.spm")
WORDPIECE: Final = ("vocab.txt", "vocab_chinese.txt", "assets/vocab.txt")
WORDPIECE_ENDINGS: Final = ("vocab*.txt", "assets/vocab*.txt")


def read_tokenizer(
    name_or_path: str | os.PathLike[str], hub: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """Returns a tokenizer's vocabulary file and the content of `tokenizer_config.json`.

    Args:
        name_or_path: a vocabulary file, a directory, a TensorFlow 1 checkpoint in one, or a name
            on the hub.
    Raises:
        UserError: there is no such name, no vocabulary or several, or a damaged
            `tokenizer_config.json`.
    """
    path = Path(name_or_path).expanduser()
    if path.is_file() and path.suffix != ".index":
        return path, {}
    folder = locate(path.parent if _is_checkpoint(path) else name_or_path, **hub)
    config = folder / TOKENIZER_CONFIG
    return _vocabulary(folder, str(name_or_path)), _json(config) if config.is_file() else {}


def find_vocabulary(folder: Path, names: tuple[str, ...], endings: tuple[str, ...]) -> Path | None:
    """Returns the vocabulary file of one kind in a folder, or None.

    Raises:
        UserError: there are several, and none has a name that takes precedence.
    """
    known = [folder / name for name in names if (folder / name).is_file()]
    found = known[:1] or sorted({path for ending in endings for path in folder.glob(ending)})
    if len(found) > 1:
        raise UserError(
            f"A folder must have one vocabulary. Received: {folder}, which has "
            f"{', '.join(path.name for path in found)}. Rename the right one to {names[0]}, or "
            "give its path."
        )
    return found[0] if found else None


def is_wordpiece(vocabulary: Path) -> bool:
    """Whether a vocabulary file is WordPiece's, by its name."""
    return vocabulary.suffix in (".txt", ".json")


def write_vocabulary(folder: str | os.PathLike[str], name: str, content: bytes) -> str:
    """Writes a vocabulary file, and returns its path."""
    target = os.path.join(os.fspath(folder), name)
    with written_atomically(target, force=True) as path:
        path.write_bytes(content)
    return target


def write_tokenizer(
    folder: str | os.PathLike[str], settings: Mapping[str, Any], special: Mapping[str, str]
) -> tuple[str, str]:
    """Writes the two JSON files beside the vocabulary, and returns their paths."""
    paths = os.path.join(folder, TOKENIZER_CONFIG), os.path.join(folder, SPECIAL_TOKENS_MAP)
    for path, content in zip(paths, ({**settings, **special}, special), strict=True):
        write_json(path, content)
    return paths


def _is_checkpoint(path: Path) -> bool:
    """Whether a path is a TensorFlow 1 checkpoint's, which is a prefix of several file names."""
    return path.suffix == ".index" or path.parent.joinpath(path.name + ".index").is_file()


def _vocabulary(folder: Path, origin: str) -> Path:
    for names, endings in ((SENTENCEPIECE, SENTENCEPIECE_ENDINGS), (WORDPIECE, WORDPIECE_ENDINGS)):
        if found := find_vocabulary(folder, names, endings):
            return found
    tokenizer_json = folder / TOKENIZER_JSON
    model = _json(tokenizer_json).get("model") if tokenizer_json.is_file() else None
    if isinstance(model, dict) and model.get("type") == "WordPiece":
        return tokenizer_json
    reason = "which has none."
    if tokenizer_json.is_file():
        reason = (
            f"which has none, but {TOKENIZER_JSON}, which transformers writes and which lacks "
            f"what SentencePiece needs: take {SENTENCEPIECE[0]} from the checkpoint that this one "
            "was made from."
        )
    raise UserError(
        f"A tokenizer's folder must have {SENTENCEPIECE[0]}, or {WORDPIECE[0]} for a WordPiece "
        f"vocabulary. Received: {origin}, {reason} Copy the checkpoint's vocabulary there, or "
        "write one with AlbertTokenizer.save_pretrained."
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise UserError(
            f"{path.name} must be a JSON object. Received: {path}, which isn't ({error}). "
            "Copy it again, or remove it to use the defaults."
        ) from error
    return content
