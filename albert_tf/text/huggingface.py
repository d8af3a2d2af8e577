"""Hugging Face's further names: thin methods of tokenizers and encodings, and foreign arguments."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from albert_tf.errors import UserError
from albert_tf.options import without_foreign, without_methods
from albert_tf.text.tokenizer_files import write_tokenizer

# Arguments of transformers that have no effect here: the accepted value, and what to do instead.
FROM_PRETRAINED: Final = {"trust_remote_code": (False, "No code is loaded.")}
_FIXED: Final = "A vocabulary's special tokens have fixed ids. Add others with add_special_tokens."
SENTENCEPIECE_ARGUMENTS: Final = {
    "remove_space": (True, "The vocabulary always drops repeated white space."),
    "add_prefix_space": (True, "Every text begins with a space."),
    "trim_offsets": (True, "Strip the text to leave white space out of it."),
    "sp_model_kwargs": ({}, "Segmentation is never sampled."),
    "tokenizer_file": (None, "Pass spiece.model as vocab_file."),
    "vocab": (None, "Pass spiece.model as vocab_file."),
    "additional_special_tokens": (None, "Call add_special_tokens on the new tokenizer."),
    "unk_token": ("<unk>", _FIXED),
    "pad_token": ("<pad>", _FIXED),
    "mask_token": ("[MASK]", _FIXED),
    **dict.fromkeys(("cls_token", "bos_token"), ("[CLS]", _FIXED)),
    **dict.fromkeys(("sep_token", "eos_token"), ("[SEP]", _FIXED)),
}
WORDPIECE_ARGUMENTS: Final = {
    "do_basic_tokenize": (True, "Texts are always split at white space and punctuation."),
    "never_split": (None, "Add tokens to the vocabulary with add_tokens."),
    "tokenizer_file": (None, "Pass vocab.txt as vocab_file."),
    "vocab": (None, "Pass vocab.txt as vocab_file."),
}
_SAVING: Final = {
    "legacy_format": (None, "The files are those that every version of transformers reads."),
    "filename_prefix": (None, "Call save_vocabulary(folder, filename_prefix)."),
    "push_to_hub": (False, "Call push_to_hub(repo_id)."),
}
_WITHOUT_EFFECT: Final = frozenset({"clean_up_tokenization_spaces", "name_or_path", "use_fast"})
_NO_CHAT: Final = "ALBERT generates no text. Join the messages to a text, and call tokenizer(text)."


def own_arguments(
    arguments: Mapping[str, Any],
    foreign: Mapping[str, tuple[Any, str]],
    known: Collection[str],
) -> dict[str, Any]:
    """Returns a constructor's further arguments without transformers' that have no effect here.

    Args:
        arguments: by name.
        foreign: the accepted values; see `without_foreign`.
        known: names of the tokenizer's own arguments.
    Raises:
        UserError: another value of a foreign argument.
        TypeError: an unknown argument.
    """
    own = without_foreign(arguments, foreign)
    own = {name: value for name, value in own.items() if name not in _WITHOUT_EFFECT}
    if unknown := sorted(own.keys() - known):
        raise TypeError(
            f"A tokenizer's options are {', '.join(known)}. Received: {', '.join(unknown)}. Leave "
            "them out."
        )
    return own


def path_of(vocabulary: Any) -> str | None:
    """Returns the path of a vocabulary, or None for its content."""
    return None if isinstance(vocabulary, bytes) else os.fspath(vocabulary)


@without_methods(
    {
        "encode_plus": "Write tokenizer(text, text_pair).",
        "batch_encode_plus": "Write tokenizer(texts), or tokenizer([(text, text_pair), …]).",
        "prepare_for_model": "Write tokenizer(text, text_pair) for texts, or "
        "build_inputs_with_special_tokens(ids, pair_ids) for ids.",
        "truncate_sequences": "Write tokenizer(text, truncation=True, max_length=…).",
        "prepare_seq2seq_batch": "ALBERT generates no text. Write tokenizer(texts).",
        "as_target_tokenizer": "ALBERT generates no text. Write tokenizer(texts).",
        "apply_chat_template": _NO_CHAT,
        "get_chat_template": _NO_CHAT,
        "encode_message_with_chat_template": _NO_CHAT,
        "train_new_from_iterator": "Write albert_tf.train_vocabulary(texts, vocab_size).",
        "preprocess_text": "The vocabulary normalizes texts. Write tokenizer(text).",
        "prepare_for_tokenization": "The vocabulary normalizes texts. Write tokenizer(text).",
        "clean_up_tokenization": "Write decode(ids), whose spaces are the vocabulary's.",
        "set_truncation_and_padding": "Pass truncation and padding to each call.",
        "sanitize_special_tokens": "Special tokens are always part of the vocabulary.",
        "register_for_auto_class": "Import the class from its own module.",
    }
)
class TokenizerNames:
    """Mixin of `BaseTokenizer`: methods on ids, and names of what it has already."""

    is_fast = True  # It has offsets, words and windows.
    vocab_file: str | None  # None for a vocabulary that isn't a file
    vocab_name: ClassVar[str]
    model_bytes: Any
    model_max_length: int
    cls_token_id: int
    sep_token_id: int
    all_special_ids: list[int]
    all_special_tokens: list[str]
    get_vocab: Callable[[], dict[str, int]]

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Returns `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""
        second = [] if token_ids_1 is None else [*token_ids_1, self.sep_token_id]
        return [self.cls_token_id, *token_ids_0, self.sep_token_id, *second]

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Returns 0 for each position of `[CLS] A [SEP]`, and 1 for each of `B [SEP]`."""
        second = [] if token_ids_1 is None else [1] * (len(token_ids_1) + 1)
        return [0] * (len(token_ids_0) + 2) + second

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """Returns 1 for each special token and 0 for each token of a text.

        Args:
            token_ids_0, token_ids_1: ids of one text or two.
            already_has_special_tokens: whether `token_ids_0` is a whole sequence. Otherwise the
                mask is that of the sequence that `build_inputs_with_special_tokens` returns.
        """
        if already_has_special_tokens:
            if token_ids_1 is not None:
                raise UserError(
                    "already_has_special_tokens=True requires a single sequence. Received: "
                    "token_ids_1. Pass the whole sequence as token_ids_0."
                )
            return [int(index in self.all_special_ids) for index in token_ids_0]
        second = [] if token_ids_1 is None else [*[0] * len(token_ids_1), 1]
        return [1, *[0] * len(token_ids_0), 1, *second]

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Returns 2 for one text, 3 for a pair."""
        return 3 if pair else 2

    @property
    def max_len_single_sentence(self) -> int:
        """The largest number of tokens of a text, without special tokens."""
        return self.model_max_length - self.num_special_tokens_to_add()

    @property
    def max_len_sentences_pair(self) -> int:
        """The largest number of tokens of both texts of a pair, without special tokens."""
        return self.model_max_length - self.num_special_tokens_to_add(pair=True)

    @property
    def vocab(self) -> dict[str, int]:
        """Every token with its id, as from `get_vocab`."""
        return self.get_vocab()

    def get_added_vocab(self) -> dict[str, int]:
        """Returns the special tokens with their ids; other added tokens are in `get_vocab()`."""
        return dict(zip(self.all_special_tokens, self.all_special_ids, strict=True))

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Writes the vocabulary as `spiece.model` or `vocab.txt`, or as `prefix-spiece.model`.

        Returns:
            The path of the file, in a tuple.
        """
        name = f"{filename_prefix}-{self.vocab_name}" if filename_prefix else self.vocab_name
        return write_tokenizer(save_directory, {name: self.model_bytes})

    @staticmethod
    def _check_saving(options: Mapping[str, Any]) -> None:
        """Rejects options of transformers' `save_pretrained` that would change the files."""
        if unknown := without_foreign(options, _SAVING):
            raise TypeError(
                f"save_pretrained takes only save_directory. Received: {', '.join(unknown)}."
            )


