"""Adds tokens to the vocabulary file itself, so that every runtime knows them."""

import logging
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from albert_tf.checkpoints.finder import (
    ADDED_TOKENS,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
)
from albert_tf.errors import UserError, short_repr

# transformers' names of special tokens besides the model's own.
ADDITIONAL: Final = ("additional_special_tokens", "extra_special_tokens")
SPACE: Final = "▁"  # SentencePiece's space, which begins a word.
# The special tokens that a model is trained with.
_TRAINED: Final = ("cls", "sep", "mask", "pad", "unk")
_SEARCHES: Final = ("lstrip", "rstrip", "single_word")  # ways in which no vocabulary is searched
logger = logging.getLogger(__name__)


class AddedToken(NamedTuple):
    """A token that transformers keeps beside a vocabulary.

    Attributes:
        number: its id; None where a file names it alone, so that it comes after all others.
        file: the file that names it.
        is_special: whether decoding can skip it.
        options: what transformers says of how texts are searched for it.
    """

    content: str
    number: int | None
    file: str
    is_special: bool
    options: Mapping[str, Any]


def add_tokens(tokenizer: Any, new_tokens: str | Sequence[Any], special: bool = False) -> int:
    """Adds tokens at the end of a vocabulary; see `BaseTokenizer.add_tokens`."""
    tokens = [new_tokens] if isinstance(new_tokens, str) else [str(token) for token in new_tokens]
    known = tokenizer.get_vocab()
    new = [token for token in dict.fromkeys(tokens) if token not in known]
    marked = [*tokenizer.additional_special_tokens, *(tokens if special else ())]
    if "" in new:
        raise UserError("An added token must have a character or more. Received: ''.")
    if new:
        _add(tokenizer, new)
    tokenizer._mark_special(marked)
    return len(new)


def _add(tokenizer: Any, new: Sequence[str]) -> None:
    larger = type(tokenizer)(tokenizer._with_tokens(new), **tokenizer.settings)
    for token in new:
        _require_token(larger, token)
    vars(tokenizer).update(vars(larger))


def additional_tokens(tokenizer: Any, special_tokens: Mapping[str, Any]) -> list[str]:
    """Returns the tokens to add of transformers' dict of special tokens.

    Raises:
        UserError: the padding token or another of those that ALBERT has would change.
    """
    known = tokenizer.special_tokens_map
    for name, token in special_tokens.items():
        if name not in ADDITIONAL and str(token) != known.get(name):
            raise UserError(
                "A vocabulary's own special tokens can't change: their ids are the same in every "
                f"runtime. Received: {name}={str(token)!r}, for {known.get(name)!r}. Add it under "
                f"{ADDITIONAL[0]!r}, or leave it out."
            )
    given = [special_tokens.get(name) or () for name in ADDITIONAL]
    return [token for value in given for token in ([value] if isinstance(value, str) else value)]


def restore_tokens(tokenizer: Any, stored: Sequence[AddedToken]) -> None:
    """Adds the tokens that transformers' files name beside a vocabulary, at their ids.

    transformers finds such a token in a text as it is written. Here it joins the vocabulary, in
    normalized form ("[E1]" as "[e1]"), so that graphs and phones find it too.

    Raises:
        UserError: an id isn't the next one, or belongs to another token; the vocabulary can't read
            it as one token; or texts are searched for it in another way.
    """
    size = len(tokenizer)
    spellings: dict[str, str] = {}
    for token in sorted(stored, key=lambda token: (token.number is None, token.number or 0)):
        index = tokenizer.convert_tokens_to_ids(token.content)
        is_known = index != tokenizer.unk_token_id if token.number is None else token.number < size
        if is_known and token.number not in (None, index):
            known = tokenizer.convert_ids_to_tokens(token.number)
            raise _not_read(token, f"must be the token with its id, {known!r}")
        if is_known:
            continue
        spelling, following = _spelling(tokenizer, token.content), size + len(spellings)
        if token.number not in (None, following):
            raise _not_read(token, f"must have the next id, {following}")
        if wrong := [name for name in _SEARCHES if token.options.get(name)]:
            raise _not_read(token, f"must be found anywhere in a text, without {', '.join(wrong)}")
        if spelling in spellings.values():
            raise _not_read(token, f"must have a spelling of its own, not {spelling!r}")
        spellings[token.content] = spelling
    if spellings:
        _add(tokenizer, list(spellings.values()))
    if changed := [f"{old} as {new}" for old, new in spellings.items() if old != new]:
        logger.warning("Added tokens are spelt as the vocabulary normalizes them: %s", changed)
    special = [token.content for token in stored if token.is_special]
    tokenizer._mark_special([spellings.get(content, content) for content in special])


