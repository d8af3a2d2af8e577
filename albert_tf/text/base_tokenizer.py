"""The base of both tokenizers: Hugging Face's calls on any vocabulary."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from albert_tf.checkpoints import hub
from albert_tf.checkpoints.finder import split_hub_options
from albert_tf.errors import UserError
from albert_tf.options import without_foreign
from albert_tf.text.added_tokens import (
    add_tokens,
    additional_tokens,
    check_special,
    restore_tokens,
)
from albert_tf.text.call_arguments import (
    Side,
    Text,
    as_batch,
    as_texts,
    as_words,
    checked_side,
    padding_strategy,
    truncation_strategy,
)
from albert_tf.text.conversions import TokenConversions
from albert_tf.text.encoding import (
    BatchEncoding,
    EncodedSequence,
    Layout,
    Origins,
    Tensors,
    as_tensors,
    collect,
    make_rows,
    pad_rows,
)
from albert_tf.text.segmenter import Segmenter
from albert_tf.text.tokenizer_files import (
    json_files,
    read_tokenizer,
    stored_settings,
    write_tokenizer,
)

# Arguments of transformers' `from_pretrained`: the value that changes nothing, and the way out.
_FOREIGN: Final = {"trust_remote_code": (False, "No code is loaded.")}


class BaseTokenizer(TokenConversions, ABC):
    """Raw text to ids. `AlbertTokenizer` and `WordPieceTokenizer` add a vocabulary.

    Args:
        segmenter: the vocabulary.
        model_max_length: default length for truncation, in pieces.
        split_special_tokens: read a special token that is written out in a text as plain text.
        padding_side: "right" or "left".
        truncation_side: "right" or "left", the end of a text that truncation takes from.
    """

    model_input_names = ("input_ids", "token_type_ids", "attention_mask")
    is_fast = True  # what it stands for in code for transformers: offsets, words, windows
    vocab_name: ClassVar[str]
    hub_class: ClassVar[str]
    continuation: ClassVar[str] = ""  # begins the tokens that continue a word
    do_lower_case: bool
    padding_side: Side
    truncation_side: Side
    # The constructor's arguments that tokenizer_config.json stores, and their types.
    SETTINGS: ClassVar[Mapping[str, type]]

    def __init__(
        self,
        segmenter: Segmenter,
        model_max_length: int,
        split_special_tokens: bool,
        padding_side: Side,
        truncation_side: Side,
    ):
        super().__init__(segmenter)
        self.model_max_length = model_max_length
        self.split_special_tokens = split_special_tokens
        self.padding_side, self.truncation_side = padding_side, truncation_side
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Checks settings, and refuses what the vocabulary decides."""
        if name in ("padding_side", "truncation_side"):
            value = checked_side(value, name)
        elif name == "model_max_length":
            if not isinstance(value, int) or value < 1:
                raise UserError(f"{name} must be a positive integer. Received: {value!r}.")
        elif (
            vars(self).get("_is_made")
            and not name.startswith("_")
            and name not in ("split_special_tokens", "model_input_names")
            and hasattr(self, name)
            and getattr(self, name) != value
        ):
            raise UserError(
                f"{name} can't be assigned: a vocabulary has it, for every runtime. Received: "
                f"{name}={value!r}, for {getattr(self, name)!r}. Give it to the constructor or to "
                "from_pretrained if they take it; add_tokens adds tokens."
            )
        super().__setattr__(name, value)

    @property
    @abstractmethod
    def model_bytes(self) -> bytes:
        """Content of the vocabulary file."""

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """The constructor's arguments: transformers' name of `settings`."""
        return self.settings

    @property
    def max_len_single_sentence(self) -> int:
        """The most tokens of a text that `model_max_length` leaves room for."""
        return self.model_max_length - self.num_special_tokens_to_add()

    @property
    def max_len_sentences_pair(self) -> int:
        """The most tokens of a pair of texts, likewise."""
        return self.model_max_length - self.num_special_tokens_to_add(pair=True)

    @property
    def additional_special_tokens_ids(self) -> list[int]:
        """The ids of `additional_special_tokens`."""
        return self.convert_tokens_to_ids(self.additional_special_tokens)

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as stored in `tokenizer_config.json`."""
        return {name: getattr(self, name) for name in self.SETTINGS}

    @abstractmethod
    def _with_pieces(self, pieces: Sequence[str]) -> bytes:
        """Returns the content of a vocabulary file with further pieces at its end."""

    @abstractmethod
    def in_graph(self) -> Any:
        """Returns an object whose `tokenize` takes strings `[B]` to ragged ids, in a graph."""

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
        truncation_side: str | None = None,
        split_special_tokens: bool | None = None,
        return_tensors: Tensors | None = None,
        return_token_type_ids: bool = True,
        return_attention_mask: bool = True,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_overflowing_tokens: bool = False,
        return_length: bool = False,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Encodes a text, a pair of texts, or a batch of either.

        Args:
            text, text_pair: a str, bytes in UTF-8, or lists of them. A list of tuples of two texts
                is a batch of pairs.
            padding: True or "longest", "max_length", or False.
            truncation: True or "longest_first", "only_first", "only_second", or False. Default:
                "longest_first" if `max_length` is given without padding.
            max_length: pieces in a row, special tokens included. Default: `model_max_length`.
            stride: number of pieces that a window shares with the one before it.
            is_split_into_words: the texts are lists of words, each encoded as if after a space;
                `word_ids` of the result returns the word of each position.
            padding_side, truncation_side, split_special_tokens: override the constructor's for this
                call.
            return_offsets_mapping: add `(start, end)` of each piece in the raw text, or in its
                word for split texts, in characters; a stray byte counts as one, and special
                tokens have `(0, 0)`.
            return_overflowing_tokens: return truncated pieces as further rows;
                `overflow_to_sample_mapping` has the index of each row's text.
            verbose: warn once of a row beyond `model_max_length` that isn't truncated.
        Returns:
            `input_ids`, `token_type_ids`, `attention_mask` and the requested features: lists for
            one text, lists of lists for a batch, int32 `[B, T]` with `return_tensors`.
        Raises:
            TypeError: a text is neither str nor bytes.
            ValueError: options contradict each other.
        """
        if truncation is None:
            truncation = max_length is not None and padding is False
        length = self.model_max_length if max_length is None else max_length
        special = self.special if add_special_tokens else None
        strategy = truncation_strategy(truncation)
        end = checked_side(truncation_side or self.truncation_side, "truncation_side")
        layout = Layout(special, strategy, length, stride, return_overflowing_tokens, end)
        split = self.split_special_tokens if split_special_tokens is None else split_special_tokens
        make, is_batch = self._rows(text, text_pair, is_split_into_words, layout, split)
        rows = make(return_offsets_mapping)
        requested = {
            "input_ids": True,
            "token_type_ids": return_token_type_ids,
            "attention_mask": return_attention_mask,
            "special_tokens_mask": return_special_tokens_mask,
            "offset_mapping": return_offsets_mapping,
            "overflow_to_sample_mapping": return_overflowing_tokens,
        }
        side = checked_side(padding_side or self.padding_side)
        features = pad_rows(
            collect(rows, requested),
            padding_strategy(padding),
            length,
            pad_to_multiple_of,
            pad_id=self.pad_token_id,
            side=side,
        )
        lengths = [len(ids) for ids in features["input_ids"]]
        if verbose and max(lengths, default=0) > self.model_max_length and max_length is None:
            self._warn_of_length(max(lengths))
        if return_length:
            features["length"] = lengths
        detailed = (lambda: rows) if return_offsets_mapping else partial(make, True)
        origins = Origins(rows, detailed, lengths, side)
        if is_batch or return_overflowing_tokens or return_tensors is not None:
            return BatchEncoding(as_tensors(features, return_tensors), origins)
        return BatchEncoding({name: values[0] for name, values in features.items()}, origins)

    def _warn_of_length(self, length: int) -> None:
        if not vars(self).get("_has_warned"):
            self._has_warned = True
            warnings.warn(
                f"A row has {length} tokens, more than model_max_length={self.model_max_length}: "
                "a model may have no positions for them. Pass truncation=True.",
                stacklevel=3,
            )

    def _rows(
        self, text: Any, text_pair: Any, are_words: bool, layout: Layout, split_special: bool
    ) -> tuple[Callable[[bool], list[EncodedSequence]], bool]:
        """Returns a function that makes the rows, with or without details; and `is_batch`."""
        first, second, is_batch = (as_words if are_words else as_texts)(text, text_pair)
        segmenter = self._segmenter
        encode: Callable[..., Any] = segmenter.encode_words if are_words else segmenter.encode

        def make(details: bool) -> list[EncodedSequence]:
            pair = None if second is None else encode(second, split_special, details)
            return make_rows(encode(first, split_special, details), pair, layout)

        return make, is_batch

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """Returns only the `input_ids`; takes the options of `__call__`."""
        return self(text, text_pair, **options)["input_ids"]

    def encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> BatchEncoding:
        """Calls the tokenizer: an old name of transformers'."""
        return self(text, text_pair, **options)

    def batch_encode_plus(self, batch_text_or_text_pairs: Any, **options: Any) -> BatchEncoding:
        """Calls the tokenizer on a list of texts or of pairs: an old name of transformers'."""
        return self(batch_text_or_text_pairs, **options)

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
        """Pads encoded rows to one length.

        Args:
            encoded_inputs: one encoding, a batch, or a list of single encodings.
        Raises:
            ValueError: `input_ids` are missing, or options contradict each other.
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
            side=checked_side(padding_side or self.padding_side),
        )
        if is_single and return_tensors is None:
            return BatchEncoding({name: values[0] for name, values in padded.items()})
        return BatchEncoding(as_tensors(padded, return_tensors))

    def add_tokens(self, new_tokens: str | Sequence[Any], special_tokens: bool = False) -> int:
        """Adds pieces to the vocabulary file, so that every runtime reads each as one piece.

        Give the model rows for them: `model.resize_token_embeddings(len(tokenizer))`. A
        SentencePiece vocabulary finds a piece anywhere in a word, after "▁" at its start; "▁word"
        is found at the start alone. A WordPiece vocabulary finds it at the start.

        Args:
            new_tokens: pieces as the vocabulary normalizes them; known ones are skipped.
            special_tokens: whether `skip_special_tokens` skips them in decoding. They have no
                other effect: texts are read as without it.
        Returns:
            The number of new pieces.
        Raises:
            UserError: the vocabulary wouldn't read it as one piece: it has capitals that are
                lower-cased, for example. Nothing is added then.
        """
        return add_tokens(self, new_tokens, special_tokens)

    def add_special_tokens(self, special_tokens_dict: Mapping[str, Any]) -> int:
        """Adds the pieces under "additional_special_tokens", as special ones; see `add_tokens`.

        Raises:
            UserError: also where another special token would change.
        """
        return add_tokens(self, additional_tokens(self, special_tokens_dict), special=True)

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Writes the vocabulary as `[prefix-]spiece.model` or `[prefix-]vocab.txt`.

        Returns:
            Its path, in a tuple.
        """
        name = f"{filename_prefix}-{self.vocab_name}" if filename_prefix else self.vocab_name
        return write_tokenizer(save_directory, {name: self.model_bytes})

    def save_pretrained(self, save_directory: str | os.PathLike[str]) -> tuple[str, ...]:
        """Writes the vocabulary, `tokenizer_config.json` and `special_tokens_map.json`."""
        # Without the names transformers 5 leaves token_type_ids out, and pairs lose their segments.
        names = list(self.model_input_names)
        settings = {"tokenizer_class": self.hub_class, "model_input_names": names, **self.settings}
        files = json_files(settings, self.special_tokens_map)
        return write_tokenizer(save_directory, {self.vocab_name: self.model_bytes, **files})

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Uploads the tokenizer's files to the Hugging Face hub; returns the commit's URL.

        Args:
            repo_id: of the form owner/name. The repository is made if necessary.
            **options: `token`, `private`, `commit_message`, `revision`, `create_pr`.
        Raises:
            UserError: there is no token, no right to write, or no network.
        """
        return hub.upload(self.save_pretrained, repo_id, **options)

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | os.PathLike[str], **options: Any
    ) -> "BaseTokenizer":
        """Loads the tokenizer of a directory, a vocabulary file, or a name on the hub.

        `AlbertTokenizer.from_pretrained` returns a `WordPieceTokenizer` for a directory with a
        WordPiece vocabulary (`vocab.txt`, as the Chinese models have) and no SentencePiece model.

        Args:
            name_or_path: e.g. "albert/albert-base-v2"; `tokenizer_files.py` lists the file names
                of vocabularies. The path of a TensorFlow 1 checkpoint stands for its folder.
            **options: `revision`, `token`, `cache_dir`, `local_files_only` for the hub, and
                options of the constructor, which override `tokenizer_config.json`.
        Raises:
            UserError: there is no such name, or no vocabulary or several; or the vocabulary can't
                read a token that transformers keeps beside it.
        """
        hub_options, options = split_hub_options(without_foreign(options, _FOREIGN))
        options.pop("use_fast", None)
        stored = read_tokenizer(name_or_path, hub_options)
        kind: Any = cls._class_for(stored.vocabulary)
        settings = stored_settings(stored.config, kind.SETTINGS)
        tokenizer = kind(stored.vocabulary, **{**settings, **options})
        check_special(tokenizer, {**stored.special, **options})
        restore_tokens(tokenizer, stored.added)
        return tokenizer

    @classmethod
    def _class_for(cls, vocabulary: Path) -> "type[BaseTokenizer]":
        """Returns the class that reads a vocabulary file."""
        return cls

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(vocab_size={self.vocab_size}, "
            f"do_lower_case={self.do_lower_case}, model_max_length={self.model_max_length})"
        )
