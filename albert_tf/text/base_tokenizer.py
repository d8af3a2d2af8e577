"""The calls of Hugging Face's tokenizers, on any vocabulary."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from albert_tf.text.conversions import TokenConversions
from albert_tf.text.encoding import BatchEncoding, Tensors, as_tensors, collect
from albert_tf.text.inputs import as_batch, as_lists, as_words
from albert_tf.text.padding import pad_rows, padding_side, padding_strategy
from albert_tf.text.places import Places
from albert_tf.text.rows import Layout, Row, make_rows, special_count
from albert_tf.text.segmenter import Pieces, Segmenter, Text
from albert_tf.text.truncation import truncation_strategy


class BaseTokenizer(TokenConversions):
    """Raw text to ids.

    Args:
        segmenter: the vocabulary.
        model_max_length: the length in pieces that truncation cuts to when none is given.
        split_special_tokens: read a special token that is written out in a text as plain text.
        padding_side: "right" or "left".
    """

    model_input_names = ("input_ids", "token_type_ids", "attention_mask")
    truncation_side = "right"

    def __init__(
        self,
        segmenter: Segmenter,
        model_max_length: int,
        split_special_tokens: bool,
        padding_side: str,
    ):
        super().__init__(segmenter)
        self.model_max_length = model_max_length
        self.split_special_tokens = split_special_tokens
        self.padding_side = padding_side

    def __call__(
        self,
        text: Text | Sequence[Any],
        text_pair: Text | Sequence[Any] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        split_special_tokens: bool | None = None,
        return_tensors: Tensors | None = None,
        return_token_type_ids: bool = True,
        return_attention_mask: bool = True,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_overflowing_tokens: bool = False,
        return_length: bool = False,
    ) -> BatchEncoding:
        """Encodes a text, a pair of texts, or a batch of either.

        Args:
            text, text_pair: a str, bytes in UTF-8, or lists of them.
            padding: True or "longest", "max_length", or False.
            truncation: True or "longest_first", "only_first", "only_second", or False. Left out,
                a `max_length` without padding truncates longest first.
            max_length: pieces of a row, special tokens included. Default: `model_max_length`.
            stride: pieces that a window shares with the one before it.
            is_split_into_words: a text is a list of words, each encoded as it would be after a
                space; `word_ids` of the result tells the word of each place.
            padding_side, split_special_tokens: as the constructor's, for this call.
            return_offsets_mapping: `(start, end)` of each piece in the raw text (in its word, where
                words were given), in characters (a stray byte counts as one); `(0, 0)` for special
                tokens added.
            return_overflowing_tokens: what truncation would cut off comes as further rows, and
                `overflow_to_sample_mapping` tells which text each row is from.
        Returns:
            `input_ids`, `token_type_ids`, `attention_mask` and what else was asked for: lists for
            one text, lists of lists for a batch, int32 `[B, T]` with `return_tensors`.
        Raises:
            TypeError: something that is no text.
            ValueError: options that don't fit together.
        """
        strategy = truncation_strategy(truncation, max_length is not None and padding is False)
        length = self.model_max_length if max_length is None else max_length
        special = self.special if add_special_tokens else None
        layout = Layout(special, strategy, length, stride, return_overflowing_tokens)
        split = self.split_special_tokens if split_special_tokens is None else split_special_tokens
        make, is_batch = self._rows(text, text_pair, is_split_into_words, layout, split)
        rows = make(return_offsets_mapping)
        asked = {
            "input_ids": True,
            "token_type_ids": return_token_type_ids,
            "attention_mask": return_attention_mask,
            "special_tokens_mask": return_special_tokens_mask,
            "offset_mapping": return_offsets_mapping,
            "overflow_to_sample_mapping": return_overflowing_tokens,
        }
        side = self._side(padding_side)
        features = pad_rows(
            collect(rows, asked),
            padding_strategy(padding),
            length,
            pad_to_multiple_of,
            pad_id=self.pad_token_id,
            side=side,
        )
        lengths = [len(ids) for ids in features["input_ids"]]
        if return_length:
            features["length"] = lengths
        detailed = (lambda: rows) if return_offsets_mapping else partial(make, True)
        places = Places(rows, detailed, lengths, side)
        if is_batch or return_overflowing_tokens or return_tensors is not None:
            return BatchEncoding(as_tensors(features, return_tensors), places)
        return BatchEncoding({name: values[0] for name, values in features.items()}, places)

    def _rows(
        self, text: Any, text_pair: Any, are_words: bool, layout: Layout, split_special: bool
    ) -> tuple[Callable[[bool], list[Row]], bool]:
        """What makes the rows, with or without details, and whether they are a batch."""
        first: Sequence[Any]
        second: Sequence[Any] | None
        if are_words:
            first, second, is_batch = as_words(text, text_pair)
        else:
            first, second = as_lists(text, text_pair)
            is_batch = not isinstance(text, str | bytes)
        segmenter = self._segmenter
        encode: Callable[..., list[Pieces]] = (
            segmenter.encode_words if are_words else segmenter.encode
        )

        def make(details: bool) -> list[Row]:
            pair = None if second is None else encode(second, split_special, details)
            return make_rows(encode(first, split_special, details), pair, layout)

        return make, is_batch

    def _side(self, side: str | None) -> Any:
        return padding_side(self.padding_side if side is None else side)

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """The `input_ids` alone; options as for calling the tokenizer."""
        return self(text, text_pair, **options)["input_ids"]

    def encode_plain(self, texts: list[str]) -> list[np.ndarray]:
        """int32 `[pieces]` of each text, in bulk: special tokens written out are plain text.

        Raises:
            UnicodeEncodeError: a text with surrogates, which no bytes in UTF-8 decode to.
        """
        return self._segmenter.encode_arrays(texts)

    def tokenize(self, text: Text, pair: Text | None = None) -> list[str]:
        """The pieces as strings."""
        texts = [text] if pair is None else [text, pair]
        pieces = self._segmenter.encode(texts, self.split_special_tokens, True)
        return [token for each in pieces for token in each.tokens]

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """`[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""
        return self._row(token_ids_0, token_ids_1).input_ids

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """0 for the first text with its special tokens, 1 for the second with its `[SEP]`."""
        return self._row(token_ids_0, token_ids_1).token_type_ids

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 where a special token stands, 0 elsewhere."""
        if already_has_special_tokens:
            return [int(index in self.special.ids) for index in token_ids_0]
        return self._row(token_ids_0, token_ids_1).special_tokens_mask

    def _row(self, first: list[int], second: list[int] | None) -> Row:
        texts = [Pieces(ids) for ids in (first, second) if ids is not None]
        return Row(texts, self.special)

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """2 for one text, 3 for a pair."""
        return special_count(pair)

    def pad(
        self,
        encoded_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
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
        padded = pad_rows(
            features,
            padding_strategy(padding),
            self.model_max_length if max_length is None else max_length,
            pad_to_multiple_of,
            pad_id=self.pad_token_id,
            side=self._side(padding_side),
        )
        if is_single and return_tensors is None:
            return BatchEncoding({name: values[0] for name, values in padded.items()})
        return BatchEncoding(as_tensors(padded, return_tensors))
