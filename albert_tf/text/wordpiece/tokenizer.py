"""The tokenizer of models with a WordPiece vocabulary, such as the Chinese ones."""

import os
from typing import Any

from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece.graph import WordPiece
from albert_tf.text.wordpiece.rules import Rules
from albert_tf.text.wordpiece.segmenter import WordPieceSegmenter
from albert_tf.text.wordpiece.vocabulary import SPECIAL_NAMES, Vocabulary


class WordPieceTokenizer(AlbertTokenizer):
    """An `AlbertTokenizer` whose vocabulary is `vocab.txt`; ids are those of BERT's tokenizer.

    Args:
        vocab_file: path of `vocab.txt` (a piece a line) or its bytes, or of a `tokenizer.json`.
        do_lower_case: lower-case the text.
        strip_accents: drop accents. Default: as `do_lower_case`.
        tokenize_chinese_chars: every Chinese character is a word.
        model_max_length, split_special_tokens, padding_side: as `AlbertTokenizer`'s.
        **special: how special tokens are written: `pad_token`, `unk_token`, `cls_token`,
            `sep_token`, `mask_token`. Default: `[PAD]`, `[UNK]` and so on.
    Raises:
        UserError: no such file, no vocabulary, or a special token is missing in it.
    """

    vocab_name = "vocab.txt"
    hub_class = "BertTokenizer"
    special_names = BaseTokenizer.special_names
    SETTINGS = (
        "do_lower_case",
        "strip_accents",
        "tokenize_chinese_chars",
        "model_max_length",
        "split_special_tokens",
        "padding_side",
        *SPECIAL_NAMES,
    )

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | bytes,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        model_max_length: int = 512,
        split_special_tokens: bool = False,
        padding_side: str = "right",
        **special: Any,
    ):
        unknown = [name for name in special if name not in SPECIAL_NAMES]
        if unknown:
            raise TypeError(
                f"A WordPiece tokenizer's options are {', '.join(self.SETTINGS)}. "
                f"Received: {', '.join(unknown)}. Leave them out."
            )
        self._strip_accents = strip_accents
        strip = do_lower_case if strip_accents is None else strip_accents
        rules = Rules(do_lower_case, strip, tokenize_chinese_chars)
        names = {name: _written(token) for name, token in special.items()}
        self._wordpiece = WordPieceSegmenter(Vocabulary.read(vocab_file, names), rules)
        BaseTokenizer.__init__(
            self, self._wordpiece, model_max_length, split_special_tokens, padding_side
        )

    @property
    def model_bytes(self) -> bytes:
        """The vocabulary file's content: a piece a line."""
        return bytes(self._wordpiece.vocabulary)

    @property
    def do_lower_case(self) -> bool:
        """Whether text is lower-cased."""
        return self._wordpiece.rules.lower_case

    @property
    def keep_accents(self) -> bool:
        """Whether accents are kept."""
        return not self._wordpiece.rules.strip_accents

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as `tokenizer_config.json` has them."""
        return {
            "do_lower_case": self.do_lower_case,
            "strip_accents": self._strip_accents,
            "tokenize_chinese_chars": self._wordpiece.rules.split_chinese,
            "model_max_length": self.model_max_length,
            "split_special_tokens": self.split_special_tokens,
            "padding_side": self.padding_side,
            **self.special_tokens_map,
        }

    def in_graph(self) -> Any:
        """An object of tensorflow-text's kind: `tokenize` takes strings `[B]` to ragged ids."""
        return WordPiece(self._wordpiece.vocabulary, self._wordpiece.rules)


def _written(token: Any) -> str:
    """A token as transformers stores it: its text, or an object that has it."""
    return token["content"] if isinstance(token, dict) else token
