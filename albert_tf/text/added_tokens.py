"""Adds tokens to the vocabulary file itself, so that they work in every runtime."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from albert_tf.checkpoints.finder import (
    ADDED_TOKENS,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
)
from albert_tf.errors import UserError, short_repr

# The transformers keys for special tokens other than the model's own.
ADDITIONAL: Final = ("additional_special_tokens", "extra_special_tokens")
SPACE: Final = "▁"  # SentencePiece's symbol for the space before a word
# The special tokens that models are trained with.
_TRAINED: Final = ("cls", "sep", "mask", "pad", "unk")


def add_tokens(tokenizer: Any, new_tokens: str | Sequence[Any], special: bool = False) -> int:
    """Adds tokens at the end of a vocabulary; see `TransformersTokenizer.add_tokens`."""
    tokens = [new_tokens] if isinstance(new_tokens, str) else [str(token) for token in new_tokens]
    known = tokenizer.get_vocab()
    new = [token for token in dict.fromkeys(tokens) if token not in known]
    marked = [*tokenizer.additional_special_tokens, *(tokens if special else ())]
    if "" in new:
        raise UserError("An added token must not be empty. Received: ''.")
    if new:
        larger = type(tokenizer)(tokenizer._with_tokens(new), **tokenizer.settings)
        for token in new:
            _require_token(larger, token)
        vars(tokenizer).update(vars(larger))
    tokenizer._mark_special(marked)
    return len(new)


def additional_tokens(tokenizer: Any, special_tokens: Mapping[str, Any]) -> list[str]:
    """Returns the tokens to add, given a transformers dict of special tokens."""
    known = tokenizer.special_tokens_map
    for name, token in special_tokens.items():
        if name not in ADDITIONAL and str(token) != known.get(name):
            raise UserError(
                f"{name} is part of the vocabulary and can't be changed. Received: "
                f"{name}={str(token)!r} instead of {known.get(name)!r}. Add the token under "
                f"{ADDITIONAL[0]!r}, or drop it."
            )
    given = [special_tokens.get(name) or () for name in ADDITIONAL]
    return [token for value in given for token in ([value] if isinstance(value, str) else value)]


def mark_special(tokenizer: Any, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Marks the added tokens that a tokenizer's JSON files declare as special.

    The files can come from any transformers version.
    """
    special = []
    # transformers 5 also lists all other added tokens under `extra_special_tokens`.
    listed = files.get(TOKENIZER_JSON, {}).get("added_tokens") or ()
    plain = {text for text, options in map(text_and_options, listed) if not options.get("special")}
    for token, number, file in _named_tokens(files):
        content, options = text_and_options(token)
        index = tokenizer.convert_tokens_to_ids(str(content))
        is_known = tokenizer.convert_ids_to_tokens(index) == content
        if not is_known or str(number) not in (str(index), "None"):
            raise UserError(
                f"{file} adds a token that the vocabulary file doesn't contain, so exported models "
                f"wouldn't support it. Received: {short_repr(content)} with id {number}. Load only "
                "the vocabulary file, add the tokens with add_tokens in the order of their ids, "
                "and save the tokenizer to a new folder."
            )
        is_special = options.get("special") is True
        if is_special or (number is None and content not in plain):
            special.append(content)
    tokenizer._mark_special(special)


def _named_tokens(files: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Any, Any, str]]:
    """Yields each added token, its id (None for additional special tokens), and its file."""
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
    """Returns the text and options of a token, which transformers writes as a string or a dict."""
    return (token.get("content"), token) if isinstance(token, dict) else (token, {})


def check_special(
    tokenizer: Any, files: Mapping[str, Mapping[str, Any]], options: Mapping[str, Any]
) -> None:
    """Checks that the special tokens in JSON files or options match the vocabulary."""
    stored = {**files.get(SPECIAL_TOKENS_MAP, {}), **files.get(TOKENIZER_CONFIG, {}), **options}
    for name in _TRAINED:
        own = getattr(tokenizer, f"{name}_token")
        given, _ = text_and_options(stored.get(f"{name}_token"))
        if given not in (None, own):
            raise UserError(
                f"{name}_token must be {own!r}, as in the vocabulary. Received: "
                f"{short_repr(given)}. Correct tokenizer_config.json and special_tokens_map.json. "
                "Models trained with a different token aren't supported."
            )


def _spelling(tokenizer: Any, token: str) -> str:
    """Returns a token in normalized form, with a leading "▁" only if the token has one."""
    tokens = tokenizer.tokenize(token.replace(SPACE, " "))
    if tokenizer.unk_token in tokens:
        return token.lower() if tokenizer.do_lower_case else token
    read = "".join(token.removeprefix(tokenizer.continuation) for token in tokens)
    return read.removeprefix("" if token.startswith(SPACE) else SPACE)


def _require_token(tokenizer: Any, token: str) -> None:
    """Checks that the vocabulary encodes a token's text as that token."""
    tokens = tokenizer.tokenize(token.replace(SPACE, " "))
    if tokens in ([token], [SPACE, token]):
        return
    read = _spelling(tokenizer, token)
    is_plain = not set(tokens) & set(tokenizer.all_special_tokens)
    again = "".join(tokenizer.tokenize(read.replace(SPACE, " "))) == "".join(tokens)
    way_out = f"Add {read!r}." if is_plain and again and read != token else "Choose another token."
    raise UserError(
        f"The token {token!r} can't be added, because the vocabulary encodes it as "
        f"{' '.join(tokens)!r}. {way_out}"
    )
