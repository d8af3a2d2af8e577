"""Documents do not depend on splits; memory is bounded; errors are clear.

The sample is bounded, seeded, fair, and independent of the order of reading.
"""

import gzip
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from albert_tf.data.corpus import documents as module
from albert_tf.data.corpus import reading
from albert_tf.data.corpus.documents import (
    PASSAGE,
    SMALLEST,
    CorpusOptions,
    Document,
    Split,
    documents,
    sample,
    sentence_splitter,
    sentences,
    splits,
)
from albert_tf.data.corpus.files import InputFile, find_inputs
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
    """Makes a random text of edge cases."""
    pieces = []
    for _ in range(generator.randrange(30)):
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
    for case in range(150):
        text = a_text(generator).encode()
        limit = generator.choice([4, 5, 11, 40, 1000])
        expected = plain_reading(text, limit)
        for split_bytes in (4, 5, generator.randrange(6, 60), 1 << 20):
            monkeypatch.setattr(reading, "BLOCK", generator.choice([3, 4, 5, 17, 1 << 10]))
            counts = Counter()
            found = read(text, max_document_bytes=limit, split_bytes=split_bytes, counts=counts)
            shown = f"case {case}: {text!r}, {limit=}, {split_bytes=}, {reading.BLOCK=}"
            assert [(offset, text) for _, offset, text in found] == expected, shown
            assert counts["documents"] == len(found), shown
            assert counts["bytes"] == sum(len(document.text) for document in found), shown
        assert read(text, "a.txt.gz", max_document_bytes=limit) == [
            document._replace(source="a.txt.gz") for document in found
        ]


def test_json_lines_are_the_same_however_a_file_is_split(read, monkeypatch):
    generator = random.Random(int(os.environ["ALBERT_TF_SEED"]))
    for case in range(50):
        texts = [a_text(generator) for _ in range(generator.randrange(6))]
        lines, expected, offset = [], [], 0
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
        content = "".join(lines).encode()
        if generator.random() < 0.5:
            content = content.rstrip()
        for split_bytes in (4, generator.randrange(5, 60), 1 << 20):
            monkeypatch.setattr(reading, "BLOCK", generator.choice([3, 4, 5, 17, 1 << 10]))
            found = read(
                content,
                "a.jsonl",
                max_document_bytes=limit,
                split_bytes=split_bytes,
                bad_lines="skip",
            )
            shown = f"case {case}: {content!r}, {limit=}, {split_bytes=}, {reading.BLOCK=}"
            assert [(offset, text) for _, offset, text in found] == expected, shown


def test_a_document(read):
    content = b"\n \n  One.\r\nTwo. \r\n\t\r\n\xe3\x80\x80\nThree.\n\n\n"
    assert read(content, "x.txt") == [
        Document("x.txt", 5, b"One.\nTwo."),
        Document("x.txt", 25, b"Three."),
    ]


def test_a_byte_order_mark_is_dropped(read):
    assert read(b"\xef\xbb\xbfOne.\n\nTwo.") == [("a.txt", 3, b"One."), ("a.txt", 9, b"Two.")]
    line = b'\xef\xbb\xbf{"text": "One."}\n'
    assert read(line, "a.jsonl", split_bytes=4) == [("a.jsonl", 3, b"One.")]
    assert read(line, "a.jsonl.gz") == [("a.jsonl.gz", 3, b"One.")]


@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a.JSONL", "a.Json.gz", "a.jsonl.GZ"])
def test_names_of_json_lines(read, name):
    assert read(b'{"text": "One."}\n', name) == [(name, 0, b"One.")]
    with pytest.raises(UserError, match=f"in a file of JSON an object.*Received: .*{name}, line 1"):
        read(b'[{"text": "One."}]\n', name)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl"])
@pytest.mark.parametrize("content", [b"", b"\n", b" \n\t\n", b"\xef\xbb\xbf", b"\r\n\r\n"])
def test_files_without_text(read, name, content):
    counts = Counter()
    assert read(content, name, counts=counts) == []
    assert not counts


def test_a_reader_within_a_long_document_stops_at_its_end(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"A line.\n" * 1000)
    file, seen = InputFile(str(path), "a.txt", 8000), []
    refill = reading.ByteWindow.refill
    monkeypatch.setattr(reading, "BLOCK", 64)
    monkeypatch.setattr(
        reading.ByteWindow,
        "refill",
        lambda self, keep: (seen.append(self.offset), refill(self, keep)),
    )
    assert not list(
        documents(Split(file, 800, 1600), CorpusOptions(max_document_bytes=50), Counter())
    )
    assert max(seen) < 1700


