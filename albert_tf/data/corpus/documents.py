"""Reads the documents of a corpus, splits them into sentences, and draws a sample of passages.

The documents don't depend on how the files are divided into ranges.

The default sentence splitter is the Wikimedia Foundation's sentencex. It supports the languages of
Wikipedia, is maintained, and has no dependencies. It was the fastest splitter in our test on two
English novels (in MB/s on one core of a 2-core server: sentencex 50, ICU 20, blingfire 7, nupunkt
5, syntok 0.5).
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
    check_beginning,
    check_prose,
    json_lines,
    json_text,
    passages,
    readable,
)
from albert_tf.errors import UserError, short_repr
from albert_tf.options import COUNT, Checked, check_number, option

JSON_LINE = LONGEST_LINE  # a whole book on one line is cut like any other long document
PASSAGE = 4096  # maximum bytes of a passage (a few paragraphs), far smaller than a sample
SMALLEST = 64  # a passage counts as at least this many bytes; its Python object takes 300
ASCII_SPACE = bytes(byte for byte in range(128) if chr(byte).isspace())
SENTENCEX: Final = "sentencex"  # the default sentence splitter
_TABLES: Final = (".csv", ".tsv", ".parquet")
_LANGUAGE: Final = re.compile("[A-Za-z]{2,12}([-_][A-Za-z0-9]{1,12}){0,3}")
_GROUP: Final = "corpus (blank lines separate documents; in JSON lines, each line is a document)"


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
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


class Split(NamedTuple):
    """The bytes `[start, end)` of a file, or all bytes from `start` on if `end` is None."""

    file: InputFile
    start: int
    end: int | None


class Document(NamedTuple):
    """A text, identified by `(source, offset)`.

    Attributes:
        source: `InputFile.name`.
        offset: offset in the decompressed file. If a JSON line's text was cut, this is the
            line's offset plus the number of text bytes before the part.
        text: UTF-8, at most `max_document_bytes`, with "\\n" line breaks and no blank lines.
    """

    source: str
    offset: int
    text: bytes


def splits(files: Sequence[InputFile], size: int) -> list[Split]:
    """Divides files evenly into ranges of at most `size` bytes. A `.gz` file is not divided."""
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
    """Yields the documents in a range of a file, in order and in bounded memory.

    In plain text, lines without text separate documents. A document belongs to the range in which
    its preceding blank line begins. In JSON lines, each line is a document, and blank lines within
    its text are dropped. A document that is too long is cut at a line break if possible, otherwise
    at white space, otherwise between two characters. A byte order mark is dropped.

    Args:
        counts: receives "documents", "bytes" (of text), "documents_cut", "empty_documents", and
            "bad_lines". If a plain-text line is cut, each invalid part counts as a bad line.
    Raises:
        UserError: a line is bad and `bad_lines` is "stop"; the file is UTF-16 or binary; a
            `.gz` file is damaged; or a plain text file contains JSON lines. The message names the
            file and the line.
    """
    is_json = is_json_lines(split.file.path)
    read = _json_texts if is_json else _plain_texts
    start = max(0, split.start - 1)
    with contextlib.closing(open_bytes(split.file.path)) as file, readable(split.file.path):
        if start:
            file.seek(start)
        window = ByteWindow(file, start)
        if not split.start:
            check_beginning(window.data, split.file)
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
    """Draws passages from all documents with equal probability, or all passages if they fit.

    A passage is a document of at most `PASSAGE` bytes, or a part of a longer one. The rank of a
    passage depends only on the seed, the file's name, and the offset. The passages with the lowest
    ranks are kept.

    Args:
        limit: bytes of text in the sample. A passage counts as at least `SMALLEST` bytes.
        counts: see `documents`; here, passages are counted.
    Returns:
        The sample, sorted by rank.
    Raises:
        UserError: see `documents`.
    """
    options = dataclasses.replace(options, max_document_bytes=PASSAGE)
    chosen: list[tuple[int, Document]] = []  # a heap with the highest rank first
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
                threshold = -lowest  # so that no smaller passage replaces it later
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
    """Returns the text without invalid UTF-8 lines and without surrounding white space."""
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
                raise ValueError(f"the line is longer than {JSON_LINE:,} bytes")
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
        splitter: "sentencex", "module:function" to import a function, or the function itself. Only
            a name can be stored or sent to another process.
        language: language code for sentencex. For an unknown language, sentencex falls back to a
            related one, and finally to English.
    Raises:
        UserError: the function can't be imported.
    """
    if callable(splitter):
        return splitter
    if splitter == SENTENCEX:
        import sentencex

        return functools.partial(sentencex.segment, language)
    return _check_results(splitter, _import_splitter(splitter))


def sentences(document: Document, options: CorpusOptions, split: SplitSentences) -> list[str]:
    """Returns the non-empty sentences of a document, stripped of white space."""
    lines = document.text.decode().split("\n")
    if options.lines == "sentences":
        unstripped = lines
    else:
        unstripped = [sentence for line in lines for sentence in split(line)]
    return [stripped for sentence in unstripped if (stripped := sentence.strip())]


def _import_splitter(name: str) -> SplitSentences:
    module, _, function = name.partition(":")
    try:
        split = functools.reduce(getattr, function.split("."), importlib.import_module(module))
        if not callable(split):
            raise TypeError(f"it is a {type(split).__name__}, not a function")
    except Exception as error:  # importing the module may raise anything
        raise UserError(
            f"sentence_splitter must be {SENTENCEX!r} or an importable 'module:function'. "
            f"Received: {name!r}: {error}."
        ) from error
    return split


def _check_results(name: str, split: SplitSentences) -> SplitSentences:
    """Wraps a splitter: a failure or an invalid result then raises a `UserError`.

    Calls the splitter once, to reveal most mistakes before the corpus is read.
    """

    def checked_split(paragraph: str) -> list[str]:
        try:
            result = split(paragraph)
            if isinstance(result, str):
                raise TypeError("it returned a string")
            sentences = list(result)
            if not all(isinstance(sentence, str) for sentence in sentences):
                raise TypeError("it returned items that are not strings")
        except Exception as error:
            raise UserError(
                "The sentence splitter must be a function that takes a string and returns a list "
                f"of strings. Received: {name!r}, which failed: {type(error).__name__}: {error}."
            ) from error
        return sentences

    checked_split("A boat left. It was calm.")
    return checked_split
