"""The words of a vocabulary: the pieces that begin a word, and those that may replace another."""

import base64
import string
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from albert_tf.text.added_tokens import SPACE
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.scripts import is_unspaced
from albert_tf.text.tokenizer import AlbertTokenizer

WordRule = Literal["original", "spaces", "wordpiece"]
# SHA-256 of the spiece.model of all published English models.
PUBLISHED: Final = "fefb02b667a6c5c2fe27602d28e5fb3428f66ab89c7d6f388e7c8d44a02d0336"
# The original leaves these three out: a piece with one of them begins a word.
_PUNCTUATION: Final = frozenset(string.punctuation) - frozenset("'<=>")
_CONTINUING: Final = frozenset(string.ascii_letters) | _PUNCTUATION
_WORDPIECE_CONTINUES: Final = "##"


class WordTable(NamedTuple):
    """The facts of a vocabulary that masking needs.

    Attributes:
        starts: bool `[V]`, pieces that always begin a word.
        random_ids: int32 `[K]`, pieces that may replace another: all but the special ones.
        pad_id, classify_id, separate_id, mask_id: ids of the special pieces.
        rule: name of the rule of `word_starts`.
    """

    starts: np.ndarray
    random_ids: np.ndarray
    pad_id: int
    classify_id: int
    separate_id: int
    mask_id: int
    rule: WordRule = "original"

    def as_json(self) -> dict[str, Any]:
        """Returns the table as JSON: booleans as bits in base64."""
        is_random = np.isin(np.arange(len(self.starts)), self.random_ids)
        bits = (np.packbits(flags).tobytes() for flags in (self.starts, is_random))
        starts, random = (base64.b64encode(content).decode() for content in bits)
        rest = {name: getattr(self, name) for name in self._fields[2:]}
        return {"vocab_size": len(self.starts), "starts": starts, "random": random, **rest}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "WordTable":
        """Reads `as_json`.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        starts, is_random = (
            np.unpackbits(np.frombuffer(base64.b64decode(content[name]), np.uint8)).astype(bool)[
                : content["vocab_size"]
            ]
            for name in ("starts", "random")
        )
        rest = {name: content[name] for name in cls._fields[2:] if name in content}
        table = cls(starts, np.flatnonzero(is_random).astype(np.int32), **rest)
        ids = (table.pad_id, table.classify_id, table.separate_id, table.mask_id)
        size = content["vocab_size"]
        if {len(starts), len(is_random)} != {size} or not all(0 <= id < size for id in ids):
            raise ValueError("a vocabulary of another size")
        return table


def word_table(tokenizer: BaseTokenizer) -> WordTable:
    """Returns the table of a tokenizer's vocabulary."""
    pieces = tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size))
    rule = word_rule(tokenizer)
    special = np.isin(np.arange(len(pieces)), tokenizer.all_special_ids)
    starts = word_starts(pieces, rule)
    starts[tokenizer.unk_token_id] = True
    return WordTable(
        starts=starts,
        random_ids=np.flatnonzero(~special).astype(np.int32),
        pad_id=tokenizer.pad_token_id,
        classify_id=tokenizer.cls_token_id,
        separate_id=tokenizer.sep_token_id,
        mask_id=tokenizer.mask_token_id,
        rule=rule,
    )


def word_rule(tokenizer: BaseTokenizer) -> WordRule:
    """Returns the rule for a vocabulary: "original" for the published one alone."""
    if not isinstance(tokenizer, AlbertTokenizer):
        return "wordpiece"
    return "original" if tokenizer.baked.sha256 == PUBLISHED else "spaces"


def word_starts(pieces: Sequence[str], rule: WordRule) -> np.ndarray:
    """Returns the pieces that begin a word: bool `[V]`.

    Args:
        rule: "spaces": those after a space, those of punctuation, and in a script without spaces
            all that don't begin with a mark on the letter before. "original": all but those that
            consist of a-z and punctuation, with at least one letter, so that every number, and
            every piece with another letter, is a word. "wordpiece": all that don't begin with `##`.
    """
    begins = {"spaces": _after_space, "original": _as_original, "wordpiece": _no_continuation}
    return np.array([begins[rule](piece) for piece in pieces])


def _after_space(piece: str) -> bool:
    first, *_ = kinds = [unicodedata.category(character)[0] for character in piece]
    if piece.startswith(SPACE) or (is_unspaced(piece[0]) and first != "M"):
        return True
    return not set(kinds) & {"L", "M", "N"}


def _as_original(piece: str) -> bool:
    return piece in _PUNCTUATION or not _CONTINUING.issuperset(piece)


def _no_continuation(piece: str) -> bool:
    return not piece.startswith(_WORDPIECE_CONTINUES)
