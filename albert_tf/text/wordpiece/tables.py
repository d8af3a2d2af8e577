"""BERT's rules and a vocabulary as tables for tensorflow-text's two operators.

`FastBertNormalize` replaces characters by a table, then `FastWordpieceTokenize` splits at spaces
and punctuation and looks words up. Used as they come, they differ from BERT in two ways: the first
applies NFKC (a Chinese comma, U+FF0C, becomes `,`), and the second makes words of over 100 bytes
unknown, where BERT counts 100 characters. Both operators take their tables from the caller, so the
tables made here implement BERT's rules: the first operator replaces each character of the
vocabulary by a code, a private-use character that takes exactly 4 bytes in UTF-8, and any other
character by a code that no piece has; it adds a space wherever BERT ends a word. The pieces are
written in the same codes. Private-use characters are neither spaces nor punctuation, so the second
operator splits nowhere else, and its limit of 400 bytes is 100 characters.

Source: tensorflow-text, core/kernels: `fast_bert_normalizer.h`, `fast_wordpiece_tokenizer.h`.
"""

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Final

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
import sentencepiece

from albert_tf.errors import UserError
from albert_tf.text.model_file import LEAF, NormalizerSpec, split_rules
from albert_tf.text.wordpiece.rules import Rules
from albert_tf.text.wordpiece.vocabulary import SUFFIX, Vocabulary

LONGEST_WORD: Final = 100  # Characters; transformers' `max_input_chars_per_word`.
BYTES: Final = 4  # Size of a code in UTF-8.
CODES: Final = range(0xF0000, 0xFFFFE)  # Supplementary private use area A.
UNKNOWN: Final = chr(0x10FFFD)
# FastBertNormalize's value: this bit, then the replacement's start, then its length in bytes.
_REPLACED, _LENGTH_BITS = 1 << 30, 6


@functools.lru_cache(maxsize=4)
def compile_tables(vocabulary: Vocabulary, rules: Rules) -> tuple[bytes, tuple[str, ...]]:
    """Returns the model of `FastBertNormalizer`, and the pieces for `FastWordpieceTokenizer`.

    Raises:
        UserError: the vocabulary has more different characters than there are codes.
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
    """Returns the pieces in codes. Unreachable pieces become ASCII numbers, which have no code."""
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
    """Returns a flatbuffer of the schema `fast_bert_normalizer_model.fbs` in tensorflow-text."""
    trie, pool = _trie(replacements)
    leaves = np.flatnonzero(trie & LEAF)
    starts = trie[leaves] ^ LEAF
    lengths = [pool.index(b"\0", start) - start for start in starts.tolist()]
    trie[leaves] = LEAF | _REPLACED | starts << _LENGTH_BITS | np.array(lengths, np.uint32)

    builder = flatbuffers.Builder()
    texts = builder.CreateNumpyVector(np.frombuffer(pool, np.uint8))
    cells = builder.CreateNumpyVector(trie)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, cells, 0)
    builder.PrependInt32Slot(2, _REPLACED, 0)  # Drops U+0000, which cannot be a key of the trie.
    builder.PrependUOffsetTRelativeSlot(3, texts, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def _trie(replacements: Mapping[str, str]) -> tuple[np.ndarray, bytes]:
    """Returns the trie that SentencePiece builds for these rules, and their texts."""
    sentencepiece.set_min_log_level(1)  # Otherwise it prints the size of every table.
    normalizer = sentencepiece.SentencePieceNormalizer(
        norm_map=[(key, value) for key, value in replacements.items() if key != value],
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    spec = NormalizerSpec()
    spec.ParseFromString(normalizer.serialized_normalizer_spec())
    return split_rules(spec.precompiled_charsmap)
