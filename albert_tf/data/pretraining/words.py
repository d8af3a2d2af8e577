"""The words of a vocabulary: which pieces begin one, and which may replace another."""

import base64
import string
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.text.base_tokenizer import BaseTokenizer

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
    """

    starts: np.ndarray
    random_ids: np.ndarray
    pad_id: int
    classify_id: int
    separate_id: int
    mask_id: int

    def as_json(self) -> dict[str, Any]:
        """The table as JSON: booleans as bits in base64."""
        is_random = np.isin(np.arange(len(self.starts)), self.random_ids)
        bits = (np.packbits(each).tobytes() for each in (self.starts, is_random))
        starts, random = (base64.b64encode(each).decode() for each in bits)
        ids = {name: getattr(self, name) for name in self._fields[2:]}
        return {"vocab_size": len(self.starts), "starts": starts, "random": random, **ids}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "WordTable":
        """Reads `as_json`."""
        starts, is_random = (
            np.unpackbits(
                np.frombuffer(base64.b64decode(found[name]), np.uint8), count=found["vocab_size"]
            ).astype(bool)
            for name in ("starts", "random")
        )
        ids = (found[name] for name in cls._fields[2:])
        return cls(starts, np.flatnonzero(is_random).astype(np.int32), *ids)


def word_table(tokenizer: BaseTokenizer) -> WordTable:
    """The table of a tokenizer's vocabulary."""
    pieces = tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size))
    special = set(tokenizer.all_special_ids)
    return WordTable(
        starts=word_starts(pieces),
        random_ids=np.array([i for i in range(len(pieces)) if i not in special], np.int32),
        pad_id=tokenizer.pad_token_id,
        classify_id=tokenizer.cls_token_id,
        separate_id=tokenizer.sep_token_id,
        mask_id=tokenizer.mask_token_id,
    )


def word_starts(pieces: Sequence[str]) -> np.ndarray:
    """bool `[V]`: the pieces that begin a word.

    In a SentencePiece vocabulary a piece continues a word if it consists of a-z and punctuation,
    with at least one letter: the original's rule, by which every number is a word. In a WordPiece
    vocabulary it does if it begins with `##`.
    """
    if any(piece.startswith(_WORDPIECE_CONTINUES) for piece in pieces):
        return np.array([not piece.startswith(_WORDPIECE_CONTINUES) for piece in pieces])
    return np.array(
        [piece in _PUNCTUATION or not _CONTINUING.issuperset(piece) for piece in pieces]
    )
