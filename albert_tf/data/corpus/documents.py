"""Reads the documents of a corpus, the same ones however its files are divided; draws a sample.

Splits documents into sentences, by a splitter that can be replaced. The default is sentencex of the
Wikimedia Foundation: made for the languages of Wikipedia, maintained, without dependencies, and the
fastest of those tried on two English novels (MB/s on one core of a 2-core server: sentencex 50,
ICU 20, blingfire 7, nupunkt 5, syntok 0.5).
"""

import codecs
import contextlib
import dataclasses
import functools
import hashlib
import heapq
import importlib
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from albert_tf.data.corpus.files import (
    InputFile,
    check_packing,
    find_inputs,
    is_gzip,
    is_json_lines,
    open_bytes,
)
from albert_tf.data.corpus.reading import (
    LONGEST_LINE,
    ByteWindow,
    bad_line,
    check_head,
    check_prose,
    json_lines,
    json_text,
    passages,
    readable,
)
from albert_tf.errors import UserError, short_repr
from albert_tf.options import COUNT, Checked, check_number, option

JSON_LINE = LONGEST_LINE  # a book on a line is cut like any long document
PASSAGE = 4096  # most bytes of a passage in a sample, a few paragraphs: small beside any sample
SMALLEST = 64  # bytes that a passage counts for at least, since Python takes 300 for any
ASCII_SPACE = bytes(byte for byte in range(128) if chr(byte).isspace())
SENTENCEX: Final = "sentencex"  # the default sentence splitter
_LANGUAGE: Final = re.compile("[A-Za-z]{2,12}([-_][A-Za-z0-9]{1,12}){0,3}")
_GROUP: Final = "corpus (in plain text blank lines separate documents; in JSON lines a line is one)"


