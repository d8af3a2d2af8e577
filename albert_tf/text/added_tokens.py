"""Adds tokens to the vocabulary file itself, so that every runtime knows them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

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


def mark_special(tokenizer: Any, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Marks the special tokens that transformers' files of any age name.

    Args:
        files: the content of `tokenizer_config.json`, `special_tokens_map.json`,
            `added_tokens.json` and `tokenizer.json`, where they exist.
    Raises:
        UserError: the vocabulary lacks a token that they name, or has it with another id.
    """
    special = []
    for token, number, file in _named_tokens(files):
        content, options = text_and_options(token)
        index = tokenizer.convert_tokens_to_ids(str(content))
        is_known = tokenizer.convert_ids_to_tokens(index) == content
        if not is_known or str(number) not in (str(index), "None"):
            raise UserError(
                "Every token that a checkpoint adds must be in its vocabulary, so that graphs and "
                f"phones find it too. Received: {short_repr(content)} with the id {number} in "
                f"{file}. Load the vocabulary file alone, add the tokens with add_tokens in the "
                "order of their ids, and save it in a folder of its own."
            )
        if number is None or options.get("special") is True:
            special.append(content)
    tokenizer._mark_special(special)


def _named_tokens(files: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Any, Any, str]]:
    """Yields token, id and file of each added token, unchecked; an additional one has no id."""
    decoder = files.get(TOKENIZER_CONFIG, {}).get("added_tokens_decoder")
    for index, token in decoder.items() if isinstance(decoder, dict) else ():
        yield token, index, TOKENIZER_CONFIG
    for content, index in files.get(ADDED_TOKENS, {}).items():
        yield content, index, ADDED_TOKENS
    listed = files.get(TOKENIZER_JSON, {}).get("added_tokens")
    for token in listed if isinstance(listed, list) else ():
        yield token, text_and_options(token)[1].get("id", ""), TOKENIZER_JSON
    for file in (SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG):
        for name in ADDITIONAL:
            listed = files.get(file, {}).get(name)
            for token in listed if isinstance(listed, list) else ():
                yield token, None, file


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
