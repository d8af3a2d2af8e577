"""The files of a tokenizer: each publisher's names for the vocabulary, and the JSON beside it."""

import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
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
from albert_tf.files import as_json, check_sums, read_json, replace_files

# transformers' names of special tokens besides the model's own.
ADDITIONAL: Final = ("additional_special_tokens", "extra_special_tokens")
_KINDS: Final = {bool: "true or false", int: "a positive integer", str: "a string"}


class AddedToken(NamedTuple):
    """A token that transformers keeps beside a vocabulary.

    Attributes:
        number: its id; None where a file names it alone, so that it comes after all others.
        place: the file that names it.
        is_special: whether decoding can skip it.
        options: what transformers says of how texts are searched for it.
    """

    content: str
    number: int | None
    place: str
    is_special: bool
    options: Mapping[str, Any]


class Stored(NamedTuple):
    """A tokenizer's files.

    Attributes:
        vocabulary: its file.
        config: the content of `tokenizer_config.json`.
        added: tokens beside the vocabulary.
        special: the texts of special tokens by transformers' names, such as `cls_token`.
    """

    vocabulary: Path
    config: Mapping[str, Any] = {}
    added: Sequence[AddedToken] = ()
    special: Mapping[str, Any] = {}


def read_tokenizer(name_or_path: str | os.PathLike[str], hub: Mapping[str, Any]) -> Stored:
    """Reads a tokenizer's files.

    Args:
        name_or_path: a vocabulary file, a directory, a TensorFlow 1 checkpoint in one, or a name
            on the hub.
    Raises:
        UserError: there is no such name, no vocabulary or several, or a damaged
            `tokenizer_config.json`; or the vocabulary isn't the one in `SHA256SUMS`.
    """
    path = Path(name_or_path).expanduser()
    if path.is_file() and path.suffix != ".index":
        check_sums(path.parent, path.name)
        return Stored(path)
    folder = find(name_or_path, weights=False, tokenizer=True, **hub).folder
    config = folder / TOKENIZER_CONFIG
    vocabulary = _vocabulary(folder, str(name_or_path))
    check_sums(folder, vocabulary.relative_to(folder).as_posix())
    content = read_json(config) if config.exists() else {}
    special_map = folder / SPECIAL_TOKENS_MAP
    special = {**(read_json(special_map) if special_map.is_file() else {}), **content}
    texts = {name: _text_and_options(value)[0] for name, value in special.items()}
    return Stored(vocabulary, content, added_tokens(folder, content), texts)


def added_tokens(folder: Path, config: Mapping[str, Any]) -> list[AddedToken]:
    """Returns the tokens that transformers' files of any age name, each once.

    Args:
        config: the content of `tokenizer_config.json`.
    Raises:
        UserError: a token has no text, or its id is no number.
    """
    found: dict[tuple[str, int | None], AddedToken] = {}
    for content, index, place, options in _named_tokens(folder, config):
        index = (
            int(index)
            if isinstance(index, str) and index.isdecimal() and len(index) < 10
            else index
        )
        if not isinstance(content, str) or not (index is None or type(index) is int):
            raise UserError(
                f"An added token in {place} must have a text and an id. Received: "
                f"{reprlib.repr(content)}, {reprlib.repr(index)}. Correct or remove it."
            )
        is_special = index is None or options.get("special") is True
        same = [key for key in found if key[0] == content and index in (None, key[1])]
        for key in same:
            found[key] = found[key]._replace(is_special=found[key].is_special or is_special)
        if not same:
            found[content, index] = AddedToken(content, index, place, is_special, options)
    return list(found.values())


def _named_tokens(
    folder: Path, config: Mapping[str, Any]
) -> Iterator[tuple[Any, Any, str, Mapping[str, Any]]]:
    """Yields text, id, file and options of each token, unchecked; an additional one has no id."""
    paths = {name: folder / name for name in (ADDED_TOKENS, TOKENIZER_JSON, SPECIAL_TOKENS_MAP)}
    files: dict[str, Mapping[str, Any]] = {
        name: read_json(path) if path.is_file() else {} for name, path in paths.items()
    }
    decoder = config.get("added_tokens_decoder")
    for index, given in decoder.items() if isinstance(decoder, dict) else ():
        content, options = _text_and_options(given)
        yield content, index, TOKENIZER_CONFIG, options
    for content, index in files[ADDED_TOKENS].items():
        yield content, index, ADDED_TOKENS, {}
    listed = files[TOKENIZER_JSON].get("added_tokens")
    for given in listed if isinstance(listed, list) else ():
        content, options = _text_and_options(given)
        yield content, options.get("id", ""), TOKENIZER_JSON, options
    files[TOKENIZER_CONFIG] = config
    for place in (SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG):
        for given in _additional(files[place]):
            content, options = _text_and_options(given)
            yield content, None, place, options


def _text_and_options(token: Any) -> tuple[Any, Mapping[str, Any]]:
    """Returns a token's text and options; transformers writes it as a string or as a dict."""
    return (token.get("content"), token) if isinstance(token, dict) else (token, {})


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


def _additional(config: Mapping[str, Any]) -> list[Any]:
    lists = [config.get(name) for name in ADDITIONAL]
    return [token for each in lists if isinstance(each, list) for token in each]


def is_wordpiece(vocabulary: Path) -> bool:
    """Whether a vocabulary file is WordPiece's, by its name."""
    return vocabulary.suffix in (".txt", ".json")


def write_tokenizer(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Writes a tokenizer's files, and returns their paths."""
    writers = {name: partial(_write_bytes, content) for name, content in files.items()}
    replace_files(Path(folder), writers)
    return tuple(os.path.join(folder, name) for name in files)


def json_files(settings: Mapping[str, Any], special: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the content of the two JSON files beside the vocabulary."""
    files = {TOKENIZER_CONFIG: {**settings, **special}, SPECIAL_TOKENS_MAP: special}
    return {name: as_json(content).encode() for name, content in files.items()}


def _write_bytes(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _vocabulary(folder: Path, origin: str) -> Path:
    for names, endings in ((SENTENCEPIECE, SENTENCEPIECE_ENDINGS), (WORDPIECE, WORDPIECE_ENDINGS)):
        if found := find_vocabulary(folder, names, endings):
            return found
    tokenizer_json = folder / TOKENIZER_JSON
    model = read_json(tokenizer_json).get("model") if tokenizer_json.is_file() else None
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
