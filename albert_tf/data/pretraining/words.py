"""Which pieces begin a word, and which may stand in for another at random."""

import string
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from albert_tf.text.base_tokenizer import BaseTokenizer

# The original leaves these three out: a piece with one of them begins a word.
_PUNCTUATION: Final = frozenset(string.punctuation) - frozenset("'<=>")
_CONTINUING: Final = frozenset(string.ascii_letters) | _PUNCTUATION
_WORDPIECE_CONTINUES: Final = "##"


class WordTable(NamedTuple):
    """What masking needs of a vocabulary.

    Attributes:
        starts: bool `[V]`, pieces that begin a word wherever they stand.
        random_ids: int32 `[K]`, pieces that may be put in the place of another: none is special.
        pad_id, classify_id, separate_id, mask_id: ids of the special pieces.
    """

    starts: np.ndarray
    random_ids: np.ndarray
    pad_id: int
    classify_id: int
    separate_id: int
    mask_id: int


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
    """bool `[V]`: which pieces begin a word.

    In a SentencePiece vocabulary a piece goes on with the word before it if it is made of a-z and
    punctuation alone, with some letter: the original's rule, which takes a number for a word of its
    own. In a WordPiece vocabulary it does if it begins with `##`.
    """
    if any(piece.startswith(_WORDPIECE_CONTINUES) for piece in pieces):
        return np.array([not piece.startswith(_WORDPIECE_CONTINUES) for piece in pieces])
    return np.array(
        [piece in _PUNCTUATION or not _CONTINUING.issuperset(piece) for piece in pieces]
    )
