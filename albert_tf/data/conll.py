"""CoNLL files and tables: each line contains a word and its annotations.

A sentence ends at an empty line, or where the number in a column of sentence numbers changes.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.data.tables import BAD_ROW, NAMED_SEPARATOR, SEPARATORS, repeated_header
from albert_tf.data.text_files import open_text, warn_once
from albert_tf.errors import UserError, listed
from albert_tf.evaluation.entities import has_prefixes

_PLAIN: Final = (
    *(".conll", ".conllu", ".conllup", ".txt", ".tsv", ".csv"),
    *(".bio", ".bio2", ".iob", ".iob2", ".bioes", ".iobes", ".bilou"),
)
ENDINGS: Final = (*_PLAIN, *(f"{ending}.gz" for ending in _PLAIN))
WORDS, TAGS = "words", "tags"  # keys of a sentence's columns
# Usual column names, in lowercase letters.
_WORDS: Final = ("word", "words", "token", "tokens", "form")
_TAGS: Final = ("tag", "tags", "label", "labels", "nertag", "nertags", "ner", "pos", "upos")
_SENTENCES: Final = ("sentence", "sentenceid", "sentenceidx", "sentencenumber", "sentid")
_DOCUMENT: Final = "-DOCSTART-"
_SPACES: Final = re.compile("[ \t]+")  # other whitespace can be part of a word
_QUOTED: Final = re.compile('"(?:[^"]|"")+"')  # as pandas writes a word that contains one
_SAMPLE: Final = 1000  # sentences whose columns are compared
_COMMENT: Final = re.compile(r"#(\s|$)")
_NAMES: Final = re.compile(r"#\s*global\.columns\s*=(.*)")  # in CoNLL-U Plus
# universaldependencies.org/format.html
_CONLL_U: Final = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]


class _Layout(NamedTuple):
    """The columns of a file.

    Attributes:
        separator: a character, or None for whitespace.
        is_quoted: whether fields can be quoted.
        width: number of columns.
        words, tags: 0-based indices of the columns; `tags` is None if tags aren't read.
        has_ids: whether the first column contains word ids. Lines with an id such as 1-2 (a range
            of words) or 1.1 (a word that isn't in the text) are skipped.
        start: 0-based index of the first line after the header.
        header: the fields of the header; empty if there is none.
        sentences: 0-based index of the column of sentence numbers, or None.
    """

    separator: str | None
    is_quoted: bool
    width: int
    words: int
    tags: int | None
    has_ids: bool
    start: int
    header: list[str]
    sentences: int | None

    def is_comment(self, line: str) -> bool:
        """Returns whether a line before the first word of a sentence is a comment.

        A sentence can begin with the word "#".
        """
        is_word = len(_split(line, self.separator, self.is_quoted)) == self.width
        has_value = self.separator is None and "=" in line
        return bool(_COMMENT.match(line)) and (has_value or not is_word)


def sentences(
    path: Path, words: str | None, tags: str | None, labelled: bool, encoding: str | None = None
) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yields the line number where each sentence starts, and its columns `WORDS` and `TAGS`.

    A sentence becomes a `BAD_ROW` if one of its lines has the wrong number of columns.

    Args:
        words, tags: 1-based numbers or names of the columns. Names come from CoNLL-U, a
            header, or a line "# global.columns = …". Default: FORM and UPOS in `.conllu` files, and
            the first (or "token", "word", …, in a header) and the last column in other files.
        labelled: whether to read tags.
        encoding: see `open_text`.
    Raises:
        UserError: a column doesn't exist, words and tags are in the same column, the word column
            contains word numbers, or a `.csv` file has no sentence numbers.
    """
    with open_text(path, encoding=encoding) as file:
        lines = [line.rstrip("\n") for line in file]
    layout = _layout(path, lines, words, tags, labelled)
    blocks = _blocks(lines, layout)
    sample = list(islice(blocks, _SAMPLE))
    if words is None and not layout.has_ids and _are_numbered(sample, layout):
        raise UserError(
            f"Column {layout.words + 1} of {path} numbers the words of each sentence. Name the "
            "columns of words and tags, for example --text-column 2 --label-column 3."
        )
    rows = [row for block in sample for row in block.values() if len(row) == layout.width]
    tagged = [n for n, column in enumerate(zip(*rows, strict=True), 1) if has_prefixes(column)]
    if layout.tags is not None and tags is None and len(tagged) > 1:
        warn_once(
            f"{path}: columns {listed(tagged)} contain tags. Reading words from column "
            f"{layout.words + 1} and tags from column {layout.tags + 1}. Name other columns "
            "with --text-column and --label-column."
        )
    for block in chain(sample, blocks):
        yield _sentence(path, block, layout)


def _blocks(lines: Sequence[str], layout: _Layout) -> Iterator[dict[int, list[str]]]:
    """Yields the fields of each sentence's lines, keyed by line number."""
    block: dict[int, list[str]] = {}
    current = ""
    for number, line in enumerate([*lines[layout.start :], ""], start=layout.start + 1):
        fields = _split(line, layout.separator, layout.is_quoted)
        is_end = not any(fields) or line.startswith(_DOCUMENT)
        if not is_end and not block and layout.is_comment(line):
            continue
        # Only the first row of a sentence needs a sentence number.
        sentence = "" if layout.sentences is None else "".join(fields[layout.sentences :][:1])
        if block and (is_end or (sentence and sentence != current)):
            yield block
            block = {}
        current = sentence or current
        if not is_end:
            is_longer = any(fields[layout.width :])  # trailing tabs don't count
            block[number] = fields if is_longer else fields[: layout.width]


def _are_numbered(blocks: Sequence[dict[int, list[str]]], layout: _Layout) -> bool:
    """Returns whether the words are 1, 2, 3, … in most sentences with several words."""
    several = [
        [row[layout.words :][:1] for row in block.values()] for block in blocks if len(block) > 1
    ]
    counted = (words == [[str(at + 1)] for at in range(len(words))] for words in several)
    return 2 * sum(counted) > len(several)


def _sentence(
    path: Path, block: dict[int, list[str]], layout: _Layout
) -> tuple[int, dict[Any, Any]]:
    for number, fields in block.items():
        if len(fields) != layout.width:
            return number, {BAD_ROW: fields}
        if fields == layout.header:
            return number, {BAD_ROW: repeated_header(path, number)}
    rows = [row for row in block.values() if not layout.has_ids or row[0].isdecimal()]
    columns = {WORDS: layout.words} | ({} if layout.tags is None else {TAGS: layout.tags})
    return min(block), {name: [row[at] for row in rows] for name, at in columns.items()}


def _split(line: str, separator: str | None, is_quoted: bool) -> list[str]:
    if not separator:
        return _SPACES.split(line.strip(" \t"))
    fields = (
        next(csv.reader([line], delimiter=separator), []) if is_quoted else line.split(separator)
    )
    return [field.strip() for field in fields]


def _usual(known: Sequence[str], names: Sequence[str]) -> str | None:
    """Returns the first of `names` that is in `known`, ignoring case and punctuation."""
    return next((name for name in names if re.sub(r"[\W\d_]", "", name).lower() in known), None)


def _layout(
    path: Path, lines: Sequence[str], words: str | None, tags: str | None, labelled: bool
) -> _Layout:
    """Determines the columns from the first lines of a file."""
    names = _CONLL_U if ".conllu" in path.suffixes else []
    is_table = {".csv", ".tsv"} & {*path.suffixes}
    named = NAMED_SEPARATOR.fullmatch(lines[0]) if lines and is_table else None
    start, first = 0, ""
    for number, line in enumerate(lines[bool(named) :], start=bool(named)):
        if match := _NAMES.match(line):
            names = match[1].split()
        elif line.strip() and not line.startswith(_DOCUMENT) and not _COMMENT.match(line):
            start, first = number, line.rstrip()
            break
    separator = "\t" if "\t" in first else None
    marked = [field for line in lines for field in line.split("\t") if '"' in field]
    quoted = separator is not None and bool(marked) and all(map(_QUOTED.fullmatch, marked))
    if ".csv" in path.suffixes:
        separator, quoted = max(SEPARATORS, key=first.count), True
    separator = named[1] if named else separator
    fields = _split(first, separator, quoted)
    has_header = not names and not all(name is None or name.isdecimal() for name in (words, tags))
    if not names and _usual(_WORDS, fields) and _usual(_TAGS, fields):
        has_header, words = True, words or _usual(_WORDS, fields)
    sentence = _usual(_SENTENCES, fields) if has_header else None
    if first and sentence is None and ".csv" in path.suffixes:
        raise UserError(
            "A table of words must have a header with a column of sentence numbers, such as "
            f"sentence_id. Received: {path}, with {listed(map(repr, fields))}. Otherwise, write a "
            ".tsv file in which an empty line ends each sentence."
        )
    names = fields if has_header else names
    if names == _CONLL_U:
        words, tags = words or "FORM", tags or "UPOS"
    at_words, at_tags = (
        default if column is None else _position(path, column, names, len(fields))
        for column, default in ((words, 0), (tags if labelled else None, len(fields) - 1))
    )
    if labelled and at_words == at_tags and first:
        raise UserError(
            f"Words and tags must be in different columns. Received: column {at_words + 1} for "
            f"both, in {path}, line {start + 1}, which has {len(fields)} columns."
        )
    return _Layout(
        separator,
        quoted,
        len(fields),
        at_words,
        at_tags if labelled else None,
        names[:1] == _CONLL_U[:1],
        start + 1 if has_header else int(bool(named)),
        fields if has_header else [],
        None if sentence is None else fields.index(sentence),
    )


def _position(path: Path, column: str, names: Sequence[str], width: int) -> int:
    if column in names:
        return names.index(column)
    if column.isdecimal() and 1 <= int(column) <= width:
        return int(column) - 1
    known = f"{listed(names)}, or a number" if names else "a number"
    raise UserError(f"A column of {path} must be {known} from 1 to {width}. Received: {column!r}.")
