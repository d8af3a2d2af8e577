"""Documents do not depend on splits; memory is bounded; errors are clear.

The sample is bounded, seeded, fair, and independent of the order of reading.
"""

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from albert_tf.data.corpus import documents as module
from albert_tf.data.corpus.documents import PASSAGE, SMALLEST, Split, documents, sample, splits
from albert_tf.data.corpus.files import InputFile, find_inputs
from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.errors import UserError

WHITE = " \t\r\u00a0\u3000\u2028\x1c"
LETTERS = ["a", "b,", "é", "字", "😀", "\ufeff", "x" * 9, " ", "\u3000", "\r", "\t", "\n"]


@pytest.fixture
def read(tmp_path):
    """Writes a file and reads its documents split by split."""

    def read(content, name="a.txt", counts=None, split_bytes=1 << 20, **options):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
        file = InputFile(str(path), name, path.stat().st_size)
        chosen = CorpusOptions(**options)
        counts = Counter() if counts is None else counts
        return [
            found
            for split in splits([file], split_bytes)
            for found in documents(split, chosen, counts)
        ]

    return read


def plain_reading(content, limit):
    """Reads a whole file line by line, as a reference; returns offsets and texts."""
    found, document, offset = [], b"", 0
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if line.decode().strip():
            document += line + b"\n"
        else:
            found += parts(offset - len(document), document, limit)
            document = b""
        offset += len(line) + 1
    found += parts(offset - len(document), document, limit)
    shift = len(content) - len(content.removeprefix(b"\xef\xbb\xbf"))
    return [(start + shift, text) for start, text in found]


def parts(offset, text, limit):
    """Cuts the text of a document into parts of at most `limit` bytes."""
    text = text.removesuffix(b"\n")
    while True:
        stripped = text.decode().lstrip().encode()
        offset += len(text) - len(stripped)
        if not stripped:
            return
        stop = len(stripped)
        if stop > limit:
            window = stripped[: limit + 1]
            spaces = [window.rfind(space) for space in (b" ", b"\t", b"\r")]
            stop = next(stop for stop in (window.rfind(b"\n"), max(spaces), limit) if stop > 0)
            while stripped[stop] & 0xC0 == 0x80:
                stop -= 1
        yield offset, stripped[:stop].decode().strip().encode().replace(b"\r\n", b"\n")
        offset, text = offset + stop, stripped[stop:]


def a_text(generator):
    """Returns a random text of edge cases."""
    pieces = []
    for _ in range(generator.randrange(14)):
        kind = generator.randrange(6)
        if kind < 3:
            pieces += generator.choices(LETTERS, k=generator.randrange(1, 12))
        elif kind == 3:
            pieces.append(generator.choice(["\n", "\r\n"]) * generator.randrange(1, 4))
        elif kind == 4:
            white = "".join(generator.choices(WHITE, k=generator.randrange(9)))
            pieces.append(f"\n{white}\n")
        else:
            pieces.append(generator.choice(WHITE) * generator.randrange(60))
    mark = "\ufeff" * (generator.random() < 0.2)
    return mark + "".join(pieces).removeprefix("\ufeff")


def test_documents_are_the_same_however_a_file_is_split(read, monkeypatch):
    generator = random.Random(int(os.environ["ALBERT_TF_SEED"]))
    for case in range(60):
        text = a_text(generator).encode()
        limit = generator.choice([4, 5, 11, 40, 1000])
        expected = plain_reading(text, limit)
        for split_bytes in (generator.choice([4, 5]), generator.randrange(6, 60), 1 << 20):
            monkeypatch.setattr(module, "BLOCK", generator.choice([3, 4, 5, 17, 1 << 10]))
            counts = Counter()
            found = read(text, max_document_bytes=limit, split_bytes=split_bytes, counts=counts)
            shown = f"case {case}: {text!r}, {limit=}, {split_bytes=}, {module.BLOCK=}"
            assert [(offset, text) for _, offset, text in found] == expected, shown
            assert counts["documents"] == len(found), shown
            assert counts["bytes"] == sum(len(document.text) for document in found), shown
        assert read(text, "a.txt.gz", max_document_bytes=limit) == [
            document._replace(source="a.txt.gz") for document in found
        ]


