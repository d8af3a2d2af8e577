"""The pieces of a WordPiece vocabulary, and the special ones among them."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from albert_tf.errors import UserError
from albert_tf.text.model_file import Source, read_model
from albert_tf.text.special_tokens import SpecialTokens

SUFFIX: Final = "##"  # Marks a piece that continues a word.
SPECIAL_NAMES: Final = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@dataclass(frozen=True)
class Vocabulary:
    """A WordPiece vocabulary.

    Attributes:
        pieces: by id. Of a piece that stands there twice, the last id counts.
        special: the special tokens, wherever they stand.
    """

    pieces: tuple[str, ...]
    special: SpecialTokens

    @classmethod
    def read(cls, source: Source, special: Mapping[str, str]) -> "Vocabulary":
        """Reads `vocab.txt` (a piece a line), or the vocabulary in a `tokenizer.json`.

        Args:
            special: how special tokens are written, by name, where not as in `SPECIAL_NAMES`.
        Raises:
            UserError: no such file, no text, or a special token is missing.
        """
        content, origin = read_model(source)
        pieces = _pieces(content, origin)
        ids = {piece: index for index, piece in enumerate(pieces)}
        names = tuple({**SPECIAL_NAMES, **special}.values())
        missing = [name for name in names if name not in ids]
        if missing:
            raise UserError(
                f"A WordPiece vocabulary must have the special tokens {', '.join(names)}. "
                f"Received: {origin}, {len(pieces)} pieces without {', '.join(missing)}. Use the "
                "vocab.txt that came with the checkpoint, or name its tokens (unk_token=…)."
            )
        return cls(pieces, SpecialTokens(names, tuple(ids[name] for name in names)))

    def __bytes__(self) -> bytes:
        return "".join(f"{piece}\n" for piece in self.pieces).encode("utf-8")


def _pieces(content: bytes, origin: str) -> tuple[str, ...]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"A WordPiece vocabulary must be text in UTF-8, a piece a line. Received: {origin}, "
            f"which isn't ({error.reason} at byte {error.start}). Fetch or copy vocab.txt again."
        ) from error
    if origin.endswith(".json"):
        return _of_tokenizer_json(text, origin)
    lines = text.replace("\r\n", "\n").split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


def _of_tokenizer_json(text: str, origin: str) -> tuple[str, ...]:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        ids = json.loads(text)["model"]["vocab"]
        pieces = sorted(ids, key=ids.__getitem__)
        if [ids[piece] for piece in pieces] == list(range(len(pieces))):
            return tuple(pieces)
    raise UserError(
        "A tokenizer.json must have a WordPiece vocabulary with ids from 0 on. "
        f"Received: {origin}, which doesn't. Use the vocabulary file that came with the checkpoint."
    )