def test_splits():
    files = [InputFile("/a.txt", "a.txt", 25), InputFile("/b.txt.gz", "b.txt.gz", 1000)]
    assert splits([*files, InputFile("/c.txt", "c.txt", 0)], 10) == [
        Split(files[0], 0, 8),
        Split(files[0], 8, 16),
        Split(files[0], 16, 25),
        Split(files[1], 0, None),
    ]


def test_long_documents_are_cut(read):
    counts = Counter()
    found = read(b"First.\nSecond one.\n\nThird.", max_document_bytes=12, counts=counts)
    assert [text for _, _, text in found] == [b"First.", b"Second one.", b"Third."]
    assert counts == {"documents": 3, "bytes": 23, "documents_cut": 1}
    row = json.dumps({"text": "First.\n\nSecond one.\n\nThird."}).encode()
    counts = Counter()
    found = read(row, "a.jsonl", max_document_bytes=12, counts=counts)
    assert found == [
        ("a.jsonl", 0, b"First."),
        ("a.jsonl", 7, b"Second one."),
        ("a.jsonl", 19, b"Third."),
    ]
    assert counts == {"documents": 3, "bytes": 23, "documents_cut": 1}


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("split_bytes", [4, 1 << 20])
def test_text_that_is_not_utf_8(read, name, split_bytes):
    content = b"Fine.\nFine too.\n\nBut the caf\xe9.\n\xc3\xa9\n\nAnd \xff\nthis.\n"
    with pytest.raises(
        UserError, match=rf"{name}, line 4: the byte 0xe9 is not UTF-8. Convert .*--bad-lines skip"
    ):
        read(content, name, split_bytes=split_bytes)
    counts = Counter()
    found = read(content, name, split_bytes=split_bytes, bad_lines="skip", counts=counts)
    assert [text for _, _, text in found] == [b"Fine.\nFine too.", "é".encode(), b"this."]
    assert [offset for _, offset, _ in found] == [0, 17, 35]
    assert counts == {"documents": 3, "bytes": 22, "bad_lines": 2}


def test_a_document_of_bad_lines_is_empty(read):
    counts = Counter()
    assert read(b"\xff\n\xfe.\n\nGood.", bad_lines="skip", counts=counts) == [
        ("a.txt", 6, b"Good.")
    ]
    assert counts == {"documents": 1, "bytes": 5, "bad_lines": 2, "empty_documents": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "Expecting property name"),
        (b"Plain text.", "Expecting value"),
        (b'["text"]', "no field 'text', but list"),
        (b'{"title": "A", "body": "B"}', "no field 'text', but 'title', 'body'"),
        (b"{}", "no field 'text', but none"),
        (b'{"text": 5}', "'text' is no string, but int"),
        (b'{"text": null}', "'text' is no string, but NoneType"),
        (b'{"text": "\xe9"}', "the byte 0xe9 is not UTF-8"),
        (b'{"text": "\\ud83d"}', "half a surrogate pair"),
        (b'{"text": "' + b"a" * 160 + b'"}', "longer than 160 bytes"),
        (b"[" * 150, "Expecting value|nested too deeply"),
    ],
)
def test_bad_lines_of_json(read, monkeypatch, line, reason):
    monkeypatch.setattr(module, "JSON_LINE", 160)
    good = b'{"text": "One.", "n": 2}\n'
    content = good + b"\n" + line + b"\n" + good
    with pytest.raises(UserError, match=f"a.jsonl, line 3: .*({reason})"):
        read(content, "a.jsonl")
    counts = Counter()
    found = read(content, "a.jsonl", bad_lines="skip", counts=counts)
    assert [text for _, _, text in found] == [b"One."] * 2
    assert counts == {"documents": 2, "bytes": 8, "bad_lines": 1}


def test_deep_json_is_a_bad_line(read):
    with pytest.raises(UserError, match="a.jsonl, line 1: it is nested too deeply"):
        read(b'{"text": ' + b"[" * 200_000, "a.jsonl")


def test_empty_json_texts_are_counted(read):
    counts = Counter()
    content = b'{"text": ""}\n{"text": " \\n "}\n{"body": "x", "text": "One."}\n'
    assert read(content, "a.jsonl", counts=counts) == [("a.jsonl", 30, b"One.")]
    assert counts == {"documents": 1, "bytes": 4, "empty_documents": 2}


def test_another_field(read):
    content = b'{"text": "no", "body": "yes"}'
    assert read(content, "a.jsonl", text_field="body") == [("a.jsonl", 0, b"yes")]


