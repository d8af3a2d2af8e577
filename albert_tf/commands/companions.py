"""The tokenizer's files beside a checkpoint, and what each format of checkpoints calls them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from albert_tf.checkpoints import keras_hub
from albert_tf.errors import UserError
from albert_tf.text.tokenizer_files import (
    SENTENCEPIECE,
    SENTENCEPIECE_ENDINGS,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    WORDPIECE,
    WORDPIECE_ENDINGS,
)

VOCABULARY: Final = SENTENCEPIECE[0]
_JSON: Final = (TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, TOKENIZER_JSON, "added_tokens.json")
# Where a format calls a file otherwise than Hugging Face.
_NAMES: Final = {"tf1": "30k-clean.model", "keras-hub": keras_hub.VOCABULARY}


def find(path: Path, kind: str) -> dict[str, Path]:
    """The files by Hugging Face's names.

    Args:
        path: what a checkpoint was read from.
        kind: the name of its format.
    Raises:
        UserError: there are several vocabularies, and none has a name that decides.
    """
    folders = (path,) if path.is_dir() else (path.parent, path.parent.parent)
    wanted: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        VOCABULARY: (SENTENCEPIECE, SENTENCEPIECE_ENDINGS)
    }
    if kind != "keras-hub":  # whose tokenizer.json is something else
        wanted[WORDPIECE[0]] = (WORDPIECE, WORDPIECE_ENDINGS)
        wanted |= {name: ((name,), ()) for name in _JSON}
    return {name: file for name in wanted for file in _found(folders, *wanted[name])}


def destinations(files: dict[str, Path], kind: str) -> dict[Path, str]:
    """Where each file goes in a folder of another format; those left out have no place there."""
    return {
        file: _NAMES.get(kind, name) if name == VOCABULARY else name
        for name, file in files.items()
        if kind != "keras-hub" or name == VOCABULARY
    }


def _found(
    folders: tuple[Path, ...], names: tuple[str, ...], endings: tuple[str, ...]
) -> Iterator[Path]:
    """The file, if there is one: by its name, or the only one that ends so."""
    for folder in folders:
        known = [folder / name for name in names if (folder / name).is_file()]
        similar = sorted({file for ending in endings for file in folder.glob(ending)})
        if not known and len(similar) > 1:
            raise UserError(
                f"There must be one vocabulary beside a checkpoint. Received: "
                f"{', '.join(map(str, similar))}. Name the right one {names[0]}."
            )
        if found := known or similar:
            yield found[0]
            return