def test_json_lines_are_the_same_however_a_file_is_split(read, monkeypatch):
    generator = random.Random(int(os.environ["ALBERT_TF_SEED"]))
    for case in range(30):
        texts = [a_text(generator) for _ in range(generator.randrange(6))]
        mark = b"\xef\xbb\xbf" * (generator.random() < 0.2)
        lines, expected, offset = [], [], len(mark)
        limit = generator.choice([5, 40, 1000])
        longest = generator.choice([50, 300, 10_000])
        monkeypatch.setattr(module, "JSON_LINE", longest)
        for text in texts:
            line = json.dumps({"n": 1, "text": text}, ensure_ascii=generator.random() < 0.5)
            end = generator.choice(["\n", "\r\n", "\n\n", "\n  \n"])
            rows = [row.rstrip("\r") for row in text.split("\n") if row.strip()]
            joined = "\n".join(rows).strip().encode()
            if len(line.encode()) <= longest:
                expected += parts(offset, joined, limit)
            offset += len((line + end).encode())
            lines.append(line + end)
        content = mark + "".join(lines).encode()
        if generator.random() < 0.5:
            content = content.rstrip()
        for split_bytes in (8, generator.randrange(9, 60), 1 << 20):
            monkeypatch.setattr(module, "BLOCK", generator.choice([3, 4, 5, 17, 1 << 10]))
            options = {"max_document_bytes": limit, "bad_lines": "skip"}
            found = read(content, "a.jsonl", split_bytes=split_bytes, **options)
            shown = f"case {case}: {content!r}, {limit=}, {split_bytes=}, {module.BLOCK=}"
            assert [(offset, text) for _, offset, text in found] == expected, shown


@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a.JSONL", "a.Json.gz", "a.jsonl.GZ"])
def test_names_of_json_lines(read, name):
    assert read(b'{"text": "One."}\n', name) == [(name, 0, b"One.")]
    with pytest.raises(UserError, match=f"{name}, line 1: .* a JSON object .* found list"):
        read(b'[{"text": "One."}]\n', name)


def test_long_documents_are_cut(read):
    for name, content in (
        ("a.txt", b"First.\nSecond one.\n\nThird."),
        ("a.jsonl", b'{"text": "First.\\n\\nSecond one.\\n\\nThird."}'),
    ):
        counts = Counter()
        found = read(content, name, max_document_bytes=12, counts=counts)
        assert [text for _, _, text in found] == [b"First.", b"Second one.", b"Third."]
        assert counts == {"documents": 3, "bytes": 23, "documents_cut": 1}


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("split_bytes", [4, 1 << 20])
def test_text_that_is_not_utf_8(read, name, split_bytes):
    content = b"Fine.\nFine too.\n\nBut the caf\xe9.\n\xc3\xa9\n\nAnd \xff\nthis.\n"
    with pytest.raises(
        UserError, match=rf"{name}, line 4: the byte 0xe9 is not valid UTF-8. .*--bad-lines skip"
    ):
        read(content, name, split_bytes=split_bytes)
    counts = Counter()
    found = read(content, name, split_bytes=split_bytes, bad_lines="skip", counts=counts)
    assert [text for _, _, text in found] == [b"Fine.\nFine too.", "é".encode(), b"this."]
    assert [offset for _, offset, _ in found] == [0, 17, 35]
    assert counts == {"documents": 3, "bytes": 22, "bad_lines": 2}


