"""The tokenizer's files beside a checkpoint, and their names in each checkpoint format."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from albert_tf.checkpoints import keras_hub
from albert_tf.text.tokenizer_files import (
    SENTENCEPIECE,
    SENTENCEPIECE_ENDINGS,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    WORDPIECE,
    WORDPIECE_ENDINGS,
    find_vocabulary,
)

VOCABULARY: Final = SENTENCEPIECE[0]
_JSON: Final = (TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, TOKENIZER_JSON, "added_tokens.json")
# Formats whose name for the vocabulary differs from Hugging Face's.
_NAMES: Final = {"tf1": "30k-clean.model", "keras-hub": keras_hub.VOCABULARY}


def find(path: Path, kind: str) -> dict[str, Path]:
    """Returns the tokenizer's files by Hugging Face's names.

    Args:
        path: path of the checkpoint.
        kind: name of its format.
    Raises:
        UserError: there are several vocabularies, and none has a name that takes precedence.
    """
    return dict(_found((path,) if path.is_dir() else (path.parent, path.parent.parent), kind))


def destinations(files: dict[str, Path], kind: str) -> dict[Path, str]:
    """Returns each file's name in a folder of another format; files without one are left out."""
    return {
        file: _NAMES.get(kind, name) if name == VOCABULARY else name
        for name, file in files.items()
        if kind != "keras-hub" or name == VOCABULARY
    }


def _found(folders: tuple[Path, ...], kind: str) -> Iterator[tuple[str, Path]]:
    wanted: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        VOCABULARY: (SENTENCEPIECE, SENTENCEPIECE_ENDINGS)
    }
    if kind != "keras-hub":  # Its tokenizer.json has another content.
        wanted[WORDPIECE[0]] = (WORDPIECE, WORDPIECE_ENDINGS)
        wanted |= {name: ((name,), ()) for name in _JSON}
    for name, (names, endings) in wanted.items():
        files = (find_vocabulary(folder, names, endings) for folder in folders)
        if file := next(filter(None, files), None):
            yield name, file
