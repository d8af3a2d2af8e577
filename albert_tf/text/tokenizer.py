"""ALBERT's tokenizer in Python, with the calls and results of Hugging Face's."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.checkpoints.directory import split_hub_options
from albert_tf.text.conversions import TokenConversions
from albert_tf.text.encoding import (
    BatchEncoding,
    Tensors,
    as_tensors,
    collect,
    pad_rows,
    padding_strategy,
)
from albert_tf.text.inputs import Text, as_batch, as_lists
from albert_tf.text.pieces import Pieces
from albert_tf.text.rows import Layout, Row, make_row, make_rows, special_count
from albert_tf.text.special_tokens import SPECIAL_IDS
from albert_tf.text.tokenizer_files import read_tokenizer, write_tokenizer
from albert_tf.text.truncation import truncation_strategy
from albert_tf.text.vocabulary import DigitComma, Quotes, ensure_baked


class AlbertTokenizer(TokenConversions):
    """Raw text to ids.

    Args:
        vocab_file: path of a SentencePiece model, as published or baked, or its bytes. One that
            isn't baked is baked in memory.
        do_lower_case: lower-case the text. Default: as baked, or True.
        keep_accents: keep accents. Default: as baked, or False.
        digit_comma, quotes: see `vocabulary.bake`. Default: as baked, or "original".
        model_max_length: the length in pieces that truncation cuts to when none is given.
        split_special_tokens: read a special token that is written out in a text as plain text.
            Set it where texts come from others: otherwise `[SEP]` in a text is the separator.
            The layer `AlbertPreprocessor` always reads it so.
    Raises:
        UserError: the file isn't an ALBERT vocabulary, or was baked with other options than given.
    """

    model_input_names = ("input_ids", "token_type_ids", "attention_mask")
    padding_side = truncation_side = "right"

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | bytes,
        do_lower_case: bool | None = None,
        keep_accents: bool | None = None,
        digit_comma: DigitComma | None = None,
        quotes: Quotes | None = None,
        model_max_length: int = 512,
        split_special_tokens: bool = False,
    ):
        model, self.baked = ensure_baked(
            vocab_file,
            lower_case=do_lower_case,
            keep_accents=keep_accents,
            digit_comma=digit_comma,
            quotes=quotes,
        )
        super().__init__(model)
        self.model_max_length = model_max_length
        self.split_special_tokens = split_special_tokens

    @property
    def do_lower_case(self) -> bool:
        """Whether the vocabulary lower-cases text."""
        return self.baked.lower_case

    @property
    def keep_accents(self) -> bool:
        """Whether the vocabulary keeps accents."""
        return self.baked.keep_accents

    def __repr__(self) -> str:
        return (
            f"AlbertTokenizer(vocab_size={self.vocab_size}, do_lower_case={self.do_lower_case}, "
            f"keep_accents={self.keep_accents}, model_max_length={self.model_max_length})"
        )

    def __call__(
        self,
        text: Text | Sequence[Text],
        text_pair: Text | Sequence[Text] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        pad_to_multiple_of: int | None = None,
        split_special_tokens: bool | None = None,
        return_tensors: Tensors | None = None,
        return_token_type_ids: bool = True,
        return_attention_mask: bool = True,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_overflowing_tokens: bool = False,
        return_length: bool = False,
        is_split_into_words: bool = False,
    ) -> BatchEncoding:
        """Encodes a text, a pair of texts, or a batch of either.

        Args:
            text, text_pair: a str, bytes in UTF-8, or lists of them.
            padding: True or "longest", "max_length", or False.
            truncation: True or "longest_first", "only_first", "only_second", or False. Left out,
                a `max_length` without padding truncates longest first.
            max_length: pieces of a row, special tokens included. Default: `model_max_length`.
            stride: pieces that a window shares with the one before it.
            split_special_tokens: as the constructor's, for this call.
            return_offsets_mapping: `(start, end)` of each piece in the raw text, in characters
                (a stray byte counts as one); `(0, 0)` for special tokens added.
            return_overflowing_tokens: what truncation would cut off comes as further rows, and
                `overflow_to_sample_mapping` tells which text each row is from.
            is_split_into_words: not supported.
        Returns:
            `input_ids`, `token_type_ids`, `attention_mask` and what else was asked for: lists for
            one text, lists of lists for a batch, int32 `[B, T]` with `return_tensors`.
        Raises:
            TypeError: something that is no text.
            ValueError: options that don't fit together.
        """
        if is_split_into_words:
            raise ValueError(
                "Texts must be whole. Received: is_split_into_words=True. Join the words with "
                "spaces, and find each piece's word by return_offsets_mapping=True."
            )
        strategy = truncation_strategy(truncation, max_length is not None and padding is False)
        length = self.model_max_length if max_length is None else max_length
        layout = Layout(add_special_tokens, strategy, length, stride, return_overflowing_tokens)
        is_batch = not isinstance(text, str | bytes)
        first, second = as_lists(text, text_pair)
        split = self.split_special_tokens if split_special_tokens is None else split_special_tokens
        rows = make_rows(
            self._pieces(first, split, return_offsets_mapping),
            None if second is None else self._pieces(second, split, return_offsets_mapping),
            layout,
        )
        asked = {
            "input_ids": True,
            "token_type_ids": return_token_type_ids,
            "attention_mask": return_attention_mask,
            "special_tokens_mask": return_special_tokens_mask,
            "offset_mapping": return_offsets_mapping,
            "overflow_to_sample_mapping": return_overflowing_tokens,
        }
        features = pad_rows(
            collect(rows, asked), padding_strategy(padding), length, pad_to_multiple_of
        )
        if return_length:
            features["length"] = [len(ids) for ids in features["input_ids"]]
        if is_batch or return_overflowing_tokens or return_tensors is not None:
            return BatchEncoding(as_tensors(features, return_tensors))
        return BatchEncoding({name: values[0] for name, values in features.items()})

    def _pieces(self, texts: list[Text], split_special: bool, offsets: bool) -> list[Pieces]:
        """Offsets cost about ten times as much as ids alone, so they come on request."""
        if offsets:
            return [self._segmenter.pieces(text, split_special) for text in texts]
        return [Pieces(ids, [], []) for ids in self._segmenter.ids(texts, split_special)]

    def encode(self, text: Text, text_pair: Text | None = None, **options: Any) -> Any:
        """The `input_ids` alone; options as for calling the tokenizer."""
        return self(text, text_pair, **options)["input_ids"]

    def tokenize(self, text: Text, pair: Text | None = None) -> list[str]:
        """The pieces as strings, unknown ones as they read after normalisation."""
        texts = [text] if pair is None else [text, pair]
        split = self.split_special_tokens
        return [token for each in texts for token in self._segmenter.pieces(each, split).tokens]

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """`[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""
        return _row(token_ids_0, token_ids_1).input_ids

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """0 for the first text with its special tokens, 1 for the second with its `[SEP]`."""
        return _row(token_ids_0, token_ids_1).token_type_ids

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 where a special token stands, 0 elsewhere."""
        if already_has_special_tokens:
            return [int(index in SPECIAL_IDS) for index in token_ids_0]
        return _row(token_ids_0, token_ids_1).special_tokens_mask

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """2 for one text, 3 for a pair."""
        return special_count(pair)

    def pad(
        self,
        encoded_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_attention_mask: bool = True,
        return_tensors: Tensors | None = None,
    ) -> BatchEncoding:
        """Brings encoded rows to one length.

        Args:
            encoded_inputs: one encoding, a batch of them, or a list of single ones.

        Raises:
            ValueError: no `input_ids`, or options that don't fit.
        """
        features, is_single = as_batch(encoded_inputs)
        if return_attention_mask and "attention_mask" not in features:
            features["attention_mask"] = [[1] * len(ids) for ids in features["input_ids"]]
        length = self.model_max_length if max_length is None else max_length
        padded = pad_rows(features, padding_strategy(padding), length, pad_to_multiple_of)
        if is_single and return_tensors is None:
            return BatchEncoding({name: values[0] for name, values in padded.items()})
        return BatchEncoding(as_tensors(padded, return_tensors))

    def save_pretrained(self, save_directory: str | os.PathLike[str]) -> tuple[str, ...]:
        """Writes `spiece.model` (baked), `tokenizer_config.json` and `special_tokens_map.json`."""
        settings = {
            "do_lower_case": self.do_lower_case,
            "keep_accents": self.keep_accents,
            "digit_comma": self.baked.digit_comma,
            "quotes": self.baked.quotes,
            "model_max_length": self.model_max_length,
            "split_special_tokens": self.split_special_tokens,
        }
        config, special = write_tokenizer(save_directory, settings, self.special_tokens_map)
        return (*self.save_vocabulary(save_directory), config, special)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | os.PathLike[str],
        **options: Any,
    ) -> "AlbertTokenizer":
        """The tokenizer of a directory, a vocabulary file, or a name on the Hugging Face hub.

        Args:
            name_or_path: e.g. "albert/albert-base-v2".
            **options: `revision`, `token`, `cache_dir`, `local_files_only` for the hub; the
                constructor's otherwise, which go before those of `tokenizer_config.json`.
        Raises:
            UserError: nothing there, or no ALBERT vocabulary.
        """
        hub_options, options = split_hub_options(options)
        vocab_file, settings = read_tokenizer(name_or_path, hub_options)
        return cls(vocab_file, **{**settings, **options})


def _row(first: list[int], second: list[int] | None) -> Row:
    pair = None if second is None else Pieces(second, [], [])
    return make_row(Pieces(first, [], []), pair, add_special=True)