def test_bad_lines_of_json(read, monkeypatch):
    monkeypatch.setattr(module, "JSON_LINE", 200_000)
    good = b'{"text": "One.", "n": 2}\n'
    for line, reason in (
        (b"{", "Expecting property name"),
        (b"Plain text.", "Expecting value"),
        (b'["text"]', "the field 'text', but found list"),
        (b'{"title": "A", "body": "B"}', r"no field 'text' \(its fields: 'title', 'body'"),
        (b'{"text": 5}', "'text' must be a string, not int"),
        (b'{"text": "\xe9"}', "the byte 0xe9 is not valid UTF-8"),
        (b'{"text": "\\ud83d"}', "half of a surrogate pair"),
        (b'{"text": ' + b"[" * 190_000, "nested too deeply"),
        (b'{"text": "' + b"a" * 200_000 + b'"}', "longer than 200,000 bytes"),
    ):
        content = good + b"\n" + line + b"\n" + good
        with pytest.raises(UserError, match=f"a.jsonl, line 3: .*({reason})"):
            read(content, "a.jsonl")
        counts = Counter()
        found = read(content, "a.jsonl", bad_lines="skip", counts=counts)
        assert [text for _, _, text in found] == [b"One."] * 2
        assert counts == {"documents": 2, "bytes": 8, "bad_lines": 1}


def test_empty_documents_are_counted(read):
    json_lines = b'{"body": ""}\n{"body": " \\n "}\n{"text": "x", "body": "One."}\n'
    for name, content, offset, others in (
        ("a.txt", b"\xff\n\xfe.\n\nOne.", 6, {"bad_lines": 2, "empty_documents": 1}),
        ("a.jsonl", json_lines, 30, {"empty_documents": 2}),
    ):
        counts = Counter()
        found = read(content, name, text_field="body", bad_lines="skip", counts=counts)
        assert found == [(name, offset, b"One.")]
        assert counts == {"documents": 1, "bytes": 4, **others}


def test_json_lines_in_plain_text_are_refused(read):
    for name, content, renamed in (
        ("a.txt", b'{"text": "x"}\n{"text": "y"}', "a.jsonl"),
        ("a.v2.txt", b'\xef\xbb\xbf\n\n  {"x": "%b"}\r\n' % (b"x" * module.BLOCK), "a.v2.jsonl"),
        ("a.txt.gz", b'{"text": "x"}', "a.jsonl.gz"),
    ):
        with pytest.raises(UserError, match=rf"Received: .*{name}, .* to {renamed}\.$"):
            read(content, name, bad_lines="skip")


def test_braces_in_plain_text(read):
    for content in (b'{"text": "x"} is JSON.', b"{\n{}", b'A set {1, 2}.\n{"text": "x"}'):
        assert read(content) == [("a.txt", 0, content)]


def test_files_that_are_no_utf_8_at_all(read):
    names = ("utf-16", "utf-16-le", "utf-16-be", "utf-32")
    wide = [("One.".encode(name), "UTF-16.*iconv") for name in names]
    for content, message in (*wide, (b"abcd\0\0\0", "with a zero byte at offset 4. .*binary")):
        with pytest.raises(UserError, match=rf"must be UTF-8. Received: .*a.txt, .*{message}"):
            read(content, bad_lines="skip")


