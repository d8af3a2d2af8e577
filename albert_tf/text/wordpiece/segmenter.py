"""Raw text to WordPiece ids, with offsets into the raw text on request."""

from collections.abc import Sequence

import numpy as np

from albert_tf.text.segmenter import Pieces, Segmenter, trimmed
from albert_tf.text.wordpiece.graph import WordPiece
from albert_tf.text.wordpiece.rules import Rules
from albert_tf.text.wordpiece.vocabulary import SUFFIX, Vocabulary

CLOSE_UP = (".", "?", "!", ",")  # No space stands before these in a decoded text.
BATCH = 4096


class WordPieceSegmenter(Segmenter):
    """Cuts raw text into pieces, by the operators that graphs have: so their ids are the same.

    Args:
        vocabulary: the pieces.
        rules: what happens to text before.
    """

    def __init__(self, vocabulary: Vocabulary, rules: Rules):
        self.special = vocabulary.special
        self.vocabulary, self.rules = vocabulary, rules
        self._ids_by_piece = {piece: index for index, piece in enumerate(vocabulary.pieces)}
        self._graph = WordPiece(vocabulary, rules)

    @property
    def size(self) -> int:
        return len(self.vocabulary.pieces)

    def token(self, index: int) -> str:
        return self.vocabulary.pieces[index]

    def index(self, token: str) -> int:
        return self._ids_by_piece.get(token, self.special.unknown_id)

    def joined(self, tokens: Sequence[str]) -> str:
        text = ""
        for token in tokens:
            if token.startswith(SUFFIX):
                text += token.removeprefix(SUFFIX)
            else:
                text += token if not text or token in CLOSE_UP else f" {token}"
        return text

    def starts_word(self, token: str) -> bool:
        return not token.startswith(SUFFIX)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        rows: list[list[int]] = []
        for start in range(0, len(texts), BATCH):
            batch = [text.encode("utf-8") for text in texts[start : start + BATCH]]
            rows += self._graph.tokenize(batch).to_list()
        return rows

    def _details(self, text: str) -> Pieces:
        """A piece's span ends where the next character starts that makes anything."""
        found = self._graph.spans(text)
        tokens = [self.token(index) for index in found.ids.tolist()]
        starts = np.unique(found.origins)
        ends = starts[np.searchsorted(starts, found.last, side="right")]
        character = _character_of_byte(text)
        spans = zip(character[found.first].tolist(), character[ends].tolist(), strict=True)
        offsets = [trimmed(text, start, end) for start, end in spans]
        return Pieces(found.ids.tolist(), tokens, offsets)


def _character_of_byte(text: str) -> np.ndarray:
    """The number of the character that each byte belongs to; one more entry for the end."""
    content = np.frombuffer(text.encode("utf-8"), np.uint8)
    return np.append(np.cumsum(content & 0xC0 != 0x80) - 1, len(text))
