"""WordPiece vocabularies (`vocab.txt`), as used by the Chinese ALBERT models.

BERT cleans and splits text, then looks up the words. Two tensorflow-text operators do this in
Python and in graphs: `FastBertNormalize` replaces characters according to a table, and
`FastWordpieceTokenize` splits at spaces and punctuation and looks up the words. With their default
tables, they return different ids than transformers 5.23 for 3,946 of 14,535 mixed texts: they apply
NFKC (a Chinese comma, U+FF0C, becomes `,`), keep private-use characters and U+FFFD, split at
control characters, and treat words of over 100 bytes as unknown, although BERT's limit is 100
characters.

Both operators accept other tables. With the tables compiled here, they return the same ids as
transformers. The first operator replaces each character of the vocabulary with a code, and every
other character with a code that no token contains. A code is a private-use character of exactly 4
bytes in UTF-8. The operator also adds a space wherever BERT ends a word. The tokens use the same
codes. Private-use characters are neither spaces nor punctuation, so the second operator doesn't
split anywhere else, and its limit of 400 bytes is equivalent to 100 characters.

Sources: `BasicTokenizer` in google-research/albert and `BertTokenizer` in transformers for the
rules; `fast_bert_normalizer.h` and `fast_wordpiece_tokenizer.h` in core/kernels of tensorflow-text.
"""

import functools
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.huggingface import WORDPIECE
from albert_tf.quiet import import_tensorflow_text
from albert_tf.text.model_file import (
    LEAF,
    Source,
    compile_charsmap,
    json_path,
    path_of,
    read_file,
    split_rules,
)
from albert_tf.text.sequences import Side
from albert_tf.text.tokens import SpecialTokens, Tokens, trim
from albert_tf.text.transformers_api import TransformersTokenizer
from albert_tf.text.wordpiece_json import CONTINUATION, LONGEST_WORD, read_normalizer, read_tokens

DROPPED: Final = ("Cc", "Cf", "Co")  # control, format, and private use
CHINESE: Final = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B920, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)
# Ranges that contain all characters that Unicode has assigned so far.
ASSIGNED: Final = (
    range(1, 0xD800),
    range(0xE000, 0x33480),
    range(0xE0000, 0xE0200),
    range(0xF0000, 0x110000),
)


@dataclass(frozen=True)
class Rules:
    """BERT's rules for cleaning and splitting raw text before words are looked up.

    Where google-research/albert and transformers differ, these rules follow transformers, which
    drops private-use characters and doesn't treat U+2B820 to U+2B91F as Chinese. The categories
    come from Python's `unicodedata`. The tables in transformers are older, so the results for new
    characters differ.

    Attributes:
        lower_case: whether to lowercase the text.
        strip_accents: whether to apply NFD and drop nonspacing marks.
        split_chinese: whether to treat every Chinese character as a word.
    """

    lower_case: bool = True
    strip_accents: bool = True
    split_chinese: bool = True

    def __call__(self, character: str) -> str:
        """Returns a character's replacement, in which spaces separate words."""
        category = unicodedata.category(character)
        if character in "\t\n\r" or (character.isspace() and category != "Cc"):
            return " "
        if category in DROPPED or character in "\0\ufffd":
            return ""
        text = character
        if self.strip_accents:
            text = unicodedata.normalize("NFD", text)
            text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        if self.lower_case:
            text = "".join(c.lower() for c in text)
        text = "".join(f" {c} " if is_punctuation(c) else c for c in text)
        return f" {text} " if self.split_chinese and is_chinese(character) else text

    def table(self) -> Iterator[tuple[str, str]]:
        """Yields every assigned character with its replacement."""
        for points in ASSIGNED:
            for character in map(chr, points):
                yield character, self(character)


def is_punctuation(character: str) -> bool:
    """Returns whether a character is an ASCII symbol or Unicode punctuation."""
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def is_chinese(character: str) -> bool:
    """Returns whether a character is a CJK ideograph. Kana and hangul aren't."""
    return any(ord(character) in points for points in CHINESE)


LONGEST_TOKEN: Final = 64  # characters; FastWordpieceTokenizer allows 256 bytes, or 64 codes
SPECIAL_NAMES: Final = {
    f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")
}


