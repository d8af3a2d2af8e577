"""The ALBERT tokenizer in Python, with the same API as in transformers."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import sentencepiece

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import read_json
from albert_tf.huggingface import SENTENCEPIECE
from albert_tf.quiet import import_tensorflow, import_tensorflow_text
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.model_file import DigitComma, Quotes, Source, path_of
from albert_tf.text.sequences import Side
from albert_tf.text.texts import as_text
from albert_tf.text.tokens import SPECIAL_IDS, SpecialTokens, Tokens, trim
from albert_tf.text.transformers_api import TransformersTokenizer
from albert_tf.text.unigram_json import is_unigram
from albert_tf.text.vocabulary import ensure_baked, with_tokens

_CUT: Final = re.compile("(?<=[!-~]) (?=[!-~])")  # no normalization rule applies across it
_PART: Final = 1 << 16  # characters to normalize at once; each offset takes 40 bytes


class AlbertTokenizer(TransformersTokenizer):
    """Tokenizer with a SentencePiece vocabulary, which converts raw text to ids.

    Example:

    >>> from albert_tf import AlbertTokenizer
    >>> tokenizer = AlbertTokenizer.from_pretrained("small")
    >>> encoding = tokenizer(["A quiet delight.", "Broken!"], padding=True, return_tensors="np")
    >>> list(encoding)
    ['input_ids', 'token_type_ids', 'attention_mask']
    >>> tokenizer.decode(encoding.input_ids[1], skip_special_tokens=True)
    'broken!'

    Args:
        vocab_file: path or bytes of a SentencePiece model: either a published one, or one into
            which `vocabulary.bake` has already built the following four options. For a published
            model, the tokenizer builds them into a copy in memory; the file isn't changed.
        do_lower_case: whether to lowercase the text. Default: the model's own option, or True for a
            published model.
        keep_accents: whether to keep accents. Default: the model's own option, or False.
        digit_comma: see `vocabulary.bake`. Default: the model's own option, or "original".
        quotes: see `vocabulary.bake`. Default: the model's own option, or "original".
        model_max_length: default length for truncation, in tokens.
        split_special_tokens: whether to treat special tokens in a text as plain text, as in
            `AlbertPreprocessor`. Set it for untrusted texts, because otherwise a `[SEP]` in a text
            acts as the separator.
        padding_side: "right" or "left".
        truncation_side: "right" or "left", the side on which tokens are truncated.
        **foreign: other arguments of the transformers class, which must have their default values.
    Raises:
        UserError: if the file isn't an ALBERT vocabulary, has different options built in, was
            changed after `bake` wrote it, or would encode texts differently in a graph. A file is
            also rejected if its tokens or rules aren't valid text, if it isn't a unigram model, or
            if it was trained with `byte_fallback` or `treat_whitespace_as_suffix`. It must add a
            space before a text, and escape spaces. It must not contain unused tokens, a
            denormalizer, an unknown token other than `<unk>`, user-defined tokens with scores, or
            scores beyond ±1,000.
    """

    vocab_name = "spiece.model"
    hub_class = "AlbertTokenizer"
    special_names = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
    SETTINGS: ClassVar[Mapping[str, type]] = {
        "do_lower_case": bool,
        "keep_accents": bool,
        "digit_comma": str,
        "quotes": str,
        **TransformersTokenizer.SETTINGS,
    }

    def __init__(
        self,
        vocab_file: Source,
        do_lower_case: bool | None = None,
        *,
        keep_accents: bool | None = None,
        digit_comma: DigitComma | None = None,
        quotes: Quotes | None = None,
        model_max_length: int = 512,
        split_special_tokens: bool = False,
        padding_side: Side = "right",
        truncation_side: Side = "right",
        **foreign: Any,
    ):
        self._own_arguments(foreign, SENTENCEPIECE)
        self.vocab_file = path_of(vocab_file)
        self._model, self.baked = ensure_baked(
            vocab_file,
            lower_case=do_lower_case,
            keep_accents=keep_accents,
            digit_comma=digit_comma,
            quotes=quotes,
        )
        self.do_lower_case, self.keep_accents = self.baked.lower_case, self.baked.keep_accents
        self.digit_comma, self.quotes = self.baked.digit_comma, self.baked.quotes
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._model)
        super().__init__(
            self._special_tokens(),
            self._processor.get_piece_size(),
            model_max_length,
            split_special_tokens,
            padding_side,
            truncation_side,
        )

    def _special_tokens(self) -> SpecialTokens:
        ids = self.baked.special or SPECIAL_IDS
        return SpecialTokens(tuple(map(self._token, ids)), ids, self.baked.separators)

    @property
    def model_bytes(self) -> bytes:
        """Content of the vocabulary file: a SentencePiece model with the baked options."""
        return self._model

    def _with_tokens(self, tokens: Sequence[str]) -> bytes:
        return with_tokens(self._model, tokens)

    def in_graph(self) -> Any:
        import tensorflow as tf

        tensorflow_text = import_tensorflow_text()
        with tf.init_scope():
            return tensorflow_text.FastSentencepieceTokenizer(self._model)

    @classmethod
    def _class_for(cls, vocabulary: Path) -> type[TransformersTokenizer]:
        is_json = vocabulary.suffix == ".json" and not is_unigram(read_json(vocabulary))
        if vocabulary.suffix != ".txt" and not is_json:
            return cls
        import_tensorflow()
        from albert_tf.text.wordpiece import WordPieceTokenizer

        return WordPieceTokenizer

    def _token(self, index: int) -> str:
        return self._processor.id_to_piece(index)

    def _id(self, token: str) -> int:
        return self._processor.piece_to_id(as_text(token))  # a lone surrogate is unknown

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(SPACE, " ").removeprefix(" ")

    def encode_plain(self, texts: list[str], threads: int = 1) -> list[np.ndarray]:
        return self._processor.encode(texts, num_threads=threads, out_type="numpy")

    def _tokenize(self, text: str) -> list[str]:
        return self._processor.encode(text, out_type=str)

    def _encode_with_offsets(self, text: str) -> Tokens:
        """Finds the character span of each token, excluding surrounding whitespace.

        A token that consists of whitespace covers that whitespace, or nothing at the start of the
        text. A character that normalizes to several characters (such as a ligature) belongs to
        every token that contains one of them. A character that normalizes to nothing (such as a
        combining accent) belongs to the character before it.
        """
        ids = self._processor.encode(text, out_type="numpy")
        if not len(ids):
            return Tokens(ids)
        tokens = self._tokenize(text)
        after = np.cumsum(np.fromiter(map(len, tokens), np.int32, len(tokens)))
        is_word = np.fromiter((token[0] == SPACE for token in tokens), np.bool_, len(tokens))
        is_space = np.fromiter((token == SPACE for token in tokens), np.bool_, len(tokens))
        del tokens  # frees 80 bytes per token
        origins = self._origins(text, after[-1])
        first = np.append(0, after[:-1]) + (is_word & ~is_space)
        ends = origins[np.searchsorted(origins, origins[after - 1], side="right")]
        offsets = np.stack([origins[first], ends], axis=1)
        trim(text, offsets)
        if is_space[0]:  # SentencePiece adds this space before the text
            offsets[0] = origins[0]
        is_word[0] = True
        return Tokens(ids, offsets, np.cumsum(is_word, dtype=np.int32) - 1)

    def _origins(self, text: str, count: int) -> np.ndarray:
        """Returns the source index of each normalized character, and the end of the text."""
        cuts, start = [0], _PART
        while cut := _CUT.search(text, start):
            cuts.append(cut.start())
            start = cut.start() + _PART
        parts = [self._part(text, *span) for span in pairwise([*cuts, len(text)])]
        origins = np.concatenate([*(part[:-1] for part in parts[:-1]), parts[-1]])
        # If the vocabulary doesn't add a space before a text, the spaces between parts are missing.
        return origins if len(origins) == count + 1 else self._part(text, 0, len(text))

    def _part(self, text: str, start: int, end: int) -> np.ndarray:
        _, offsets = self._processor.normalize(text[start:end], with_offsets=True)
        origins = np.array(offsets, np.int32) + start
        if start:
            origins[0] = start  # the normalizer drops this space and adds it again
        return origins


def check_fit(tokenizer: BaseTokenizer, config: AlbertConfig, max_length: int) -> None:
    """Checks that a model supports a tokenizer and sequences of `max_length` tokens."""
    if tokenizer.vocab_size != config.vocab_size:
        raise UserError(
            "The tokenizer and the model must have the same vocabulary. Received: "
            f"{tokenizer.vocab_size} tokens in the tokenizer, vocab_size={config.vocab_size} in "
            "the model. Use the vocabulary that the model was trained with; after add_tokens, call "
            "model.resize_token_embeddings(len(tokenizer))."
        )
    check_length(config, max_length)


def longest_sequence(tokenizer: BaseTokenizer, config: AlbertConfig) -> int:
    """Returns the maximum length of a sequence that a tokenizer and a model support."""
    return min(tokenizer.model_max_length, config.max_position_embeddings)


def check_length(config: AlbertConfig, max_length: int) -> None:
    """Checks that a model supports sequences of `max_length` tokens."""
    limit = config.max_position_embeddings
    if not 3 <= max_length <= limit:
        raise UserError(
            "max_length must be at least 3, for the special tokens of a pair, and at most "
            f"max_position_embeddings. Received: max_length={max_length}, "
            f"max_position_embeddings={limit}."
        )
