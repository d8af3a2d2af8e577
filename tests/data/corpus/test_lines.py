"""A longest line, whoever reads it: a kilobyte of gzip may stand for a megabyte."""

import gzip
import io

import pytest

from albert_tf.commands.text_options import lines
from albert_tf.data.conll import sentences
from albert_tf.data.corpus import lines as module
from albert_tf.data.corpus.documents import JSON_LINE
from albert_tf.data.corpus.lines import bounded_lines
from albert_tf.data.readers import Columns, read_examples
from albert_tf.errors import UserError


@pytest.fixture(autouse=True)
def longest(monkeypatch):
    monkeypatch.setattr(module, "LONGEST_LINE", 100)


def test_every_reader_has_the_same_bound():
    assert JSON_LINE == 16 << 20


def test_a_line_at_the_limit_and_one_beyond():
    for data in (b"a" * 99 + b"\n" + b"b" * 100, "é" * 99 + "\n" + "漢" * 100):
        stream = io.BytesIO(data) if isinstance(data, bytes) else io.StringIO(data)
        assert list(bounded_lines(stream, "x")) == data.splitlines(keepends=True)
    beyond = io.BytesIO(b"short\n" + b"b" * 101)
    with pytest.raises(UserError, match="longer than 100 bytes. Received: x, line 2. Break it"):
        list(bounded_lines(beyond, "x"))
    assert beyond.tell() == len(b"short\n") + 101


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("a.txt", "one\n{}\n", lambda path: list(lines(str(path)))),
        ("a.tsv", "text\tlabel\n{}\ta\n", lambda path: read_examples(path, Columns("text"))),
        ("a.csv", "text,label\n{},a\n", lambda path: read_examples(path, Columns("text"))),
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
    with pytest.raises(UserError, match=r"longer than 100 bytes. Received: \S+, line 2\. Break it"):
        read(write("b" * 101))
