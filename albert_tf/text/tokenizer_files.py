"""The files of a tokenizer: each publisher's names for the vocabulary, and the JSON beside it."""

import os
import reprlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.checkpoints.finder import (
    ADDED_TOKENS,
    SENTENCEPIECE,
    SENTENCEPIECE_ENDINGS,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_JSON,
    WORDPIECE,
    WORDPIECE_ENDINGS,
    find,
    find_vocabulary,
)
from albert_tf.checkpoints.finder import TOKENIZER_CONFIG as TOKENIZER_CONFIG
from albert_tf.errors import UserError
from albert_tf.files import read_json, replace_files, user_path
from albert_tf.text.added_tokens import text_and_options
from albert_tf.text.wordpiece_json import is_wordpiece

# Settings of a WordPiece tokenizer that the normalizer of a tokenizer.json has, too.
NORMALIZATION: Final = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
# Classes of transformers that follow tokenizer.json; others follow tokenizer_config.json.
_GENERIC: Final = ("PreTrainedTokenizerFast", "TokenizersBackend")
_KINDS: Final = {bool: "true or false", int: "a positive integer", str: "a string"}


class Stored(NamedTuple):
    """A tokenizer's files.

    Attributes:
        vocabulary: its file.
        files: the content of the JSON files beside it, by name.
        special: the texts of special tokens by transformers' names, such as `cls_token`.
    """

    vocabulary: Path
    files: Mapping[str, Mapping[str, Any]] = {}
    special: Mapping[str, Any] = {}


def read_tokenizer(name_or_path: str | os.PathLike[str], hub: Mapping[str, Any]) -> Stored:
    """Reads a tokenizer's files.

    Args:
        name_or_path: a vocabulary file, a directory, a TensorFlow 1 checkpoint in one, or a name
            on the hub.
    Raises:
        UserError: there is no such name, no vocabulary or several, or a damaged
            `tokenizer_config.json`.
    """
    path = user_path(name_or_path)
    if path.is_file() and path.suffix != ".index":
        return Stored(path)
    folder = find(name_or_path, weights=False, tokenizer=True, **hub).folder
    vocabulary = vocabulary_in(folder)
    if vocabulary is None:
        raise _without_vocabulary(folder, str(name_or_path))
    names = (TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS, TOKENIZER_JSON)
    files = {name: read_json(folder / name) for name in names if (folder / name).exists()}
    config = files.get(TOKENIZER_CONFIG, {})
    if vocabulary.name == TOKENIZER_JSON and config.get("tokenizer_class") in _GENERIC:
        files[TOKENIZER_CONFIG] = {
            name: value for name, value in config.items() if name not in NORMALIZATION
        }
    special = {**files.get(SPECIAL_TOKENS_MAP, {}), **files.get(TOKENIZER_CONFIG, {})}
    texts = {name: text_and_options(value)[0] for name, value in special.items()}
    return Stored(vocabulary, files, texts)


def refuse_other_kinds(config: Mapping[str, Any]) -> None:
    """Refuses a `tokenizer_config.json` that cuts words by other rules, as BertJapanese's does."""
    for name, own in (("word_tokenizer_type", "basic"), ("subword_tokenizer_type", "wordpiece")):
        if config.get(name, own) != own:
            raise UserError(
                f"{name} in {TOKENIZER_CONFIG} must be {own}, BERT's. Received: "
                f"{reprlib.repr(config[name])}. Make ids with the tokenizer of this checkpoint."
            )


def stored_settings(config: Mapping[str, Any], types: Mapping[str, type]) -> dict[str, Any]:
    """Returns the settings in a `tokenizer_config.json` that have a type here; null is the default.

    transformers writes a special token as a string or as a dict, and a `model_max_length` of 1e30
    for no limit.

    Raises:
        UserError: a value is of another type, or `model_max_length` isn't positive.
    """
    settings = {}
    for name in types.keys() & config.keys():
        value: Any = config[name]
        if isinstance(value, dict):
            value = value.get("content", value)
        if types[name] is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            continue
        if type(value) is not types[name] or (type(value) is int and value < 1):
            raise UserError(
                f"{name} in {TOKENIZER_CONFIG} must be {_KINDS[types[name]]}. "
                f"Received: {reprlib.repr(config[name])}. "
                "Correct it, or remove it to use the default."
            )
        settings[name] = value
    return settings


def write_tokenizer(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Writes a tokenizer's files, and returns their paths."""
    writers = {name: partial(_write_bytes, content) for name, content in files.items()}
    path = user_path(folder)
    replace_files(path, writers)
    return tuple(str(path / name) for name in files)


def _write_bytes(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def vocabulary_in(folder: Path) -> Path | None:
    """Returns the file of a folder's vocabulary, or None.

    Raises:
        UserError: there are several, and none has a name that takes precedence.
    """
    for names, endings in ((SENTENCEPIECE, SENTENCEPIECE_ENDINGS), (WORDPIECE, WORDPIECE_ENDINGS)):
        if vocabulary := find_vocabulary(folder, names, endings):
            return vocabulary
    tokenizer_json = folder / TOKENIZER_JSON
    is_ours = tokenizer_json.is_file() and is_wordpiece(read_json(tokenizer_json))
    return tokenizer_json if is_ours else None


def _without_vocabulary(folder: Path, origin: str) -> UserError:
    reason = "which has none."
    if (folder / TOKENIZER_JSON).is_file():
        reason = (
            f"which has none, but {TOKENIZER_JSON}, which transformers writes and which lacks "
            f"what SentencePiece needs: take {SENTENCEPIECE[0]} from the checkpoint that this one "
            "was made from."
        )
    return UserError(
        f"A tokenizer's folder must have {SENTENCEPIECE[0]}, or {WORDPIECE[0]} for a WordPiece "
        f"vocabulary. Received: {origin}, {reason} Copy the checkpoint's vocabulary there, or "
        "write one with AlbertTokenizer.save_pretrained."
    )