@pytest.mark.parametrize("bad_lines", ["stop", "skip"])
@pytest.mark.parametrize(
    ("name", "content", "is_refused"),
    [
        ("a.txt", b'{"text": "x"}\n{"text": "y"}', True),
        ("a.v2.txt", b'\xef\xbb\xbf\n\n  {"body": ' + b'"%b"}\r\n' % (b"x" * reading.BLOCK), True),
        ("a.txt.gz", b'{"text": "x"}', True),
        ("a.txt", b'{"text": "x"} is JSON.\n', False),
        ("a.txt", b"{\n{}\n", False),
        ("a.txt", b'A set {1, 2}.\n{"text": "x"}\n', False),
    ],
)
def test_json_lines_in_plain_text_are_refused(read, bad_lines, name, content, is_refused):
    if not is_refused:
        assert [text for _, _, text in read(content, name)] == [content.rstrip()]
        return
    stem, _, packing = name.partition(".txt")
    with pytest.raises(UserError, match=rf"Received: .*{name}, .*: {stem}.jsonl{packing}\.$"):
        read(content, name, bad_lines=bad_lines)


@pytest.mark.parametrize("bad_lines", ["stop", "skip"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_refused(read, bad_lines, name, encoding):
    content = '{"text": "One."}\n\nTwo.'.encode(encoding)
    with pytest.raises(UserError, match=rf"must be UTF-8. Received: .*{name}, .*UTF-16.*iconv"):
        read(content, name, bad_lines=bad_lines)


def test_a_binary_file_is_refused(read):
    with pytest.raises(
        UserError, match="a.model, with a zero byte at 4. .*is a binary file, leave"
    ):
        read(b"abcd\0\0\0", "a.model", bad_lines="skip")


def test_files_that_are_no_whole_gzip(tmp_path):
    path = tmp_path / "a.txt.gz"
    whole = gzip.compress(random.Random(5).randbytes(4000).hex().encode() + b"\n\nEnd.")
    cut = [whole[:length] for length in (5, len(whole) // 2, len(whole) - 1)]
    for content in (*cut, b"Not gzip.", b"\x1f\x8b\x08\x00" + b"\xff" * 40):
        path.write_bytes(content)
        split = Split(InputFile(str(path), "a.txt.gz", len(content)), 0, None)
        with pytest.raises(UserError, match="must be whole gzip. Received: .*a.txt.gz: "):
            list(documents(split, CorpusOptions(), Counter()))


BIG = """
import collections, json, os, pathlib, re, sys
from albert_tf.data.corpus.documents import documents, splits
from albert_tf.data.corpus.files import find_inputs
from albert_tf.data.corpus.documents import CorpusOptions
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
"""Content that a file repeats 48 times, and its number of documents and of cut ones."""
ENDLESS = {
    "line.txt": (b"words and " * (MEGABYTE // 10), 48, 1),
    "word.txt": (b"x" * MEGABYTE, 48, 1),
    "characters.txt": ("字".encode() * (MEGABYTE // 3), 48, 1),
    "document.txt": (b"A line of it.\n" * (MEGABYTE // 14), 48, 1),
    "spaces.txt": (b" " * MEGABYTE, 0, 0),
    "wide.txt": ("\u3000".encode() * (MEGABYTE // 9), 0, 0),
    "blank.txt": (b"\n" * MEGABYTE, 0, 0),
    "bad.txt": (b"\xff" * MEGABYTE, 0, 1),
    "book.jsonl": (b'{"text": "' + b"Words. " * (MEGABYTE // 7) + b'"}\n', 48, 0),
    "line.jsonl": (b'{"text": "' + b"x" * MEGABYTE, 0, 0),
    "line.txt.gz": (b"words and " * (MEGABYTE // 10), 48, 1),
    "word.jsonl.gz": (b"x" * MEGABYTE, 0, 0),
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


def test_all_of_a_small_corpus(corpus):
    counts = Counter()
    found = drawn(corpus, 1_000_000, counts=counts)
    assert len(set(found)) == 300
    assert counts["documents"] == 300
    assert counts["bytes"] == sum(len(passage.text) for passage in found)
    assert found != sorted(found, key=lambda passage: (passage.source, passage.offset))


def test_a_sample_is_bounded_and_fair(corpus):
    found = drawn(corpus, 9_000)
    size = sum(len(passage.text) for passage in found)
    assert 8_900 < size <= 9_000
    by_file = Counter(passage.source for passage in found)
    assert len(by_file) == 5, "none is left out"
    assert set(found) < set(drawn(corpus, 1_000_000))


def test_a_larger_sample_begins_with_the_smaller(corpus):
    small, large = drawn(corpus, 4_000), drawn(corpus, 9_000)
    assert large[: len(small)] == small


def test_the_order_of_the_files_does_not_matter(corpus):
    files = find_inputs([corpus])
    assert sample(files[::-1], CorpusOptions(), 9_000, 3, Counter()) == drawn(corpus, 9_000)


def test_another_seed_gives_another_sample(corpus):
    assert drawn(corpus, 9_000, seed=3) == drawn(corpus, 9_000, seed=3)
    assert set(drawn(corpus, 9_000, seed=3)) != set(drawn(corpus, 9_000, seed=4))


def test_long_documents_come_in_passages(tmp_path):
    (tmp_path / "a.txt").write_text("A sentence of some words. " * 1000)
    found = drawn(tmp_path, 10_000)
    assert len(found) in (2, 3), "the last of seven is shorter"
    assert sum(PASSAGE - 30 < len(passage.text) <= PASSAGE for passage in found) == 2


def test_passages_of_a_few_bytes_count_for_more(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(map(str, range(1000))))
    assert len(drawn(tmp_path, 10 * SMALLEST + 5)) == 10


def test_a_sample_of_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n")
    assert drawn(tmp_path, 100) == []


def test_bad_lines_of_a_sample(corpus):
    (corpus / "bad.txt").write_bytes(b"Good.\n\n\xff\n")
    with pytest.raises(UserError, match="bad.txt, line 3"):
        drawn(corpus, 100)
    counts = Counter()
    drawn(corpus, 100, bad_lines="skip", counts=counts)
    assert counts["bad_lines"] == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lines": "words"}, "lines must be paragraphs or sentences. Received: 'words'"),
        ({"text_field": ""}, "text_field must be text .*not empty. Received: ''"),
    ],
)
def test_wrong_options(wrong, message):
    with pytest.raises(UserError, match=message):
        CorpusOptions(**wrong)


@pytest.mark.parametrize("language", ["../../x", "", "en\n", "e" * 99, "en us"])
def test_a_language_is_a_code(language):
    with pytest.raises(UserError, match="^language must be"):
        CorpusOptions(language=language)
    assert CorpusOptions(language="be-tarask").language == "be-tarask"


TEXT = "Dr. Gray came at 5 p.m. on Monday.  Nobody knew why.\n\tWas it late? It was"


def by_comma(paragraph):
    return paragraph.split(",")


def found(text, splitter="sentencex", **options):
    chosen = CorpusOptions(**options)
    split = sentence_splitter(splitter, chosen.language)
    return sentences(Document("a.txt", 7, text.encode()), chosen, split)


def test_paragraphs_are_split():
    assert found(TEXT) == [
        "Dr. Gray came at 5 p.m. on Monday.",
        "Nobody knew why.",
        "Was it late?",
        "It was",
    ]


def test_a_sentence_ends_with_its_line():
    assert found("“One,\ntwo,” (three\nfour)") == ["“One,", "two,” (three", "four)"]


def test_lines_that_are_sentences_stay():
    lines = ["One. Two.", "", "  Three.\u3000", "\u2028"]
    assert found("\n".join(lines), lines="sentences") == ["One. Two.", "Three."]


def test_other_languages():
    assert found("你好。我是谁？他", language="zh") == ["你好。", "我是谁？", "他"]
    german = "Am 3. Mai kam er z. B. an. Dann ging er."
    assert found(german, language="de") == ["Am 3. Mai kam er z. B. an.", "Dann ging er."]


def test_custom_splitters():
    assert found("a, b,,c\nd", by_comma) == ["a", "b", "c", "d"]
    assert found("a b\nc", "builtins:str.split") == ["a", "b", "c"]
    assert found("a, b", f"{__name__}:by_comma") == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nltk", "'nltk'"),
        ("", "''"),
        ("no_such_module:split", "'no_such_module:split': No module named 'no_such_module'"),
        ("re:cut", "'re:cut': module 're' has no attribute 'cut'"),
        ("re:", "'re:'"),
        (":split", "':split'"),
        ("sys:path", "'sys:path': it is of type list"),
    ],
)
def test_no_such_splitter(name, message):
    with pytest.raises(UserError, match=f"A sentence splitter .*Received: {re.escape(message)}"):
        sentence_splitter(name, "en")


def test_a_module_that_fails_shows_its_fault(tmp_path, monkeypatch):
    (tmp_path / "broken_splitter.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="No module named 'no_such_package'"):
        sentence_splitter("broken_splitter:split", "en")
    assert "broken_splitter" not in sys.modules
