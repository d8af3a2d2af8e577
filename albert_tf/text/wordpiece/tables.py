"""Rules and pieces as the tables of tensorflow-text's operators.

`FastBertNormalize` replaces characters by a table, `FastWordpieceTokenize` looks words up. As they
come they aren't BERT's: to the first U+FF0C, the Chinese comma, is a comma (it applies NFKC), to
the second a word of over 100 bytes, not 100 characters, is unknown. So the table made here turns
every character of the vocabulary into a private one that takes 4 bytes in UTF-8, and every other
into one that no piece has, and puts white space wherever words end; the pieces are rewritten alike.
"""

import functools
import struct
from collections import Counter
from collections.abc import Mapping
from typing import Final

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
import sentencepiece

from albert_tf.errors import UserError
from albert_tf.text.sentencepiece_messages import NormalizerSpec
from albert_tf.text.wordpiece.rules import Rules
from albert_tf.text.wordpiece.vocabulary import SUFFIX, Vocabulary

LONGEST_WORD: Final = 100  # Characters; transformers' `max_input_chars_per_word`.
BYTES: Final = 4  # Of a code in UTF-8.
CODES: Final = range(0xF0000, 0xFFFFE)  # Supplementary private use area A.
UNKNOWN: Final = chr(0x10FFFD)
# FastBertNormalize's value: this bit, then where the replacement starts, then its length in bytes.
_REPLACED, _LENGTH_BITS = 1 << 30, 6
_LEAF = 1 << 31  # Marks a value among the cells of a Darts trie.


@functools.lru_cache(maxsize=4)
def compile_tables(vocabulary: Vocabulary, rules: Rules) -> tuple[bytes, tuple[str, ...]]:
    """The model of `FastBertNormalizer`, and the rewritten pieces for `FastWordpieceTokenizer`.

    Raises:
        UserError: more different characters than codes.
    """
    codes = _codes(vocabulary)
    replacements = {
        character: "".join(each if each == " " else codes.get(each, UNKNOWN) for each in text)
        for character, text in rules.table()
    }
    return _normalizer_model(replacements), _rewritten(vocabulary, codes)


def _codes(vocabulary: Vocabulary) -> dict[str, str]:
    characters = sorted({each for piece in vocabulary.pieces for each in _body(piece)})
    if len(characters) > len(CODES):
        raise UserError(
            f"A vocabulary may have {len(CODES)} different characters. Received: "
            f"{len(characters)}. Leave the rarest out."
        )
    return {character: chr(code) for character, code in zip(characters, CODES, strict=False)}


def _body(piece: str) -> str:
    return piece.removeprefix(SUFFIX)


def _rewritten(vocabulary: Vocabulary, codes: Mapping[str, str]) -> tuple[str, ...]:
    """The pieces in codes; what can't be met in a text is a number in ASCII, which has no code."""
    left = Counter(vocabulary.pieces)
    pieces = []
    for index, piece in enumerate(vocabulary.pieces):
        left[piece] -= 1
        if left[piece] or not _body(piece) or index == vocabulary.special.unknown_id:
            pieces.append(str(index))
        else:
            start = SUFFIX if piece.startswith(SUFFIX) else ""
            pieces.append(start + "".join(codes[each] for each in _body(piece)))
    return tuple(pieces)


def _normalizer_model(replacements: Mapping[str, str]) -> bytes:
    """A flatbuffer with tensorflow-text's `fast_bert_normalizer_model.fbs` as its schema."""
    trie, pool = _trie(replacements)
    places = np.flatnonzero(trie & _LEAF)
    starts = trie[places] ^ _LEAF
    lengths = [pool.index(b"\0", start) - start for start in starts.tolist()]
    trie[places] = _LEAF | _REPLACED | starts << _LENGTH_BITS | np.array(lengths, np.uint32)

    builder = flatbuffers.Builder()
    texts = builder.CreateNumpyVector(np.frombuffer(pool, np.uint8))
    cells = builder.CreateNumpyVector(trie)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, cells, 0)
    builder.PrependInt32Slot(2, _REPLACED, 0)  # U+0000, which the trie can't hold, is dropped.
    builder.PrependUOffsetTRelativeSlot(3, texts, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def _trie(replacements: Mapping[str, str]) -> tuple[np.ndarray, bytes]:
    """A Darts trie (uint32) whose values are places in the texts, each with a NUL at its end.

    SentencePiece makes one of the same kind: its `precompiled_charsmap` is the trie's size in
    bytes, the trie, the texts.
    """
    normalizer = sentencepiece.SentencePieceNormalizer(
        norm_map=[(key, value) for key, value in replacements.items() if key != value],
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    spec = NormalizerSpec()
    spec.ParseFromString(normalizer.serialized_normalizer_spec())
    table = spec.precompiled_charsmap
    end = struct.calcsize("<I") + struct.unpack_from("<I", table)[0]
    return np.frombuffer(table[4:end], "<u4").copy(), table[end:]