class CharSpan(NamedTuple):
    """The characters of a text from `start` to before `end`."""

    start: int
    end: int


class TokenSpan(NamedTuple):
    """The positions of a sequence from `start` to before `end`."""

    start: int
    end: int


@without_methods(
    {
        "tokens": "Write tokenizer.convert_ids_to_tokens(ids).",
        "words": "Write encoding.word_ids(batch_index).",
        "convert_to_tensors": "Pass return_tensors to the tokenizer.",
        "to": "Keras moves arrays to the model's device: write model(encoding).",
    }
)
class EncodingNames:
    """Mixin of `BatchEncoding`: aligns positions, words and characters.

    Each method takes the index of a sequence and then that of the position, word or character, or
    the latter only for sequence 0. Words and characters are those of the first text unless
    `sequence_index` is 1. The methods return None for special tokens, padding, and what
    truncation has removed.
    """

    is_fast = True
    sequence_ids: Callable[[int], list[int | None]]
    word_ids: Callable[[int], list[int | None]]
    _offsets: Callable[[int], list[tuple[int, int]]]
    _known: Callable[[], Sequence[Any]]

    def __missing__(self, key: Any) -> Any:
        way_out = f" Write encoding['input_ids'][{key}]." if isinstance(key, int) else ""
        raise KeyError(f"There is no feature {key!r}.{way_out}")

    @property
    def n_sequences(self) -> int:
        """1 for single texts, 2 for pairs."""
        return max((len(sequence.texts) for sequence in self._known()), default=1)

    def token_to_sequence(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> int | None:
        """Returns the text (0 or 1) of a position."""
        row, position = _row_and(batch_or_token_index, token_index)
        return _item(self.sequence_ids(row), position)

    def token_to_word(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> int | None:
        """Returns the index of a position's word in its text."""
        row, position = _row_and(batch_or_token_index, token_index)
        return _item(self.word_ids(row), position)

    def token_to_chars(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> CharSpan | None:
        """Returns the characters of a position, in its text or its word for split texts."""
        row, position = _row_and(batch_or_token_index, token_index)
        if self.token_to_sequence(row, position) is None:
            return None
        return CharSpan(*self._offsets(row)[position])

    def char_to_token(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Returns the first position that covers a character; None for white space too."""
        row, character = _row_and(batch_or_char_index, char_index)
        offsets = self._offsets(row)
        for position, text in enumerate(self.sequence_ids(row)):
            start, end = offsets[position]
            if text == sequence_index and start <= character < end:
                return position
        return None

    def char_to_word(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Returns the index of the word that covers a character; None for white space too."""
        row, character = _row_and(batch_or_char_index, char_index)
        position = self.char_to_token(row, character, sequence_index)
        return None if position is None else self.token_to_word(row, position)

    def word_to_tokens(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> TokenSpan | None:
        """Returns the positions of a word."""
        row, word = _row_and(batch_or_word_index, word_index)
        places = zip(self.sequence_ids(row), self.word_ids(row), strict=True)
        found = [at for at, place in enumerate(places) if place == (sequence_index, word)]
        return TokenSpan(found[0], found[-1] + 1) if found else None

    def word_to_chars(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> CharSpan | None:
        """Returns the characters of a word in its text; for split texts, within the word."""
        row, word = _row_and(batch_or_word_index, word_index)
        span = self.word_to_tokens(row, word, sequence_index)
        if span is None:
            return None
        offsets = self._offsets(row)[slice(*span)]
        return CharSpan(offsets[0][0], offsets[-1][1])


def _row_and(first: int, second: int | None) -> tuple[int, int]:
    """Returns the index of a sequence, and the index within it."""
    return (0, first) if second is None else (first, second)


def _item(values: Sequence[int | None], position: int) -> int | None:
    """Returns the value of a position, or None past the end; a negative one is an error."""
    if position < 0:
        raise UserError(f"A position must be 0 or more. Received: {position}.")
    return values[position] if position < len(values) else None
