"""The options of reading a corpus."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from albert_tf.errors import UserError, short_repr
from albert_tf.options import Range, check_options, option

SENTENCEX: Final = "sentencex"  # the default sentence splitter
_LANGUAGE: Final = re.compile("[A-Za-z]{2,12}([-_][A-Za-z0-9]{1,12}){0,3}")
LONGEST_CHARACTER: Final = 4  # bytes of UTF-8; a byte order mark has 3
_GROUP: Final = "corpus (in plain text blank lines separate documents; in .jsonl a line is one)"


@dataclass(frozen=True)
class CorpusOptions:
    """The options of reading a corpus."""

    lines: Literal["paragraphs", "sentences"] = option(
        "paragraphs",
        help="what a line of text holds; paragraphs are split into sentences",
        group=_GROUP,
    )
    text_field: str = option(
        "text", help="field of .jsonl that holds the text", group=_GROUP, metavar="NAME"
    )
    bad_lines: Literal["stop", "skip"] = option(
        "stop",
        help="on a line that is not UTF-8, or not a JSON object with the text field, or longer "
        "than 16 MiB: stop with an error, or skip and count it",
        group=_GROUP,
    )
    language: str = option(
        "en",
        help="language of the text, for the sentence splitter, as in ISO 639",
        group=_GROUP,
        metavar="CODE",
    )
    max_document_bytes: int = option(
        1 << 20,
        help="longest document; longer ones are cut into several",
        group=_GROUP,
        range=Range(minimum=LONGEST_CHARACTER),
    )

    def __post_init__(self) -> None:
        check_options(self)
        if not _LANGUAGE.fullmatch(self.language):
            raise UserError(
                "language must be a code such as en, zh-classical or be_tarask. "
                f"Received: {short_repr(self.language)}."
            )


@dataclass(frozen=True, kw_only=True)
class CorpusInput(CorpusOptions):
    """The options of reading a corpus, with its files and its sentence splitter."""

    input: tuple[str, ...] = option(
        help="files, folders or globs of text in UTF-8 (.jsonl; anything else is plain text; both "
        "also .gz), here or at gs://, s3://, hdfs://",
        metavar="GLOB",
    )
    sentence_splitter: str = option(
        SENTENCEX,
        help="sentencex, or your own function from a paragraph to its sentences",
        group=_GROUP,
        metavar="MODULE:FUNCTION",
    )