@dataclass(frozen=True)
class Vocabulary:
    """A WordPiece vocabulary.

    Attributes:
        tokens: the tokens in the order of their ids. If a token occurs twice, its last id is used.
        special: the special tokens, which can have any ids.
    """

    tokens: tuple[str, ...]
    special: SpecialTokens

    @classmethod
    def read(cls, source: Source, special: Mapping[str, str]) -> "Vocabulary":
        """Reads `vocab.txt` (one token per line), or the vocabulary in a `tokenizer.json`.

        `special` contains special tokens that differ from the defaults in `SPECIAL_NAMES`.
        """
        content, origin = read_file(source, "vocab.txt")
        path = json_path(source)
        tokens = _lines(content, origin) if path is None else read_tokens(path)
        longest = max(map(len, tokens), default=0)
        if longest > LONGEST_TOKEN:
            raise UserError(
                f"tensorflow-text supports tokens of at most {LONGEST_TOKEN} characters. "
                f"Received: {origin}, with a token of {longest:,}. Copy the vocabulary again."
            )
        ids = {token: index for index, token in enumerate(tokens)}
        names = tuple({**SPECIAL_NAMES, **special}.values())
        missing = [name or "''" for name in names if not name or name not in ids]
        if missing:
            raise UserError(
                f"{origin} ({len(tokens)} tokens) lacks the special tokens "
                f"{', '.join(missing)}. Use the vocab.txt of the checkpoint, or pass its special "
                "tokens (unk_token=…)."
            )
        return cls(tokens, SpecialTokens(names, tuple(ids[name] for name in names)))

    def __bytes__(self) -> bytes:
        return "".join(f"{token}\n" for token in self.tokens).encode("utf-8")


def _lines(content: bytes, origin: str) -> tuple[str, ...]:
    try:
        text = content.decode("utf-8-sig")  # Windows programs may write a byte order mark
    except UnicodeDecodeError as error:
        raise UserError(
            f"{origin} isn't UTF-8 text with one token per line ({error.reason} at byte "
            f"{error.start}). Copy vocab.txt again."
        ) from error
    lines = text.replace("\r\n", "\n").split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


BYTES: Final = 4  # size of a code in UTF-8
CODES: Final = range(0xF0000, 0xFFFFE)  # Supplementary Private Use Area-A
UNKNOWN: Final = chr(0x10FFFD)
# A value in FastBertNormalize contains this bit, and the replacement's start and length in bytes.
_REPLACED, _LENGTH_BITS = 1 << 30, 6


@functools.lru_cache(maxsize=4)
def compile_tables(vocabulary: Vocabulary, rules: Rules) -> tuple[bytes, tuple[str, ...]]:
    """Returns the model for `FastBertNormalizer` and the tokens for `FastWordpieceTokenizer`."""
    codes = _codes(vocabulary)
    replacements = {
        character: "".join(c if c == " " else codes.get(c, UNKNOWN) for c in text)
        for character, text in rules.table()
    }
    return _normalizer_model(replacements), _recode_tokens(vocabulary, codes)


def _codes(vocabulary: Vocabulary) -> dict[str, str]:
    characters = sorted({character for token in vocabulary.tokens for character in _body(token)})
    if len(characters) > len(CODES):
        raise UserError(
            f"A WordPiece vocabulary can contain at most {len(CODES)} distinct characters. "
            f"Received: {len(characters)}. Remove the tokens with the rarest characters."
        )
    return {character: chr(code) for character, code in zip(characters, CODES, strict=False)}


def _body(token: str) -> str:
    return token.removeprefix(CONTINUATION)


def _recode_tokens(vocabulary: Vocabulary, codes: Mapping[str, str]) -> tuple[str, ...]:
    """Replaces each character in the tokens with its code.

    Unreachable tokens are replaced with strings of ASCII digits that match no normalized text.
    """
    left = Counter(vocabulary.tokens)
    tokens = []
    for index, token in enumerate(vocabulary.tokens):
        left[token] -= 1
        if left[token] or not _body(token) or index == vocabulary.special.unknown_id:
            tokens.append(str(index))
        else:
            start = CONTINUATION if token.startswith(CONTINUATION) else ""
            tokens.append(start + "".join(codes[character] for character in _body(token)))
    return tuple(tokens)


