"""Reading SentencePiece models, and telling what is none."""

import os
from pathlib import Path

from google.protobuf.message import DecodeError

from albert_tf.errors import UserError
from albert_tf.text.sentencepiece_messages import ModelProto
from albert_tf.text.special_tokens import SPECIAL_TOKENS

Source = str | os.PathLike[str] | bytes


def read_model(source: Source) -> tuple[bytes, str]:
    """The bytes of a model and the name to call it in messages."""
    if isinstance(source, bytes):
        return source, "the bytes given"
    path = Path(source)
    if not path.is_file():
        raise UserError(
            f"A vocabulary must be a SentencePiece model file. Received: {path}, which is "
            f"{'a folder' if path.is_dir() else 'not there'}. Give the path of a spiece.model."
        )
    return path.read_bytes(), str(path)


def parse_model(content: bytes, origin: str) -> ModelProto:
    """The model as a message, once it is sure to be an ALBERT vocabulary."""
    proto = ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError as error:
        raise _not_a_model(content, origin) from error
    whole = proto.HasField("trainer_spec") and proto.HasField("normalizer_spec")
    if not (proto.pieces and whole):
        raise _not_a_model(content, origin)
    first = tuple(piece.piece for piece in proto.pieces[: len(SPECIAL_TOKENS)])
    if first != SPECIAL_TOKENS:
        raise UserError(
            f"An ALBERT vocabulary must start with {', '.join(SPECIAL_TOKENS)}. Received: "
            f"{origin}, which starts with {', '.join(first)}. Use the spiece.model that came with "
            "an ALBERT checkpoint, or make one with train_vocabulary."
        )
    return proto


def _not_a_model(content: bytes, origin: str) -> UserError:
    return UserError(
        f"A vocabulary must be a whole SentencePiece model. Received: {origin}, {len(content)} "
        "bytes that don't read as one (another kind of file, or cut short). "
        "Fetch or copy spiece.model again."
    )