@dataclasses.dataclass(frozen=True)
class CorpusOptions(Checked):
    """The options of reading a corpus."""

    lines: Literal["paragraphs", "sentences"] = option(
        "paragraphs",
        help="what a line of text holds; paragraphs are split into sentences",
        group=_GROUP,
    )
    text_field: str = option(
        "text", help="field of JSON lines that holds the text", group=_GROUP, metavar="NAME"
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
    max_document_bytes: int = 1 << 20  # longer ones are cut into several

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("max_document_bytes", self.max_document_bytes, COUNT)
        if not _LANGUAGE.fullmatch(self.language):
            raise UserError(
                "language must be a code such as en, zh-classical or be_tarask. "
                f"Received: {short_repr(self.language)}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusInput(CorpusOptions):
    """The options of reading a corpus, with its files and its sentence splitter."""

    input: tuple[str, ...] = option(
        help="files, folders or globs of text in UTF-8 (.jsonl, .ndjson and .json have an object a "
        "line; anything else is plain text; each also .gz), here or at gs://, s3://, hdfs://",
        metavar="GLOB",
        is_path=True,
    )
    sentence_splitter: str = option(
        SENTENCEX,
        help="sentencex, or your own function from a paragraph to its sentences",
        group=_GROUP,
        metavar="MODULE:FUNCTION",
        only={"lines": ("paragraphs",)},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language != CorpusInput.language and not self.reads_language:
            raise UserError(
                "--language needs --lines paragraphs and --sentence-splitter sentencex. Received: "
                f"--language {self.language} --lines {self.lines} --sentence-splitter "
                f"{self.sentence_splitter}. Leave it out."
            )

    @property
    def reads_language(self) -> bool:
        """Whether another language may change the result."""
        return self.lines == "paragraphs" and self.sentence_splitter == SENTENCEX

    def files(self) -> list[InputFile]:
        """Finds the files.

        Raises:
            UserError: no such files, another compression than gzip, or a field of JSON lines where
                no file has any.
        """
        files = find_inputs(self.input)
        for file in files:
            check_packing(file.path)
        if self.text_field != CorpusInput.text_field and not any(
            is_json_lines(file.path) for file in files
        ):
            raise UserError(
                "--text-field needs an input of JSON lines (.jsonl, .ndjson, .json). Received: "
                f"--text-field {self.text_field} with {files[0].path}. Leave it out, or rename "
                "the file."
            )
        return files


class Split(NamedTuple):
    """A range of a file, bytes `[start, end)`; None is the end of the file."""

    file: InputFile
    start: int
    end: int | None


class Document(NamedTuple):
    """A text and its identity, `(source, offset)`.

    Attributes:
        source: `InputFile.name`.
        offset: its offset in the decompressed file. For a part of a JSON text: the offset of the
            line plus the bytes of the text before the part.
        text: UTF-8, at most `max_document_bytes`; its lines end in "\\n", and none is blank.
    """

    source: str
    offset: int
    text: bytes


def splits(files: Sequence[InputFile], size: int) -> list[Split]:
    """Divides files evenly into ranges of at most `size` bytes; a `.gz` isn't divided."""
    ranges: list[Split] = []
    for file in files:
        if is_gzip(file.path):
            ranges.append(Split(file, 0, None))
            continue
        count = -(-file.size // size)
        bounds = [file.size * number // count for number in range(count + 1)] if count else []
        ranges += [Split(file, start, end) for start, end in pairwise(bounds)]
    return ranges


def documents(split: Split, options: CorpusOptions, counts: Counter[str]) -> Iterator[Document]:
    """Yields the documents of a range of a file, in order and in bounded memory.

    In plain text blank lines (only white space) separate documents, and the range owns those whose
    preceding blank line begins in it. In files of JSON lines a line is a document; blank lines
    of its text are dropped. A document that is too long is cut at a line end, else at white space,
    else between characters. A byte order mark is dropped.

    Args:
        counts: gets "documents", "bytes" (of text), "documents_cut", "empty_documents" and
            "bad_lines" (each bad part of a plain line that was cut counts).
    Raises:
        UserError: a bad line, unless these are skipped; UTF-16, or a binary file; a damaged `.gz`;
            JSON lines in a file of plain text. The message names the file and the line.
    """
    is_json = is_json_lines(split.file.path)
    read = _json_texts if is_json else _plain_texts
    start = max(0, split.start - 1)
    with contextlib.closing(open_bytes(split.file.path)) as file, readable(split.file):
        if start:
            file.seek(start)
        window = ByteWindow(file, start)
        if not split.start:
            check_head(window.data, split.file)
            if window.data.startswith(codecs.BOM_UTF8):
                window.refill(len(codecs.BOM_UTF8))
            if not is_json:
                check_prose(window, split.file)
        for offset, text in read(window, split, options, counts):
            if not text:
                counts["empty_documents"] += 1
                continue
            counts["documents"] += 1
            counts["bytes"] += len(text)
            yield Document(split.file.name, offset, text)


def sample(
    files: Sequence[InputFile],
    options: CorpusOptions,
    limit: int,
    seed: int,
    counts: Counter[str],
) -> list[Document]:
    """Draws passages from all documents with equal probability; all passages if they are few.

    A passage is a document, or a part of it of at most `PASSAGE` bytes. Its rank depends on the
    seed, its file's name and its offset in the file alone; the passages with the lowest ranks stay.

    Args:
        limit: bytes of text in the sample; a passage counts for at least `SMALLEST`.
        counts: gets the counts of `documents`, for passages.
    Returns:
        The sample, sorted by rank.
    Raises:
        UserError: as in `documents`.
    """
    options = dataclasses.replace(options, max_document_bytes=PASSAGE)
    chosen: list[tuple[int, Document]] = []  # a heap, the highest rank first
    size, threshold = 0, 1 << 64
    for file in files:
        for document in documents(Split(file, 0, None), options, counts):
            rank = _rank(seed, document)
            if rank >= threshold:
                continue
            heapq.heappush(chosen, (-rank, document))
            size += _size(document)
            while size > limit:
                lowest, dropped = heapq.heappop(chosen)
                threshold = -lowest  # so that no later, smaller passage replaces it
                size -= _size(dropped)
    return [document for _, document in sorted(chosen, reverse=True)]


def _rank(seed: int, document: Document) -> int:
    key = f"{seed}\0{document.source}\0{document.offset}".encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")


def _size(document: Document) -> int:
    return max(len(document.text), SMALLEST)


def _plain_texts(
    window: ByteWindow, split: Split, options: CorpusOptions, counts: Counter[str]
) -> Iterator[tuple[int, bytes]]:
    for offset, text, part in passages(window, split.start, split.end, options.max_document_bytes):
        if part == 1:
            counts["documents_cut"] += 1
        if text.isascii():
            text = text.rstrip(ASCII_SPACE)
        else:
            text = _valid_lines(text, offset, split.file, options, counts)
        yield offset, text.replace(b"\r\n", b"\n") if b"\r" in text else text


def _valid_lines(
    text: bytes, offset: int, file: InputFile, options: CorpusOptions, counts: Counter[str]
) -> bytes:
    """Drops lines that aren't UTF-8, and white space around the text."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        if options.bad_lines == "stop":
            raise bad_line(file, offset + error.start, error) from error
        lines = text.split(b"\n")
        good = [line for line in lines if line.decode(errors="ignore").encode() == line]
        counts["bad_lines"] += len(lines) - len(good)
        return b"\n".join(good).decode().strip().encode()
    return decoded.rstrip().encode() if decoded[-1].isspace() else text


def _json_texts(
    window: ByteWindow, split: Split, options: CorpusOptions, counts: Counter[str]
) -> Iterator[tuple[int, bytes]]:
    for offset, line in json_lines(window, split.start, split.end, JSON_LINE):
        try:
            if line is None:
                raise ValueError(f"it is longer than {JSON_LINE:,} bytes")
            if not line or line.isspace():
                continue
            text = json_text(line, options.text_field)
        except ValueError as error:
            if options.bad_lines == "stop":
                raise bad_line(split.file, offset, error) from error
            counts["bad_lines"] += 1
            continue
        if len(text) <= options.max_document_bytes:
            yield offset, text
            continue
        counts["documents_cut"] += 1
        within = ByteWindow(io.BytesIO(text), 0)
        for start, part, _ in passages(within, 0, None, options.max_document_bytes):
            yield offset + start, part.decode().rstrip().encode()


SplitSentences = Callable[[str], list[str]]


def sentence_splitter(splitter: str | SplitSentences, language: str) -> SplitSentences:
    """Returns the function that splits a paragraph into sentences.

    Args:
        splitter: "sentencex"; "module:function", which is imported and called with a paragraph;
            or such a function. Only a name can be sent to another process and recorded.
        language: for sentencex, which splits an unknown language as a related one, at last as
            English.
    Raises:
        UserError: no such name.
    """
    if callable(splitter):
        return splitter
    if splitter == SENTENCEX:
        import sentencex

        return functools.partial(sentencex.segment, language)
    return _checked(splitter, _imported(splitter))


def sentences(document: Document, options: CorpusOptions, split: SplitSentences) -> list[str]:
    """Returns the sentences of a document, stripped of white space, without empty ones."""
    lines = document.text.decode().split("\n")
    if options.lines == "sentences":
        unstripped = lines
    else:
        unstripped = [sentence for line in lines for sentence in split(line)]
    return [stripped for sentence in unstripped if (stripped := sentence.strip())]


def _imported(name: str) -> SplitSentences:
    module, _, function = name.partition(":")
    try:
        split = functools.reduce(getattr, function.split("."), importlib.import_module(module))
        if not callable(split):
            raise TypeError(f"it is of type {type(split).__name__}")
    except Exception as error:  # The module may fail in any way as it is imported.
        raise UserError(
            f"A sentence splitter is {SENTENCEX!r}, or 'module:function' of a module that Python "
            f"finds. Received: {name!r}: {error}."
        ) from error
    return split


def _checked(name: str, split: SplitSentences) -> SplitSentences:
    """Returns a splitter whose mistakes are errors; a first sentence shows most of them."""

    def checked(paragraph: str) -> list[str]:
        try:
            result = split(paragraph)
            if isinstance(result, str):
                raise TypeError("it returned a string")
            sentences = list(result)
            if not all(isinstance(sentence, str) for sentence in sentences):
                raise TypeError("it returned something else than strings")
        except Exception as error:
            raise UserError(
                "A sentence splitter must be a function from a string to a list of strings. "
                f"Received: {name!r}, which failed: {type(error).__name__}: {error}."
            ) from error
        return sentences

    checked("A boat left. It was calm.")
    return checked
