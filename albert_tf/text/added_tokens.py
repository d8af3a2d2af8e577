"""Adds pieces to a tokenizer's vocabulary, which stays true in every runtime."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from albert_tf.errors import UserError
from albert_tf.text.tokenizer_files import ADDITIONAL

SPACE: Final = "▁"  # SentencePiece's space, which begins a word.


def add_tokens(tokenizer: Any, new_tokens: str | Sequence[Any], special: bool = False) -> int:
    """Adds pieces at the end of a vocabulary; see `BaseTokenizer.add_tokens`."""
    tokens = [new_tokens] if isinstance(new_tokens, str) else [str(token) for token in new_tokens]
    known = tokenizer.get_vocab()
    new = [token for token in dict.fromkeys(tokens) if token not in known]
    marked = [*tokenizer.additional_special_tokens, *(tokens if special else ())]
    if "" in new:
        raise UserError("An added token must have a character or more. Received: ''.")
    if new:
        larger = type(tokenizer)(tokenizer._with_pieces(new), **tokenizer.settings)
        for token in new:
            _require_piece(larger, token)
        vars(tokenizer).update(vars(larger))
    tokenizer._mark_special(marked)
    return len(new)


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
    return [token for each in given for token in ([each] if isinstance(each, str) else each)]


def _require_piece(tokenizer: Any, token: str) -> None:
    """Checks that the vocabulary reads a piece as it is written."""
    pieces = tokenizer.tokenize(token.replace(SPACE, " "))
    if pieces in ([token], [SPACE, token]):
        return
    read = "".join(pieces).removeprefix("" if token.startswith(SPACE) else SPACE)
    is_plain = not set(pieces) & set(tokenizer.all_special_tokens)
    again = "".join(tokenizer.tokenize(read.replace(SPACE, " "))) == "".join(pieces)
    way_out = f"Add {read!r}." if is_plain and again and read != token else "Choose another one."
    raise UserError(
        "An added token must be one that the vocabulary reads as it is written, so that graphs "
        f"and phones find it too. Received: {token!r}, read as {' '.join(pieces)!r}. {way_out}"
    )
