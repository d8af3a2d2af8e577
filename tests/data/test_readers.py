"""Files of texts and labels in every format: tables, JSON, and compressed files."""

import gzip
import json

import pytest

from albert_tf.data.readers import row_numbers
from albert_tf.errors import UserError
from tests.data.conftest import assert_read, read, task, write

TABLE = 'text!label\n"He said ""no"", twice."!spam\nDéjà vu!ham\n'  # with another separator
SPAM = [('He said "no", twice.', None, "spam"), ("Déjà vu", None, "ham")]
ROWS = [{"text": "x", "label": 1}, {"text": "y", "label": 2}]
TWO = [("x", None, "1"), ("y", None, "2")]
NESTED = [{"review": {"body": "x"}, "meta": {"label": True}, "a.b": "c"}]
META = {"label_column": "meta.label"}

READ = [
    ("a.tsv", 'id\ttext\tlabel\n1\tHe said "no", twice.\tspam\n2\tDéjà vu\tham\n', {}, SPAM),
    ("a.csv", "\ufeff" + TABLE.replace("!", ",").replace("\n", "\r\n"), {}, SPAM),
    ("a.csv", "\ufeff" + TABLE.replace("!", ","), {"encoding": "UTF8"}, SPAM),
    ("a.csv.gz", TABLE.replace("!", ","), {}, SPAM),
    ("a.tsv.gz", "text\tlabel\nx\t1\ny\t2\n", {}, TWO),
    ("a.csv", "text\ntext\n", {"labelled": False}, [("text", None, None)]),
    ("a.csv", "text,label\nx, 1\ny,very bad \n", {}, [("x", None, "1"), ("y", None, "very bad")]),
    ("a.csv", "text,b,label\none,two,x\n", {"text_pair_column": "b"}, [("one", "two", "x")]),
    # JSON
    ("a.jsonl", '\n{"label": " 1", "text": "x"}\n\n{"text": "y", "label": 2}\n', {}, TWO),
    ("a.jsonl.gz", ROWS, {}, TWO),
    ("a.jsonl", "\ufeff" + json.dumps(ROWS, indent=1), {}, TWO),
    ("a.json", json.dumps(ROWS, indent=1), {}, TWO),
    ("a.json", '{"text": "x", "label": 1}\n{"text": "y", "label": 2}\n', {}, TWO),
    ("a.json", json.dumps({"data": ROWS}, indent=1), {}, TWO),
    ("a.json", {"data": ROWS}, {}, TWO),
    ("a.json", {"version": 1, "data": ROWS}, {}, TWO),
    ("a.jsonl", [{"text": "x", "label": 2.5}], {}, [("x", None, "2.5")]),
    ("a.jsonl", NESTED, {"text_column": "review.body", **META}, [("x", None, "true")]),
    ("a.jsonl", NESTED, {"text_column": "a.b", **META}, [("c", None, "true")]),
    ("a.jsonl", '{"text": "\\ud83d\\ude00 \\u00e9", "label": 1}', {}, [("😀 é", None, "1")]),
    # Quotation marks are part of the text in GLUE's tables, but not in those of pandas and Excel.
    ("a.tsv", 'text\tlabel, old\tlabel\n"x;y\tz\tn\n', {}, [('"x;y', None, "n")]),
    ("a.tsv", 'text\tlabel\n"Go," he said.\tx\n', {}, [('"Go," he said.', None, "x")]),
    ("a.tsv", 'text\tlabel\n"Yes, I do."\tx\nNo, no.\ty\n', {}, [('"Yes, I do."',), ("No, no.",)]),
    (
        "a.tsv",
        'text\tlabel\n"A ""no""."\tx\na 2" nail\ty\n',
        {},
        [('"A ""no""."',), ('a 2" nail',)],
    ),
    ("a.tsv", 'text\tlabel\n"One.\tx\nTwo."\ty\n', {}, [('"One.',), ('Two."',)]),
    (
        "pandas.tsv",
        'text\tlabel\n"a\tb"\tx\n"c\nd"\ty\n""""\tz\ne\tx, y\n',
        {},
        [("a\tb", None, "x"), ("c\nd", None, "y"), ('"', None, "z"), ("e", None, "x, y")],
    ),
    (
        "Excel.tsv",
        'text\tlabel\r\n"Yes, I do."\t"x, y"\r\n"c\nd"\ty\r\ne\tz',
        {},
        [("Yes, I do.", None, "x, y"), ("c\nd", None, "y"), ("e", None, "z")],
    ),
]


@pytest.mark.parametrize(("file", "content", "options", "expected"), READ)
def test_files(tmp_path, file, content, options, expected):
    assert_read(write(tmp_path / file, content), expected, **options)


