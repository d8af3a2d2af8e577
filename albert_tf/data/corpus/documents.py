"""Reads the documents of a corpus, the same ones however its files are divided."""

import codecs
import contextlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from albert_tf.data.corpus.files import InputFile, is_gzip, open_bytes
from albert_tf.data.corpus.json_lines import json_lines, json_text
from albert_tf.data.corpus.lines import LONGEST_LINE
from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.corpus.plain_text import passages
from albert_tf.data.corpus.reading import Blocks, bad_line, check_head, readable

JSON_LINE = LONGEST_LINE  # a book on a line is cut like any long document
ASCII_SPACE = bytes(byte for byte in range(128) if chr(byte).isspace())


class Split(NamedTuple):
    """A part of a file: bytes `[start, end)`. None is the end of the file."""

    file: InputFile
    start: int
    end: int | None


class Document(NamedTuple):
    """A text and its identity, `(source, offset)`.

    Attributes:
        source: `InputFile.name`.
        offset: its place in the decompressed file. For a part of a JSON text: the place of the
            line plus the bytes of the text before the part.
        text: UTF-8, at most `max_document_bytes`; its lines end in "\\n", and none is blank.
    """

    source: str
    offset: int
    text: bytes


def splits(files: Sequence[InputFile], size: int) -> list[Split]:
    """Divides files evenly into parts of at most `size` bytes; a `.gz` is one part."""
    found: list[Split] = []
    for file in files:
        if is_gzip(file.path):
            found.append(Split(file, 0, None))
            continue
        count = -(-file.size // size)
        bounds = [file.size * number // count for number in range(count + 1)] if count else []
        found += [Split(file, start, end) for start, end in pairwise(bounds)]
    return found


def documents(split: Split, options: CorpusOptions, counts: Counter[str]) -> Iterator[Document]:
    """Yields the documents of a part of a file, in order and in bounded memory.

    In plain text blank lines (only white space) separate documents, and the part owns those whose
    preceding blank line begins in it. In `.jsonl` and `.jsonl.gz` a line is a document; blank lines
    of its text are dropped. A document that is too long is cut at a line end, else at white space,
    else between characters. A byte order mark is dropped.

    Args:
        counts: gets "documents", "bytes" (of text), "documents_cut", "empty_documents" and
            "bad_lines" (each bad part of a plain line that was cut counts).
    Raises:
        UserError: a bad line, unless these are skipped; UTF-16, or a binary file; a damaged `.gz`.
            The message names the file and the line.
    """
    read = _json_texts if _is_jsonl(split.file.path) else _plain_texts
    start = max(0, split.start - 1)
    with contextlib.closing(open_bytes(split.file.path)) as file, readable(split.file):
        if start:
            file.seek(start)
        blocks = Blocks(file, start)
        if not split.start:
            check_head(blocks.data, split.file)
            if blocks.data.startswith(codecs.BOM_UTF8):
                blocks.read_on(len(codecs.BOM_UTF8))
        for offset, text in read(blocks, split, options, counts):
            if not text:
                counts["empty_documents"] += 1
                continue
            counts["documents"] += 1
            counts["bytes"] += len(text)
            yield Document(split.file.name, offset, text)


def _is_jsonl(path: str) -> bool:
    return path.removesuffix(".gz").endswith(".jsonl")


def _plain_texts(
    blocks: Blocks, split: Split, options: CorpusOptions, counts: Counter[str]
) -> Iterator[tuple[int, bytes]]:
    for offset, text, part in passages(blocks, split.start, split.end, options.max_document_bytes):
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
    blocks: Blocks, split: Split, options: CorpusOptions, counts: Counter[str]
) -> Iterator[tuple[int, bytes]]:
    for offset, line in json_lines(blocks, split.start, split.end, JSON_LINE):
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
        within = Blocks(io.BytesIO(text), 0)
        for place, part, _ in passages(within, 0, None, options.max_document_bytes):
            yield offset + place, part.decode().rstrip().encode()