def added_tokens(files: Mapping[str, Mapping[str, Any]]) -> list[AddedToken]:
    """Returns the tokens that transformers' files of any age name, each once.

    Args:
        files: the content of `tokenizer_config.json`, `special_tokens_map.json`,
            `added_tokens.json` and `tokenizer.json`; of those that don't exist, an empty one.
    Raises:
        UserError: a token has no text, or its id is no number.
    """
    tokens: dict[tuple[str, int | None], AddedToken] = {}
    for content, index, file, options in _named_tokens(files):
        if isinstance(index, str) and index.isdecimal() and len(index) < 10:
            index = int(index)
        if not isinstance(content, str) or not (index is None or type(index) is int):
            raise UserError(
                f"An added token in {file} must have a text and an id. Received: "
                f"{reprlib.repr(content)}, {reprlib.repr(index)}. Correct or remove it."
            )
        is_special = index is None or options.get("special") is True
        same = [key for key in tokens if key[0] == content and index in (None, key[1])]
        for key in same:
            tokens[key] = tokens[key]._replace(is_special=tokens[key].is_special or is_special)
        if not same:
            tokens[content, index] = AddedToken(content, index, file, is_special, options)
    return list(tokens.values())


def _named_tokens(
    files: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[Any, Any, str, Mapping[str, Any]]]:
    """Yields text, id, file and options of each token, unchecked; an additional one has no id."""
    decoder = files[TOKENIZER_CONFIG].get("added_tokens_decoder")
    for index, token in decoder.items() if isinstance(decoder, dict) else ():
        content, options = text_and_options(token)
        yield content, index, TOKENIZER_CONFIG, options
    for content, index in files[ADDED_TOKENS].items():
        yield content, index, ADDED_TOKENS, {}
    listed = files[TOKENIZER_JSON].get("added_tokens")
    for token in listed if isinstance(listed, list) else ():
        content, options = text_and_options(token)
        yield content, options.get("id", ""), TOKENIZER_JSON, options
    for file in (SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG):
        for name in ADDITIONAL:
            listed = files[file].get(name)
            for token in listed if isinstance(listed, list) else ():
                content, options = text_and_options(token)
                yield content, None, file, options


def text_and_options(token: Any) -> tuple[Any, Mapping[str, Any]]:
    """Returns a token's text and options; transformers writes it as a string or as a dict."""
    return (token.get("content"), token) if isinstance(token, dict) else (token, {})


def check_special(tokenizer: Any, stored: Mapping[str, Any]) -> None:
    """Refuses special tokens that files name otherwise than the vocabulary.

    Args:
        stored: texts by transformers' names; other keys don't count.
    """
    for name in _TRAINED:
        own, given = getattr(tokenizer, f"{name}_token"), stored.get(f"{name}_token")
        if given not in (None, own):
            raise UserError(
                f"{name}_token of a checkpoint must be the vocabulary's, {own!r}. Received: "
                f"{short_repr(given)}. A model that was trained with another one can't be read; "
                "otherwise correct tokenizer_config.json and special_tokens_map.json."
            )


def _not_read(token: AddedToken, rule: str) -> UserError:
    return UserError(
        f"An added token of a checkpoint {rule}. Received: {short_repr(token.content)} with the id "
        f"{token.number} in {token.file}. Correct the file; or remove the token from it, and "
        "the model's embedding of it with resize_token_embeddings."
    )


def _spelling(tokenizer: Any, token: str) -> str:
    """Returns a token as the vocabulary normalizes it; it has "▁" at its start only if given."""
    tokens = tokenizer.tokenize(token.replace(SPACE, " "))
    if tokenizer.unk_token in tokens:
        return token.lower() if tokenizer.do_lower_case else token
    read = "".join(token.removeprefix(tokenizer.continuation) for token in tokens)
    return read.removeprefix("" if token.startswith(SPACE) else SPACE)


def _require_token(tokenizer: Any, token: str) -> None:
    """Checks that the vocabulary reads a token as it is written."""
    tokens = tokenizer.tokenize(token.replace(SPACE, " "))
    if tokens in ([token], [SPACE, token]):
        return
    read = _spelling(tokenizer, token)
    is_plain = not set(tokens) & set(tokenizer.all_special_tokens)
    again = "".join(tokenizer.tokenize(read.replace(SPACE, " "))) == "".join(tokens)
    way_out = f"Add {read!r}." if is_plain and again and read != token else "Choose another one."
    raise UserError(
        "An added token must be one that the vocabulary reads as it is written, so that graphs "
        f"and phones find it too. Received: {token!r}, read as {' '.join(tokens)!r}. {way_out}"
    )
