"""Raw text to SentencePiece ids, singly or in bulk, with offsets into the raw text on request."""

import bisect
from collections.abc import Sequence

import numpy as np
import sentencepiece

from albert_tf.text.segmenter import Pieces, Segmenter, trimmed
from albert_tf.text.special_tokens import SpecialTokens

SPACE = "▁"
_ALL_CORES = -1


class SentencePieceSegmenter(Segmenter):
    """Cuts raw text into the pieces of a baked vocabulary.

    Args:
        model: the baked SentencePiece model.
    """

    special = SpecialTokens()

    def __init__(self, model: bytes):
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @property
    def size(self) -> int:
        return self._processor.get_piece_size()

    def token(self, index: int) -> str:
        return self._processor.id_to_piece(index)

    def index(self, token: str) -> int:
        return self._processor.piece_to_id(token)

    def joined(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(SPACE, " ").removeprefix(" ")

    def starts_word(self, token: str) -> bool:
        return token.startswith(SPACE)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return self._processor.encode(texts, num_threads=_ALL_CORES)

    def encode_arrays(self, texts: list[str]) -> list[np.ndarray]:
        return self._processor.encode(texts, num_threads=1, out_type="numpy")

    def _details(self, text: str) -> Pieces:
        encoded = self._processor.encode(text, out_type="offset_mapping")
        tokens = encoded["pieces"]
        return Pieces(encoded["ids"], tokens, self._spans(text, tokens))

    def _spans(self, text: str, tokens: list[str]) -> list[tuple[int, int]]:
        """The characters of `text` that each token was made from, without white space around them.

        A token that is white space alone has that white space, or nothing at the text's start. A
        character that normalises to several (a ligature) belongs to every token that has one of
        them; one that normalises to nothing (an accent) to the character before it.
        """
        _, origins = self._processor.normalize(text, with_offsets=True)
        starts = sorted(set(origins))
        spans: list[tuple[int, int]] = []
        at = 0
        for token in tokens:
            if at == 0 and token == SPACE:  # SentencePiece's own, before the text.
                spans.append((origins[0], origins[0]))
            else:
                start = origins[at + (token[0] == SPACE and len(token) > 1)]
                last = origins[at + len(token) - 1]
                spans.append(trimmed(text, start, starts[bisect.bisect_right(starts, last)]))
            at += len(token)
        return spans
