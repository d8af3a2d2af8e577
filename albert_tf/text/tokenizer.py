"""ALBERT's tokenizer in Python, with the calls and results of Hugging Face's."""

import os
from typing import Any

from albert_tf.checkpoints.directory import split_hub_options
from albert_tf.files import written_atomically
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.pieces import SentencePieceSegmenter
from albert_tf.text.tokenizer_files import is_wordpiece, read_tokenizer, write_tokenizer
from albert_tf.text.vocabulary import DigitComma, Quotes, ensure_baked


class AlbertTokenizer(BaseTokenizer):
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
        padding_side: "right" or "left".
    Raises:
        UserError: the file isn't an ALBERT vocabulary, or was baked with other options than given.
    """

    vocab_name = "spiece.model"
    hub_class = "AlbertTokenizer"
    special_names: tuple[str, ...] = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
    # What the constructor takes of tokenizer_config.json; the rest of it belongs to transformers.
    SETTINGS: tuple[str, ...] = (
        "do_lower_case",
        "keep_accents",
        "digit_comma",
        "quotes",
        "model_max_length",
        "split_special_tokens",
        "padding_side",
    )

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | bytes,
        do_lower_case: bool | None = None,
        keep_accents: bool | None = None,
        digit_comma: DigitComma | None = None,
        quotes: Quotes | None = None,
        model_max_length: int = 512,
        split_special_tokens: bool = False,
        padding_side: str = "right",
    ):
        self._model, self.baked = ensure_baked(
            vocab_file,
            lower_case=do_lower_case,
            keep_accents=keep_accents,
            digit_comma=digit_comma,
            quotes=quotes,
        )
        segmenter = SentencePieceSegmenter(self._model)
        super().__init__(segmenter, model_max_length, split_special_tokens, padding_side)

    @property
    def model_bytes(self) -> bytes:
        """The vocabulary file's content: the baked SentencePiece model."""
        return self._model

    @property
    def do_lower_case(self) -> bool:
        """Whether the vocabulary lower-cases text."""
        return self.baked.lower_case

    @property
    def keep_accents(self) -> bool:
        """Whether the vocabulary keeps accents."""
        return self.baked.keep_accents

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as `tokenizer_config.json` has them."""
        return {
            "do_lower_case": self.do_lower_case,
            "keep_accents": self.keep_accents,
            "digit_comma": self.baked.digit_comma,
            "quotes": self.baked.quotes,
            "model_max_length": self.model_max_length,
            "split_special_tokens": self.split_special_tokens,
            "padding_side": self.padding_side,
        }

    def in_graph(self) -> Any:
        """An object of tensorflow-text's kind: `tokenize` takes strings `[B]` to ragged ids."""
        import tensorflow as tf
        import tensorflow_text  # Its operators are registered by this import.

        with tf.init_scope():
            return tensorflow_text.FastSentencepieceTokenizer(self._model)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(vocab_size={self.vocab_size}, "
            f"do_lower_case={self.do_lower_case}, keep_accents={self.keep_accents}, "
            f"model_max_length={self.model_max_length})"
        )

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str]:
        """Writes the vocabulary as `[prefix-]spiece.model`, WordPiece as `[prefix-]vocab.txt`.

        Returns:
            Its path, in a tuple.
        """
        name = f"{filename_prefix}-{self.vocab_name}" if filename_prefix else self.vocab_name
        target = os.path.join(os.fspath(save_directory), name)
        with written_atomically(target, force=True) as path:
            path.write_bytes(self.model_bytes)
        return (target,)

    def save_pretrained(self, save_directory: str | os.PathLike[str]) -> tuple[str, ...]:
        """Writes the vocabulary, `tokenizer_config.json` and `special_tokens_map.json`."""
        settings = {"tokenizer_class": self.hub_class, **self.settings}
        config, special = write_tokenizer(save_directory, settings, self.special_tokens_map)
        return (*self.save_vocabulary(save_directory), config, special)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | os.PathLike[str],
        **options: Any,
    ) -> "AlbertTokenizer":
        """The tokenizer of a directory, a vocabulary file, or a name on the Hugging Face hub.

        A directory with a WordPiece vocabulary (`vocab.txt`: the Chinese models) and no
        SentencePiece model gives a `WordPieceTokenizer`.

        Args:
            name_or_path: e.g. "albert/albert-base-v2". `tokenizer_files.py` has the names under
                which a vocabulary is found; a TensorFlow 1 checkpoint's path stands for its folder.
            **options: `revision`, `token`, `cache_dir`, `local_files_only` for the hub; the
                constructor's otherwise, which go before those of `tokenizer_config.json`.
        Raises:
            UserError: nothing there, no vocabulary or several.
        """
        hub_options, options = split_hub_options(options)
        vocabulary, config = read_tokenizer(name_or_path, hub_options)
        if is_wordpiece(vocabulary):
            from albert_tf.text.wordpiece.tokenizer import WordPieceTokenizer  # Needs TensorFlow.

            cls = cls if issubclass(cls, WordPieceTokenizer) else WordPieceTokenizer
        settings = {name: config[name] for name in cls.SETTINGS if config.get(name) is not None}
        return cls(vocabulary, **{**settings, **options})
