"""The options for reading a corpus."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from albert_tf.data.corpus.files import InputFile, check_packing, find_inputs, is_json_lines
from albert_tf.errors import UserError, short_repr
from albert_tf.options import COUNT, Checked, check_number, option

SENTENCEX: Final = "sentencex"  # the default sentence splitter
_TABLES: Final = (".csv", ".tsv", ".parquet")
_LANGUAGE: Final = re.compile("[A-Za-z]{2,12}([-_][A-Za-z0-9]{1,12}){0,3}")
_GROUP: Final = "corpus (blank lines separate documents; in JSON lines, each line is a document)"


@dataclass(frozen=True)
class CorpusOptions(Checked):
    """The options for reading a corpus."""

    lines: Literal["paragraphs", "sentences"] = option(
        "paragraphs",
        help="what a line of text contains; paragraphs are split into sentences",
        group=_GROUP,
    )
    text_field: str = option(
        "text", help="JSON field that contains the text", group=_GROUP, metavar="NAME"
    )
    bad_lines: Literal["stop", "skip"] = option(
        "stop",
        help="what to do with a line that is not UTF-8, not a JSON object with the text field, or "
        "longer than 16 MiB: stop with an error, or skip and count it",
        group=_GROUP,
    )
    language: str = option(
        "en",
        help="ISO 639 code of the text's language, for the sentence splitter",
        group=_GROUP,
        metavar="CODE",
    )
    max_document_bytes: int = 1 << 20  # longer documents are split

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("max_document_bytes", self.max_document_bytes, COUNT)
        if not _LANGUAGE.fullmatch(self.language):
            raise UserError(
                "language must be a code such as en, zh-classical, or be_tarask. "
                f"Received: {short_repr(self.language)}."
            )


@dataclass(frozen=True, kw_only=True)
class CorpusInput(CorpusOptions):
    """The options for reading a corpus, including its files and its sentence splitter."""

    input: tuple[str, ...] = option(
        help="UTF-8 text files, folders, or globs, local or on gs://, s3://, or hdfs://. Files "
        "named .jsonl, .ndjson, or .json contain one JSON object per line; all others are plain "
        "text. All can be compressed (.gz)",
        metavar="GLOB",
        is_path=True,
    )
    sentence_splitter: str = option(
        SENTENCEX,
        help="sentencex, or your own function that splits a paragraph into a list of sentences",
        group=_GROUP,
        metavar="MODULE:FUNCTION",
        only={"lines": ("paragraphs",)},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language != CorpusInput.language and not self.reads_language:
            raise UserError(
                "--language requires --lines paragraphs and --sentence-splitter sentencex. "
                f"Received: --language {self.language} --lines {self.lines} --sentence-splitter "
                f"{self.sentence_splitter}. Drop --language."
            )

    @property
    def reads_language(self) -> bool:
        """Whether the language affects the result."""
        return self.lines == "paragraphs" and self.sentence_splitter == SENTENCEX

    def files(self) -> list[InputFile]:
        """Finds the files.

        Raises:
            UserError: there are no such files; one is a table, or is compressed with something
                other than gzip; or a text field was set but no file contains JSON lines.
        """
        files = find_inputs(self.input)
        for file in files:
            check_packing(file.path)
            if file.path.lower().removesuffix(".gz").endswith(_TABLES):
                raise UserError(
                    f"A table isn't plain text. Received: {file.path}. Write its texts to a .jsonl "
                    'file with one {"text": …} per line, or exclude it.'
                )
        if self.text_field != CorpusInput.text_field and not any(
            is_json_lines(file.path) for file in files
        ):
            raise UserError(
                "--text-field requires JSON lines in a .jsonl, .ndjson, or .json file. Received: "
                f"--text-field {self.text_field} with {files[0].path}. Drop --text-field, or "
                "rename the file."
            )
        return files
