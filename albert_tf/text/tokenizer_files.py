"""Reads and writes the files of a tokenizer: the vocabulary and JSON files."""

import os
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from albert_tf.checkpoints.finder import (
    SENTENCEPIECE,
    TOKENIZER_FILES,
    TOKENIZER_JSON,
    WORDPIECE,
    find,
)
from albert_tf.checkpoints.finder import TOKENIZER_CONFIG as TOKENIZER_CONFIG
from albert_tf.errors import UserError
from albert_tf.files import find_file, read_json, replace_files, user_path
from albert_tf.text.unigram_json import is_unigram
from albert_tf.text.wordpiece_json import is_wordpiece

# WordPiece settings that are also part of the normalizer in a tokenizer.json.
NORMALIZATION: Final = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
# transformers classes that take these settings from tokenizer.json, not tokenizer_config.json.
_GENERIC: Final = (
    *("PreTrainedTokenizerFast", "TokenizersBackend"),
    *("XLMRobertaTokenizer", "XLMRobertaTokenizerFast"),
)
_XLM_ROBERTA: Final = "sentencepiece.bpe.model"  # its ids differ from the model's
_KINDS: Final = {bool: "true or false", int: "a positive integer", str: "a string"}


def read_tokenizer(
    name_or_path: str | os.PathLike[str], hub: Mapping[str, Any]
) -> tuple[Path, dict[str, dict[str, Any]]]:
    """Finds a vocabulary file, or the tokenizer in a directory or on the Hub.

    For a TensorFlow 1 checkpoint, its directory is used. `hub` contains the Hub options of `find`.

    Returns:
        The path of the vocabulary file, and the content of the directory's JSON files by name.
    """
    path = user_path(name_or_path)
    if path.is_file() and path.suffix != ".index":
        return path, {}
    folder = find(name_or_path, weights=False, tokenizer=True, **hub).folder
    vocabulary = vocabulary_in(folder)
    if vocabulary is None:
        raise _vocabulary_error(folder, str(name_or_path))
    paths = {name: folder / name for name in TOKENIZER_FILES}
    files = {name: read_json(path) for name, path in paths.items() if path.exists()}
    config = files.get(TOKENIZER_CONFIG, {})
    if vocabulary.name == TOKENIZER_JSON and config.get("tokenizer_class") in _GENERIC:
        files[TOKENIZER_CONFIG] = {
            name: value for name, value in config.items() if name not in NORMALIZATION
        }
    return vocabulary, files


def stored_settings(config: Mapping[str, Any], types: Mapping[str, type]) -> dict[str, Any]:
    """Returns the settings from a `tokenizer_config.json` that are in `types` and not null.

    transformers writes a special token as a string or a dict, and a `model_max_length` of 1e30 if
    there is no limit. Splitting rules that differ from BERT's raise an error.
    """
    for name, own in (("word_tokenizer_type", "basic"), ("subword_tokenizer_type", "wordpiece")):
        if config.get(name, own) != own:
            raise UserError(
                f"{name} in {TOKENIZER_CONFIG} must be {own}, as in BERT. Received: "
                f"{reprlib.repr(config[name])}. Encode texts with the checkpoint's own tokenizer."
            )
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
    """Writes the files of a tokenizer and returns their paths."""
    path = user_path(folder)
    replace_files(path, files)
    return tuple(str(path / name) for name in files)


def vocabulary_in(folder: Path) -> Path | None:
    """Returns the path of the vocabulary file in a folder, or None."""
    for names in (SENTENCEPIECE, WORDPIECE):
        if vocabulary := find_file(folder, names, "vocabularies", ignored=(_XLM_ROBERTA,)):
            return vocabulary
    path = folder / TOKENIZER_JSON
    content = read_json(path) if path.is_file() else {}
    return path if is_wordpiece(content) or is_unigram(content) else None


def _vocabulary_error(folder: Path, origin: str) -> UserError:
    way_out = "Copy the checkpoint's vocabulary to it, or call AlbertTokenizer.save_pretrained."
    if (folder / TOKENIZER_JSON).is_file():
        way_out = (
            f"Its {TOKENIZER_JSON} contains neither a Unigram nor a WordPiece model. Use a "
            "checkpoint with one of these vocabularies."
        )
    elif (folder / _XLM_ROBERTA).is_file():
        way_out = (
            f"{_XLM_ROBERTA} lacks the ids of the special tokens. Copy the checkpoint's "
            f"{TOKENIZER_JSON} too."
        )
    return UserError(
        f"{origin} contains no vocabulary ({SENTENCEPIECE[0]}, or {WORDPIECE[0]} for WordPiece). "
        f"{way_out}"
    )
