"""The files of a tokenizer: the names that each publisher gives them, and the JSON beside them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from albert_tf.checkpoints.directory import locate
from albert_tf.errors import UserError
from albert_tf.files import written_atomically

TOKENIZER_CONFIG: Final = "tokenizer_config.json"
TOKENIZER_JSON: Final = "tokenizer.json"
SPECIAL_TOKENS_MAP: Final = "special_tokens_map.json"
# The first of each that is there is taken: Hugging Face, google-research/albert, TensorFlow Hub,
# KerasHub; then, in these folders, the only file that ends so.
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
    """The vocabulary file of a tokenizer, and what `tokenizer_config.json` says.

    Args:
        name_or_path: a vocabulary file, a directory, a TensorFlow 1 checkpoint in one, or a name
            on the hub.
    Raises:
        UserError: nothing there, no vocabulary or several, or a damaged `tokenizer_config.json`.
    """
    path = Path(name_or_path).expanduser()
    if path.is_file() and path.suffix != ".index":
        return path, {}
    folder = locate(path.parent if _is_checkpoint(path) else name_or_path, **hub)
    return _vocabulary(folder, str(name_or_path)), _config(folder / TOKENIZER_CONFIG)


def is_wordpiece(vocabulary: Path) -> bool:
    """Whether a vocabulary file is one of WordPiece, by its name."""
    return vocabulary.suffix in (".txt", ".json")


def write_tokenizer(
    folder: str | os.PathLike[str], settings: Mapping[str, Any], special: Mapping[str, str]
) -> tuple[str, str]:
    """Writes the two JSON files beside the vocabulary, and returns their paths."""
    paths = os.path.join(folder, TOKENIZER_CONFIG), os.path.join(folder, SPECIAL_TOKENS_MAP)
    for target, content in zip(paths, ({**settings, **special}, special), strict=True):
        with written_atomically(target, force=True) as path:
            path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return paths


def _is_checkpoint(path: Path) -> bool:
    """Whether a path is a TensorFlow 1 checkpoint's: no file, but the start of several names."""
    return path.suffix == ".index" or path.parent.joinpath(path.name + ".index").is_file()


def _vocabulary(folder: Path, origin: str) -> Path:
    for names, endings in ((SENTENCEPIECE, SENTENCEPIECE_ENDINGS), (WORDPIECE, WORDPIECE_ENDINGS)):
        known = [folder / name for name in names if (folder / name).is_file()]
        found = known[:1] or sorted({path for ending in endings for path in folder.glob(ending)})
        if len(found) > 1:
            raise UserError(
                "A tokenizer's directory must hold one vocabulary. Received: "
                f"{origin}, which holds {', '.join(path.name for path in found)}. "
                "Give the path of one of these files."
            )
        if found:
            return found[0]
    if _model_type(folder / TOKENIZER_JSON) == "WordPiece":
        return folder / TOKENIZER_JSON
    raise UserError(
        f"A tokenizer's directory must hold {SENTENCEPIECE[0]}, or {WORDPIECE[0]} for a WordPiece "
        f"vocabulary. Received: {origin}, which doesn't.{_only_tokenizer_json(folder)} Copy the "
        "checkpoint's vocabulary there, or write one with AlbertTokenizer.save_pretrained."
    )


def _only_tokenizer_json(folder: Path) -> str:
    if not (folder / TOKENIZER_JSON).is_file():
        return ""
    return (
        f" It holds {TOKENIZER_JSON}, which transformers writes and which lacks what SentencePiece "
        f"needs: take {SENTENCEPIECE[0]} from the checkpoint that this one was made from."
    )


def _model_type(path: Path) -> str | None:
    """The kind of vocabulary in a `tokenizer.json`, or None."""
    model = _json(path).get("model") if path.is_file() else None
    return model.get("type") if isinstance(model, dict) else None


def _config(path: Path) -> dict[str, Any]:
    return _json(path) if path.is_file() else {}


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise UserError(
            f"{path.name} must be JSON. Received: {path}, which doesn't read as such "
            f"({error}). Copy it again, or remove it to use the defaults."
        ) from error
    return content