def test_files_that_are_no_whole_gzip(tmp_path):
    path = tmp_path / "a.txt.gz"
    whole = gzip.compress(random.Random(5).randbytes(4000).hex().encode() + b"\n\nEnd.")
    cut = [whole[:length] for length in (5, len(whole) // 2, len(whole) - 1)]
    for content in (*cut, b"Not gzip.", b"\x1f\x8b\x08\x00" + b"\xff" * 40):
        path.write_bytes(content)
        split = Split(InputFile(str(path), "a.txt.gz", len(content)), 0, None)
        with pytest.raises(UserError, match="a.txt.gz is not a valid .gz file: "):
            list(documents(split, CorpusOptions(), Counter()))


BIG = """
import collections, json, os, pathlib, re, sys
from albert_tf.data.corpus.documents import documents, splits
from albert_tf.data.corpus.files import find_inputs
from albert_tf.data.corpus.options import CorpusOptions
assert not {"tensorflow", "sentencepiece", "numpy"} & sys.modules.keys()
options, counts = CorpusOptions(bad_lines="skip"), collections.Counter()
for file in find_inputs(sys.argv[1:]):
    if os.fork():  # a process for each file, because memory's peak never falls
        assert os.wait()[1] == 0, file.name
        continue
    for split in splits([file], 32 << 20):
        for document in documents(split, options, counts):
            assert len(document.text) <= 1 << 20
    # getrusage would include the process that started this one.
    status = pathlib.Path("/proc/self/status").read_text()
    memory = int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1]) // 1024
    print(json.dumps([file.name, counts, memory]))
    break
"""
MEGABYTE = 1 << 20
# Content that a file repeats 48 times, and its number of documents and of cut ones.
ENDLESS = {
    "line.txt": (b"words and " * (MEGABYTE // 10), 48, 1),
    "characters.txt": ("字".encode() * (MEGABYTE // 3), 48, 1),
    "spaces.txt": (b" " * MEGABYTE, 0, 0),
    "blank.txt": (b"\n" * MEGABYTE, 0, 0),
    "bad.txt": (b"\xff" * MEGABYTE, 0, 1),
    "book.jsonl": (b'{"text": "' + b"Words. " * (MEGABYTE // 7) + b'"}\n', 48, 0),
    "line.jsonl": (b'{"text": "' + b"x" * MEGABYTE, 0, 0),
    "line.txt.gz": (b"words and " * (MEGABYTE // 10), 48, 1),
}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_memory_stays_bounded(tmp_path):
    """Reads 48 MB of one line, one document or white space, each within the bound."""
    for name, (content, _, _) in ENDLESS.items():
        with (
            gzip.open(tmp_path / name, "wb", 1)
            if name.endswith(".gz")
            else open(tmp_path / name, "wb") as file
        ):
            for _ in range(48):
                file.write(content)
    command = [sys.executable, "-c", BIG, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(ENDLESS)
    for name, counts, memory in found:
        _, expected, cut = ENDLESS[name]
        assert abs(counts.get("documents", 0) - expected) <= 1, (name, counts)
        assert counts.get("documents_cut", 0) == cut, (name, counts)
        assert memory < 100, f"MB, {name}"


@pytest.fixture
def corpus(tmp_path):
    """Returns five files of 60 documents of 80 to 97 bytes."""
    for name in range(5):
        rows = [
            f"File {name}, document {row}: {'word ' * 13}{'.' * (row % 10)}" for row in range(60)
        ]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(rows))
    return tmp_path


def drawn(corpus, limit, seed=3, counts=None, **options):
    counts = Counter() if counts is None else counts
    return sample(find_inputs([corpus]), CorpusOptions(**options), limit, seed, counts)


def test_all_of_a_small_corpus_in_another_order(corpus):
    counts = Counter()
    found = drawn(corpus, 1_000_000, counts=counts)
    assert len(set(found)) == counts["documents"] == 300
    assert counts["bytes"] == sum(len(passage.text) for passage in found)
    assert found != sorted(found, key=lambda passage: (passage.source, passage.offset))


def test_a_sample_is_bounded_and_fair(corpus):
    found, smaller = drawn(corpus, 9_000), drawn(corpus, 4_000)
    assert 8_900 < sum(len(passage.text) for passage in found) <= 9_000
    assert len({passage.source for passage in found}) == 5, "no file is left out"
    assert set(found) < set(drawn(corpus, 1_000_000))
    assert found[: len(smaller)] == smaller
    assert set(found) != set(drawn(corpus, 9_000, seed=4))
    assert found == sample(find_inputs([corpus])[::-1], CorpusOptions(), 9_000, 3, Counter())


def test_long_documents_come_in_passages(tmp_path):
    (tmp_path / "a.txt").write_text("A sentence of some words. " * 1000)
    found = drawn(tmp_path, 10_000)
    assert len(found) in (2, 3), "the last of seven is shorter"
    assert sum(PASSAGE - 30 < len(passage.text) <= PASSAGE for passage in found) == 2


def test_passages_of_a_few_bytes_count_for_more(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(map(str, range(1000))))
    assert len(drawn(tmp_path, 10 * SMALLEST + 5)) == 10
