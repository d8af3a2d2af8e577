"""CoNLL files: each line contains a word and its annotations, and an empty line ends a sentence."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.data.tables import BAD_ROW
from albert_tf.data.text_files import open_text
from albert_tf.errors import UserError, listed

_PLAIN: Final = (
    *(".conll", ".conllu", ".conllup", ".txt", ".tsv"),
    *(".bio", ".bio2", ".iob", ".iob2", ".bioes", ".iobes", ".bilou"),
)
ENDINGS: Final = (*_PLAIN, *(f"{ending}.gz" for ending in _PLAIN))
WORDS, TAGS = "words", "tags"  # keys of a sentence's columns
_DOCUMENT: Final = "-DOCSTART-"
_COMMENT: Final = re.compile(r"#(\s|$)")
_NAMES: Final = re.compile(r"#\s*global\.columns\s*=(.*)")  # of CoNLL-U Plus
# universaldependencies.org/format.html
_CONLL_U: Final = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]


class _Layout(NamedTuple):
    """The columns of a file.

    Attributes:
        separator: a tab, or None for white space.
        width: number of columns.
        words, tags: 0-based indices of the columns; `tags` is None if they aren't read.
        has_ids: whether the first column contains word ids. Lines with an id such as 1-2 (a range
            of words) or 1.1 (a word that isn't in the text) are skipped.
        start: 0-based index of the first line after the header.
    """

    separator: str | None
    width: int
    words: int
    tags: int | None
    has_ids: bool
    start: int

    def is_comment(self, line: str) -> bool:
        """Returns whether a line before the first word of a sentence is a comment.

        A sentence can begin with the word "#".
        """
        is_word = len(line.split(self.separator)) == self.width
        has_value = self.separator is None and "=" in line
        return bool(_COMMENT.match(line)) and (has_value or not is_word)


def sentences(
    path: Path, words: str | None, tags: str | None, labelled: bool, encoding: str | None = None
) -> Iterator[tuple[int, dict[Any, list[str]]]]:
    """Yields each sentence's first line number, and the sentence's columns `WORDS` and `TAGS`.

    A sentence becomes a `BAD_ROW` if one of its lines has the wrong number of columns.

    Args:
        words, tags: 1-based numbers or names of the columns. Names come from CoNLL-U, a
            header, or a line "# global.columns = …". Default: FORM and UPOS in `.conllu` files, and
            the first and the last column in other files.
        labelled: whether to read tags.
        encoding: see `open_text`.
    Raises:
        UserError: a column doesn't exist, or words and tags are in the same column.
    """
    with open_text(path, encoding=encoding) as file:
        lines = [line.rstrip("\n") for line in file]
    layout = _layout(path, lines, words, tags, labelled)
    block: dict[int, list[str]] = {}
    for number, line in enumerate([*lines[layout.start :], ""], start=layout.start + 1):
        if not line.strip() or line.startswith(_DOCUMENT):
            if block:
                yield _sentence(block, layout)
            block = {}
        elif block or not layout.is_comment(line):
            fields = [field.strip() for field in line.split(layout.separator)]
            is_longer = any(fields[layout.width :])  # trailing tabs don't count
            block[number] = fields if is_longer else fields[: layout.width]


def _sentence(block: dict[int, list[str]], layout: _Layout) -> tuple[int, dict[Any, list[str]]]:
    for number, fields in block.items():
        if len(fields) != layout.width:
            return number, {BAD_ROW: fields}
    rows = [row for row in block.values() if not layout.has_ids or row[0].isdecimal()]
    columns = {WORDS: layout.words} | ({} if layout.tags is None else {TAGS: layout.tags})
    return min(block), {name: [row[at] for row in rows] for name, at in columns.items()}


def _layout(
    path: Path, lines: Sequence[str], words: str | None, tags: str | None, labelled: bool
) -> _Layout:
    """Determines the columns from the first lines of a file."""
    names = _CONLL_U if ".conllu" in path.suffixes else []
    start, first = 0, ""
    for number, line in enumerate(lines):
        if match := _NAMES.match(line):
            names = match[1].split()
        elif line.strip() and not line.startswith(_DOCUMENT) and not _COMMENT.match(line):
            start, first = number, line.rstrip()
            break
    separator = "\t" if "\t" in first else None
    fields = first.split(separator)
    has_header = not names and not all(name is None or name.isdecimal() for name in (words, tags))
    names = [field.strip() for field in fields] if has_header else names
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
        len(fields),
        at_words,
        at_tags if labelled else None,
        names[:1] == _CONLL_U[:1],
        start + 1 if has_header else 0,
    )


def _position(path: Path, column: str, names: Sequence[str], width: int) -> int:
    if column in names:
        return names.index(column)
    if column.isdecimal() and 1 <= int(column) <= width:
        return int(column) - 1
    known = f"{listed(names)}, or a number" if names else "a number"
    raise UserError(f"A column of {path} must be {known} from 1 to {width}. Received: {column!r}.")