def _normalizer_model(replacements: Mapping[str, str]) -> bytes:
    """Returns a flatbuffer with tensorflow-text's schema `fast_bert_normalizer_model.fbs`."""
    trie, pool = split_rules(compile_charsmap(replacements.items()))
    leaves = np.flatnonzero(trie & LEAF)
    starts = trie[leaves] ^ LEAF
    lengths = [pool.index(b"\0", start) - start for start in starts.tolist()]
    trie[leaves] = LEAF | _REPLACED | starts << _LENGTH_BITS | np.array(lengths, np.uint32)

    builder = flatbuffers.Builder()
    texts = builder.CreateNumpyVector(np.frombuffer(pool, np.uint8))
    cells = builder.CreateNumpyVector(trie)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, cells, 0)
    builder.PrependInt32Slot(2, _REPLACED, 0)  # drops U+0000, which can't be a key of the trie
    builder.PrependUOffsetTRelativeSlot(3, texts, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


CLOSE_UP: Final = (".", "?", "!", ",")  # decoding adds no space before these
BATCH: Final = 4096


class WordPieceTokenizer(TransformersTokenizer):
    """Tokenizer with a WordPiece vocabulary, which converts raw text to ids like BERT's tokenizer.

    Example:

    >>> from albert_tf import WordPieceTokenizer
    >>> tokens = "[PAD] [UNK] [CLS] [SEP] [MASK] 天 气 good ##ness".split()
    >>> tokenizer = WordPieceTokenizer("\\n".join(tokens).encode())
    >>> tokenizer.tokenize("天气 Goodness!")
    ['天', '气', 'good', '##ness', '[UNK]']

    Args:
        vocab_file: path or bytes of `vocab.txt` (one token per line), or path of a
            `tokenizer.json`.
        do_lower_case: whether to lowercase the text. Default: True. For a `tokenizer.json`, if this
            argument is omitted, the normalizer in the file determines the defaults of this and the
            next two arguments.
        strip_accents: whether to drop accents. Default: same as `do_lower_case`.
        tokenize_chinese_chars: whether to treat every Chinese character as a word. Default: True.
        model_max_length: see `AlbertTokenizer`.
        split_special_tokens: see `AlbertTokenizer`.
        padding_side: see `AlbertTokenizer`.
        truncation_side: see `AlbertTokenizer`.
        **options: the special tokens `pad_token`, `unk_token`, `cls_token`, `sep_token`, and
            `mask_token` (default: `[PAD]`, `[UNK]`, and so on), and other arguments of the
            transformers class, which must have their default values.
    Raises:
        UserError: if the file doesn't exist, isn't a vocabulary, or lacks a special token, or if a
            step in a `tokenizer.json` differs from BERT's.
    """

    vocab_name = "vocab.txt"
    hub_class = "BertTokenizer"
    continuation = CONTINUATION
    SETTINGS: ClassVar[Mapping[str, type]] = {
        "do_lower_case": bool,
        "strip_accents": bool,
        "tokenize_chinese_chars": bool,
        **TransformersTokenizer.SETTINGS,
        **dict.fromkeys(SPECIAL_NAMES, str),
    }

    def __init__(
        self,
        vocab_file: Source,
        do_lower_case: bool | None = None,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool | None = None,
        model_max_length: int = 512,
        split_special_tokens: bool = False,
        padding_side: Side = "right",
        truncation_side: Side = "right",
        **options: Any,
    ):
        special = self._own_arguments(options, WORDPIECE)
        self.vocab_file = path_of(vocab_file)
        self._vocabulary = Vocabulary.read(vocab_file, special)
        lower_case, accents, chinese = True, None, True
        if do_lower_case is None and (path := json_path(vocab_file)):
            _, unknown_token, begin, end, _ = self._vocabulary.special.tokens
            lower_case, accents, chinese = read_normalizer(path, begin, end, unknown_token)
        self.do_lower_case = lower_case if do_lower_case is None else do_lower_case
        self.strip_accents = accents if strip_accents is None else strip_accents
        self.tokenize_chinese_chars = (
            chinese if tokenize_chinese_chars is None else tokenize_chinese_chars
        )
        self.keep_accents = not (
            self.do_lower_case if self.strip_accents is None else self.strip_accents
        )
        self._rules = Rules(self.do_lower_case, not self.keep_accents, self.tokenize_chinese_chars)
        tokens = self._vocabulary.tokens
        self._ids_by_token = {token: index for index, token in enumerate(tokens)}
        self._starts_word = np.array([not token.startswith(CONTINUATION) for token in tokens])
        self._graph = WordPiece(self._vocabulary, self._rules)
        super().__init__(
            self._vocabulary.special,
            len(tokens),
            model_max_length,
            split_special_tokens,
            padding_side,
            truncation_side,
        )

    @property
    def model_bytes(self) -> bytes:
        """Content of the vocabulary file, with one token per line."""
        return bytes(self._vocabulary)

    def _with_tokens(self, tokens: Sequence[str]) -> bytes:
        return bytes(self._vocabulary) + "".join(f"{token}\n" for token in tokens).encode()

    def in_graph(self) -> "WordPiece":
        return WordPiece(self._vocabulary, self._rules)

    def _token(self, index: int) -> str:
        return self._vocabulary.tokens[index]

    def _id(self, token: str) -> int:
        return self._ids_by_token.get(token, self.special.unknown_id)

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        text = ""
        for token in tokens:
            if token.startswith(CONTINUATION):
                text += token.removeprefix(CONTINUATION)
            else:
                text += token if not text or token in CLOSE_UP else f" {token}"
        return text

    def encode_plain(self, texts: list[str], threads: int = 1) -> list[np.ndarray]:
        """Encodes texts in batches. TensorFlow chooses the number of threads."""
        encoded: list[np.ndarray] = []
        for start in range(0, len(texts), BATCH):
            batch = [text.encode("utf-8") for text in texts[start : start + BATCH]]
            ids = self._graph.tokenize(batch)
            encoded += np.split(ids.values.numpy(), ids.row_splits.numpy()[1:-1])
        return encoded

    def _tokenize(self, text: str) -> list[str]:
        [ids] = self.encode_plain([text])
        return [self._token(index) for index in ids.tolist()]

    def _encode_with_offsets(self, text: str) -> Tokens:
        """Finds the character span of each token, including dropped characters that follow."""
        ids, first, last, origins = self._graph.tokenize_with_bytes(text)
        ends = origins[np.searchsorted(origins, last, side="right")]
        character = _character_of_byte(text)
        offsets = np.stack([character[first], character[ends]], axis=1)
        trim(text, offsets)
        is_word = self._starts_word[ids]
        is_word[:1] = True
        return Tokens(ids, offsets, np.cumsum(is_word, dtype=np.int32) - 1)


class WordPiece(tf.Module):
    """Encodes texts as WordPiece tokens with two tensorflow-text operators, eagerly or in a graph.

    Args:
        vocabulary: the tokens.
        rules: the rules for cleaning and splitting text.
    """

    def __init__(self, vocabulary: Vocabulary, rules: Rules):
        super().__init__()
        tensorflow_text = import_tensorflow_text(
            "A WordPiece vocabulary (vocab.txt)",
            "Choose a model with a SentencePiece vocabulary (spiece.model), or use Linux or macOS.",
        )
        table, tokens = compile_tables(vocabulary, rules)
        with tf.init_scope():
            model = tf.constant(np.frombuffer(table, np.uint8))
            self._normalizer = tensorflow_text.FastBertNormalizer(model_buffer=model)
            self._pieces = tensorflow_text.FastWordpieceTokenizer(
                list(tokens),
                suffix_indicator=CONTINUATION,
                max_bytes_per_word=LONGEST_WORD * BYTES,
                unknown_token=tokens[vocabulary.special.unknown_id],
                token_out_type=tf.int32,
            )

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """Returns the ids of strings `[B]` as ragged int32 `[B, T]`."""
        return self._pieces.tokenize(self._normalizer.normalize(texts))

    def tokenize_with_bytes(self, text: str) -> tuple[np.ndarray, ...]:
        """Tokenizes a text and finds the source bytes of each token.

        Returns:
            Four arrays: the ids of the tokens, the offsets of each token's first and last byte in
            the text, and the offset of each normalized byte in the text.
        """
        normalized, origins = self._normalizer.normalize_with_offsets([text.encode("utf-8")])
        ids, starts, ends = self._pieces.tokenize_with_offsets(normalized)
        origin = origins.values.numpy()
        first, last = origin[starts.values.numpy()], origin[ends.values.numpy() - 1]
        return ids.values.numpy(), first, last, origin


def _character_of_byte(text: str) -> np.ndarray:
    """Returns the character index of each UTF-8 byte and of the end of the text."""
    content = np.frombuffer(text.encode("utf-8"), np.uint8)
    return np.append(np.cumsum(content & 0xC0 != 0x80, dtype=np.int32) - 1, len(text))
