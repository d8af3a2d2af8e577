"""The tokenizer of models with a WordPiece vocabulary, such as the Chinese ones."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.call_arguments import Side
from albert_tf.text.model_file import Source
from albert_tf.text.segmenter import Pieces, Segmenter, trim
from albert_tf.text.wordpiece.rules import Rules
from albert_tf.text.wordpiece.tables import BYTES, LONGEST_WORD, compile_tables
from albert_tf.text.wordpiece.vocabulary import SPECIAL_NAMES, SUFFIX, Vocabulary

CLOSE_UP: Final = (".", "?", "!", ",")  # No space before these in a decoded text.
BATCH: Final = 4096


class WordPieceTokenizer(BaseTokenizer):
    """Raw text to ids of a WordPiece vocabulary; ids are those of BERT's tokenizer.

    Example:

    >>> from albert_tf import WordPieceTokenizer
    >>> pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] 天 气 good ##ness".split()
    >>> tokenizer = WordPieceTokenizer("\\n".join(pieces).encode())
    >>> tokenizer.tokenize("天气 Goodness!")
    ['天', '气', 'good', '##ness', '[UNK]']

    Args:
        vocab_file: path of `vocab.txt` (one piece per line) or its bytes, or of a
            `tokenizer.json`.
        do_lower_case: lower-case the text.
        strip_accents: drop accents. Default: as `do_lower_case`.
        tokenize_chinese_chars: make every Chinese character a word.
        model_max_length: as `AlbertTokenizer`'s.
        split_special_tokens: as `AlbertTokenizer`'s.
        padding_side: as `AlbertTokenizer`'s.
        truncation_side: as `AlbertTokenizer`'s.
        **special: the special tokens: `pad_token`, `unk_token`, `cls_token`, `sep_token`,
            `mask_token`. Default: `[PAD]`, `[UNK]` and so on.
    Raises:
        UserError: the file doesn't exist, isn't a vocabulary, or lacks a special token.
    """

    vocab_name = "vocab.txt"
    hub_class = "BertTokenizer"
    SETTINGS: ClassVar = {
        "do_lower_case": bool,
        "strip_accents": bool,
        "tokenize_chinese_chars": bool,
        "model_max_length": int,
        "split_special_tokens": bool,
        "padding_side": str,
        "truncation_side": str,
        **dict.fromkeys(SPECIAL_NAMES, str),
    }

    def __init__(
        self,
        vocab_file: Source,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        model_max_length: int = 512,
        split_special_tokens: bool = False,
        padding_side: Side = "right",
        truncation_side: Side = "right",
        **special: str,
    ):
        unknown = [name for name in special if name not in SPECIAL_NAMES]
        if unknown:
            raise TypeError(
                f"A WordPiece tokenizer's options are {', '.join(self.SETTINGS)}. "
                f"Received: {', '.join(unknown)}. Leave them out."
            )
        self.do_lower_case, self.strip_accents = do_lower_case, strip_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.keep_accents = not (do_lower_case if strip_accents is None else strip_accents)
        self._rules = Rules(do_lower_case, not self.keep_accents, tokenize_chinese_chars)
        self._vocabulary = Vocabulary.read(vocab_file, special)
        segmenter = WordPieceSegmenter(self._vocabulary, self._rules)
        super().__init__(
            segmenter, model_max_length, split_special_tokens, padding_side, truncation_side
        )

    @property
    def model_bytes(self) -> bytes:
        """Content of the vocabulary file: one piece per line."""
        return bytes(self._vocabulary)

    def _with_pieces(self, pieces: Sequence[str]) -> bytes:
        return bytes(self._vocabulary) + "".join(f"{piece}\n" for piece in pieces).encode()

    def in_graph(self) -> "WordPiece":
        return WordPiece(self._vocabulary, self._rules)


class Spans(NamedTuple):
    """The pieces of a text: ids, and their first and last byte in the text; int64 `[T]` each.

    Attributes:
        origins: the byte of the text that made each byte of the normalized text.
    """

    ids: np.ndarray
    first: np.ndarray
    last: np.ndarray
    origins: np.ndarray


class WordPiece(tf.Module):
    """WordPiece by two operators of tensorflow-text, in Python and in graphs alike.

    Args:
        vocabulary: the pieces.
        rules: the cleaning and splitting of text.
    """

    def __init__(self, vocabulary: Vocabulary, rules: Rules):
        super().__init__()
        import tensorflow_text  # This import registers its operators.

        table, pieces = compile_tables(vocabulary, rules)
        with tf.init_scope():
            model = tf.constant(np.frombuffer(table, np.uint8))
            self._normalizer = tensorflow_text.FastBertNormalizer(model_buffer=model)
            self._pieces = tensorflow_text.FastWordpieceTokenizer(
                list(pieces),
                suffix_indicator=SUFFIX,
                max_bytes_per_word=LONGEST_WORD * BYTES,
                unknown_token=pieces[vocabulary.special.unknown_id],
                token_out_type=tf.int32,
            )

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """Strings `[B]` to int32 ids `[B, T]`, ragged."""
        return self._pieces.tokenize(self._normalizer.normalize(texts))

    def spans(self, text: str) -> Spans:
        """Returns the pieces of one text with the bytes that they were made from."""
        normalized, origins = self._normalizer.normalize_with_offsets([text.encode("utf-8")])
        ids, starts, ends = self._pieces.tokenize_with_offsets(normalized)
        origin = origins.values.numpy()
        first, last = origin[starts.values.numpy()], origin[ends.values.numpy() - 1]
        return Spans(ids.values.numpy(), first, last, origin)


class WordPieceSegmenter(Segmenter):
    """Cuts raw text into pieces with the graph's operators, so that the ids are the same.

    Args:
        vocabulary: the pieces.
        rules: the cleaning and splitting of text.
    """

    def __init__(self, vocabulary: Vocabulary, rules: Rules):
        self.special = vocabulary.special
        self._vocabulary = vocabulary.pieces
        self._ids_by_piece = {piece: index for index, piece in enumerate(vocabulary.pieces)}
        self._starts_word = np.array([not piece.startswith(SUFFIX) for piece in vocabulary.pieces])
        self._graph = WordPiece(vocabulary, rules)

    @property
    def size(self) -> int:
        return len(self._vocabulary)

    def token(self, index: int) -> str:
        return self._vocabulary[index]

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

    def encode_plain(self, texts: list[str], threads: int) -> list[np.ndarray]:
        """Encodes the texts; TensorFlow chooses the number of threads."""
        rows: list[np.ndarray] = []
        for start in range(0, len(texts), BATCH):
            batch = [text.encode("utf-8") for text in texts[start : start + BATCH]]
            found = self._graph.tokenize(batch)
            rows += np.split(found.values.numpy(), found.row_splits.numpy()[1:-1])
        return rows

    def _tokens(self, text: str) -> list[str]:
        [ids] = self.encode_plain([text], 1)
        return [self.token(index) for index in ids.tolist()]

    def _details(self, text: str) -> Pieces:
        """Returns pieces with spans; a span ends where the next character with a result starts."""
        found = self._graph.spans(text)
        ends = found.origins[np.searchsorted(found.origins, found.last, side="right")]
        character = _character_of_byte(text)
        offsets = np.stack([character[found.first], character[ends]], axis=1)
        trim(text, offsets)
        is_word = self._starts_word[found.ids]
        is_word[:1] = True
        return Pieces(found.ids, offsets, np.cumsum(is_word, dtype=np.int32) - 1)


def _character_of_byte(text: str) -> np.ndarray:
    """Returns the index of the character that has each UTF-8 byte, and one entry for the end."""
    content = np.frombuffer(text.encode("utf-8"), np.uint8)
    return np.append(np.cumsum(content & 0xC0 != 0x80, dtype=np.int32) - 1, len(text))