QUOTED = '"text"\t"label"\n"He said ""no"", twice."\t"spam"\n"Déjà vu"\t"ham"\n'
QUOTED_BY_EXCEL = (
    'text\t"id, no"\tlabel\r\n"He said ""no"", twice."\t1\tspam\r\nDéjà vu\t"2,3"\tham\r\n'
)
DROPPED = "dropping quotation marks"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("a.csv", TABLE.replace("!", ";"), "';'"),
        ("a.csv", TABLE.replace("!", "\t"), r"'\t'"),
        ("a.tsv", TABLE.replace("!", ","), "','"),
        ("a.csv", TABLE.replace("!", "|"), "'|'"),
        ("a.csv", "sep=|\r\n" + TABLE.replace("!", "|"), ""),
        ("a.csv", TABLE.replace("text!label", " text ! label").replace("!", ","), ""),
        ("a.tsv", TABLE.replace("!", "\t"), DROPPED),
        ("a.tsv", TABLE.replace("!", "\t").replace("\n", "\r\n"), DROPPED),
        ("a.tsv", QUOTED, DROPPED),
        ("a.tsv", QUOTED_BY_EXCEL, DROPPED),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_tables_as_spreadsheets_write_them(tmp_path, file, content, said, encoding, caplog):
    path = write(tmp_path / file, content.encode(encoding))
    assert_read(path, SPAM, encoding=encoding if encoding == "cp1252" else None)
    assert bool(said) == bool(caplog.records) and said in caplog.text


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.tsv", "body\tlabel\nx\ty\n", "'text'.*a.tsv, with the columns 'body', 'label'"),
        ("a.tsv", "text\tlabel\nx\ty\nz\n", "a.tsv, line 3, 1 fields"),
        ("a.tsv", "text\tlabel\n \ty\n", "'text' must not be empty. Received: .*line 2"),
        ("a.tsv", "", "at least one row"),
        ("a.tsv", "text\tlabel\n", "at least one row"),
        ("a.tsv", b"text\tlabel\nd\xe9j\xe0\tx\n", "a.tsv isn't UTF-8: line 2 .* 0xe9"),
        ("a.csv.gz", b"text,label\nd\xe9j\xe0,x\n", "a.csv.gz isn't UTF-8: line 2 .* 0xe9"),
        ("a.csv", b"text,label\nit \x97 yes,x\n", "line 2 .* 0x97. .*--encoding cp1252"),
        ("a.csv", "text,label\né,x\n".encode("utf-16-le"), "--encoding utf-16"),
        ("a.csv", 'text,label\n"x,y\n', "a.csv, line 2: unexpected end of data"),
        ("a.csv", "text\nx\n", "'label'.* predict a file without labels with .*evaluate"),
        ("a.csv", "text\n\n", "'label'. .* Name one of these with --label-column; predict a file"),
        ("a.csv", "text,text,label\nx,y,z\n", "'text' 2 times"),
        ("a.csv", "Text,label\nx,y\n", "mean 'Text'. .*--text-column"),
        ("a.csv", "texts,label\nx,y\n", "mean 'texts'"),
        ("a.csv", "body;label\nx;y\n", "'text'. .*with the columns 'body', 'label'"),
        ("a.csv", "body,label\n", "'text'. .* with --text-column. .* an example, insert a line"),
        ("a.csv", "text,label\nx,y\ntext,label\n", "a.csv, line 3, repeats the header"),
        ("a.csv", "sep=;\ntext;label\nx\n", "line 3, 1 fields"),
        ("a.csv", "text,label\na,[x]\nb,\"['x', 'y']\"\n", "one label.*'x', 'y'.*line 3.*--multi-"),
        ("a.txt", "x", "must end in .tsv, .csv, .jsonl, .json .* Received: .*a.txt.$"),
        ("a.XLSX", "x", "must end in .tsv.* Received: .*a.XLSX. Save the sheet as CSV."),
        (
            "a.jsonl",
            '{"text": "x", "label": 1}\n{"text": "z", "lab',
            "line 2, must be JSON: .*lab'",
        ),
        ("a.jsonl", "[1]\n", r"must be a list of objects.*a.jsonl, \[1\]"),
        ("a.jsonl", "1\n", "line 1, must be a JSON object. Received: int"),
        ("a.json", '{"rows": [\n1]}\n', "must be a list of objects.*a.json"),
        ("a.jsonl", [{"text": "x", "label": ["y"]}], "one label. Received: .'y'.*line 1.*--multi-"),
        ("a.jsonl", [{"text": {"a": "x"}, "label": "y"}], "'text' must be a string or a number"),
        ("a.jsonl", [{"text": ["x"], "label": "y"}], "'text' must(?!.*--multi-label)"),
        ("a.jsonl", '{"text": "x", "label": NaN}', "'label' .* Received: nan .*line 1"),
        ("a.jsonl", [{"text": "x"}], "a column 'label'.*line 1, with 'text'"),
        ("a.jsonl", [{"text": None, "label": "x"}], "'text' must not be empty"),
        # Neither config.json nor a report can contain half a surrogate pair.
        ("a.jsonl", '\n{"text": "a", "label": "\\ud800"}', "line 2, contains .ud800"),
        ("a.jsonl", '\n{"text": ["\\uD800"], "label": 1}', "line 2, contains .ud800"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, file, content, message):
    with pytest.raises(UserError, match=message):
        read(write(tmp_path / file, content))


