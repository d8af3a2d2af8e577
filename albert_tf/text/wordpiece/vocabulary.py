"""The pieces of a WordPiece vocabulary, and the special ones among them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from albert_tf.errors import UserError
from albert_tf.files import read_json
from albert_tf.text.model_file import Source, read_file
from albert_tf.text.segmenter import SpecialTokens

SUFFIX: Final = "##"  # The beginning of pieces that continue a word.
LONGEST_PIECE: Final = 64  # Characters. FastWordpieceTokenizer takes 256 bytes, which are 64 codes.
_NOT_IN_LINES: Final = re.compile("[\n\ud800-\udfff]")
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
        pieces: the pieces by id. A piece that occurs twice has the last id.
        special: the special tokens, which may have any ids.
    """

    pieces: tuple[str, ...]
    special: SpecialTokens

    @classmethod
    def read(cls, source: Source, special: Mapping[str, str]) -> "Vocabulary":
        """Reads `vocab.txt` (a piece a line), or the vocabulary in a `tokenizer.json`.

        Args:
            special: special tokens by name, where they differ from `SPECIAL_NAMES`.
        Raises:
            UserError: the file doesn't exist, isn't text, or lacks a special token.
        """
        content, origin = read_file(source, "vocab.txt")
        pieces = _json_pieces(origin) if origin.endswith(".json") else _lines(content, origin)
        longest = max(map(len, pieces), default=0)
        if longest > LONGEST_PIECE:
            raise UserError(
                f"A piece must have at most {LONGEST_PIECE} characters, for tensorflow-text. "
                f"Received: {origin}, with a piece of {longest:,}. Copy the vocabulary again."
            )
        ids = {piece: index for index, piece in enumerate(pieces)}
        names = tuple({**SPECIAL_NAMES, **special}.values())
        missing = [name or "an empty name" for name in names if not name or name not in ids]
        if missing:
            raise UserError(
                f"A WordPiece vocabulary must have the special tokens {', '.join(names)}. "
                f"Received: {origin}, {len(pieces)} pieces without {', '.join(missing)}. Use the "
                "vocab.txt that came with the checkpoint, or name its tokens (unk_token=…)."
            )
        return cls(pieces, SpecialTokens(names, tuple(ids[name] for name in names)))

    def __bytes__(self) -> bytes:
        return "".join(f"{piece}\n" for piece in self.pieces).encode("utf-8")


def _lines(content: bytes, origin: str) -> tuple[str, ...]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            "A WordPiece vocabulary must be text in UTF-8, one piece per line. Received: "
            f"{origin}, which isn't ({error.reason} at byte {error.start}). Copy vocab.txt again."
        ) from error
    lines = text.replace("\r\n", "\n").split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


def _json_pieces(origin: str) -> tuple[str, ...]:
    model = read_json(Path(origin)).get("model")
    ids = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(ids, dict) and all(type(index) is int for index in ids.values()):
        pieces = tuple(sorted(ids, key=ids.__getitem__))
        whole = [ids[piece] for piece in pieces] == list(range(len(pieces)))
        if whole and not _NOT_IN_LINES.search("".join(pieces)):
            return pieces
    raise UserError(
        "A tokenizer.json must have a WordPiece vocabulary with ids from 0. "
        f"Received: {origin}, which has none. Use the vocabulary file of the checkpoint."
    )
