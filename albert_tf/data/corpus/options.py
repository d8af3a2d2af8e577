"""How the text of a corpus is read."""

from dataclasses import dataclass
from typing import Literal, get_args

from albert_tf.errors import UserError

Lines = Literal["paragraphs", "sentences"]
BadLines = Literal["stop", "skip"]
LONGEST_CHARACTER = 4  # bytes of UTF-8; a byte order mark has 3


@dataclass(frozen=True)
class CorpusOptions:
    """How the text of a corpus is read.

    Attributes:
        lines: what a line of text is; paragraphs get split into sentences.
        text_field: the field of a JSONL object that holds the text.
        bad_lines: stop at, or skip and count, a line that isn't UTF-8, isn't JSON, has no such
            field, or is JSON of more than 16 MiB.
        language: of the sentence splitter, as in ISO 639.
        max_document_bytes: longer documents are cut into several.
    Raises:
        UserError: another choice, no text field, or a size below a character's.
    """

    lines: Lines = "paragraphs"
    text_field: str = "text"
    bad_lines: BadLines = "stop"
    language: str = "en"
    max_document_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for name, choices in (("lines", get_args(Lines)), ("bad_lines", get_args(BadLines))):
            if getattr(self, name) not in choices:
                raise UserError(
                    f"{name} must be {' or '.join(map(repr, choices))}. "
                    f"Received: {getattr(self, name)!r}."
                )
        if self.max_document_bytes < LONGEST_CHARACTER:
            raise UserError(
                f"max_document_bytes must be {LONGEST_CHARACTER} or more. "
                f"Received: {self.max_document_bytes}."
            )
        if not self.text_field:
            raise UserError("text_field must name a field. Received: ''.")