def test_a_field_that_an_object_lacks(tmp_path):
    with pytest.raises(UserError, match="a column 'review.label'"):
        read(write(tmp_path / "a.jsonl", NESTED), text_column="a.b", label_column="review.label")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.tsv", "text\tlabel\nz\nx\ty\n\t\n \ty\nv\tw\n", "Every row must have as many"),
        ("a.csv", 'text,label\n"z"z,y\nx,y\n"",y\nz,y,\nv,w\n', "a.csv, line 2: ',' expected"),
        (
            "a.jsonl.gz",
            '{"text": \n{"text": "x", "label": "y"}\n[1]\n{"a": 1}\n{"text": "v", "label": "w"}',
            "a.jsonl.gz, line 1, must be JSON",
        ),
    ],
)
def test_bad_rows_can_be_skipped(tmp_path, caplog, file, content, message):
    """Row numbers also count bad rows."""
    path = write(tmp_path / file, content)
    for _ in range(2):  # as a command reads it, which says it once
        found = read(path, skip_bad_rows=True)
        assert [example[:3] for example in found] == [("x", None, "y"), ("v", None, "w")]
        assert row_numbers(example.location for example in found) == [1, 4]
    assert caplog.text.count("skipped 3 bad rows; the first: ") == 1
    assert message in caplog.text and "--skip-bad-rows" not in caplog.text
    with pytest.raises(UserError, match="Correct the row, or skip such rows with --skip-bad-rows"):
        read(path)
    with pytest.raises(UserError, match="^((?!--skip-bad-rows).)*$"):
        read(path, labelled=False)


def test_a_quotation_mark_without_its_other_half_is_not_skipped(tmp_path):
    """The field would contain the rows after it, so skipping one row would drop them all."""
    path = write(tmp_path / "a.csv", 'text,label\nx,y\n"z,y\nx,y\n')
    with pytest.raises(UserError, match="line 4: unexpected end of data"):
        read(path, skip_bad_rows=True)


def test_examples_know_their_place(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"two\nlines",x\nb,y\n')
    assert [example.location for example in read(path)] == [f"{path}, line 3", f"{path}, line 4"]


def test_a_field_of_many_lines_has_a_limit(tmp_path):
    field = ("x" * 1023 + "\n") * (16 << 10)
    path = write(tmp_path / "a.csv", f'text\n"{field}"\n')
    assert_read(path, [(field,)], labelled=False)
    write(path, f'text\n"{field}y"\n')
    with pytest.raises(UserError, match=r"a.csv, line \d+: field larger than field limit"):
        read(path, labelled=False)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("cut", [0, 5, 20, None])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", 'text,label\nx,y\n"z",y\n'),
        ("b.csv.gz", "text!label\nx,y\n"),
        ("c.csv.gz", "text,label\nx!y\nz,y\n"),
        ("a.tsv.gz", "text\tlabel\nx!y\nz\ty\n"),
        ("a.jsonl.gz", '{"text": "x"! "label": "y"}\n{"text": "z", "label": "y"}\n'),
        ("a.json.gz", '[{"text": "x"! "label": "y"}]'),
        ("b.csv.gz", "text,label\n\xe9!,y\n"),
    ],
)
def test_a_damaged_gz_file_is_blamed_itself(tmp_path, name, content, cut, skip):
    """The error is the same whatever the damage does to the table inside."""
    whole = bytearray(gzip.compress(content.encode("latin-1"), compresslevel=0))
    whole[-8] ^= 1  # the checksum
    path = tmp_path / name
    path.write_bytes(content.encode() if cut is None else whole[: len(whole) - cut])
    with pytest.raises(UserError, match=f"{name} is not a valid .gz file"):
        task("classify", path, skip_bad_rows=skip).read(path)
