"""Every reader bounds its lines: a kilobyte of gzip may unpack to a megabyte.

Plain text is divided at blank lines, and where a document is too long.
"""

import gzip
import io

import pytest

from albert_tf.data import lines
from albert_tf.data.conll import sentences
from albert_tf.data.corpus import documents
from albert_tf.data.corpus.documents import ByteWindow, cut, passages, text_lines
from albert_tf.data.lines import bounded_lines
from albert_tf.data.readers import read_examples
from albert_tf.data.tables import Columns
from albert_tf.errors import UserError


@pytest.fixture(autouse=True)
def longest(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 100)


def test_a_line_at_the_limit_and_one_beyond():
    for data in (b"a" * 99 + b"\n" + b"b" * 100, "é" * 99 + "\n" + "漢" * 100):
        stream = io.BytesIO(data) if isinstance(data, bytes) else io.StringIO(data)
        assert list(bounded_lines(stream, "x")) == data.splitlines(keepends=True)
    beyond = io.BytesIO(b"short\n" + b"b" * 101)
    with pytest.raises(UserError, match="x, line 2 is longer than 100 bytes"):
        list(bounded_lines(beyond, "x"))
    assert beyond.tell() == len(b"short\n") + 101


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("a.txt", "one\n{}\n", lambda path: list(text_lines(str(path)))),
        ("a.tsv", "text\tlabel\n{}\ta\n", lambda path: read_examples(path, Columns("text"))),
        (
            "a.jsonl",
            '{{"text": "one"}}\n{{"text": "{}"}}\n',
            lambda path: read_examples(path, Columns("text")),
        ),
        ("a.conll", "one O\n{} O\n", lambda path: list(sentences(path, None, None, True))),
    ],
)
def test_readers(tmp_path, name, content, read, ending):
    def write(text):
        data = content.format(text).encode()
        (tmp_path / (name + ending)).write_bytes(gzip.compress(data) if ending else data)
        return tmp_path / (name + ending)

    assert read(write("b" * 50))
    with pytest.raises(UserError, match=r"\S+, line 2 is longer than 100 bytes"):
        read(write("b" * 101))


def test_invalid_utf_8_is_cut_too():
    assert cut(b"\x80" * 20, 2, 5) == 7


def test_a_line_is_blank_if_all_of_it_is_white_space():
    for character in map(chr, range(0x3100)):
        first = f"One.\n{character}{character}\n".encode()
        text = first + b"Two."
        expected = [(0, text, 0)]
        if character.isspace():
            expected = [(0, b"One.", 0), (len(first), b"Two.", 0)]
        assert list(passages(ByteWindow(io.BytesIO(text), 0), 0, None, 100)) == expected


def test_a_reader_within_a_long_document_stops_at_its_end(monkeypatch):
    monkeypatch.setattr(documents, "BLOCK", 64)
    file = io.BytesIO(b"A line.\n" * 1000)
    file.seek(799)
    assert list(passages(ByteWindow(file, 799), 800, 1600, 50)) == []
    assert file.tell() < 1700
