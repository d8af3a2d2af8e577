import gzip
import json
import re

import pandas
import pytest

from albert_tf.data.readers import Columns, Example, read_examples, row_numbers
from albert_tf.errors import UserError

COLUMNS = Columns(text="body", label="folder")
EXPECTED = [Example('He said "no", twice.', None, "spam"), Example("Déjà vu", None, "ham")]


def read(*arguments):
    """Reads examples without their places."""
    return [example._replace(location="") for example in read_examples(*arguments)]


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'id\tbody\tfolder\n1\tHe said "no", twice.\tspam\n2\tDéjà vu\tham\n'),
        ("a.csv", 'body,folder\n"He said ""no"", twice.",spam\nDéjà vu,ham\n'),
        ("bom.csv", '\ufeffbody,folder\r\n"He said ""no"", twice.",spam\r\nDéjà vu,ham\r\n'),
        (
            "a.jsonl",
            '{"body": "He said \\"no\\", twice.", "folder": "spam"}\n\n'
            '{"folder": "ham", "body": "Déjà vu"}\n',
        ),
    ],
)
def test_formats(tmp_path, name, content):
    assert read(write(tmp_path / name, content), COLUMNS) == EXPECTED


def test_pairs_and_positions(tmp_path):
    path = write(tmp_path / "cola.tsv", "gj04\t1\t\tThe cat sat.\ngj04\t0\t*\tCat the sat.\n")
    found = read(path, Columns(text=3, label=1))
    assert found == [Example("The cat sat.", None, "1"), Example("Cat the sat.", None, "0")]
    path = write(tmp_path / "pairs.csv", "a,b,label\none,two,x\n")
    assert read(path, Columns("a", "label", "b")) == [Example("one", "two", "x")]


def test_labels_in_json_that_are_no_strings(tmp_path):
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": True}, {"text": "c", "label": 2.5}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    found = [example.label for example in read_examples(path, Columns("text", "label"))]
    assert found == ["1", "true", "2.5"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "text\tfolder\nx\ty\n",
            "a column 'body'.*a.tsv, with the columns 'text', 'folder'",
        ),
        ("a.tsv", "body\tfolder\nx\ty\nz\n", "a.tsv, line 3, 1 fields"),
        ("a.tsv", "body\tfolder\n \ty\n", "'body' must not be empty. Received: .*line 2"),
        ("a.tsv", "", "at least one row"),
        ("a.tsv", "body\tfolder\n", "at least one row"),
        (
            "a.tsv",
            b"body\tfolder\nd\xe9j\xe0\tx\n",
            "must be UTF-8. Received: .*line 2, with the byte 0xe9",
        ),
        ("a.csv", 'body,folder\n"x,y\n', "a.csv, line 2: unexpected end of data"),
        (
            "a.jsonl",
            '{"body": "x", "folder": "y"}\n{"body": "z", "fol',
            "line 2, must be JSON: .*fol'. If it was cut",
        ),
        ("a.csv", "body\nx\n", "a column 'folder'.* predict a file without labels with .*evaluate"),
        ("a.jsonl", "[1]\n", r"must be a list of objects, .*a.jsonl, \[1\]"),
        ("a.jsonl", "1\n", "line 1, must be a JSON object. Received: int"),
        ("a.json", '{"rows": [\n1]}\n', "must be a list of objects, or an object a line"),
        ("a.jsonl", '{"body": "x", "folder": ["y"]}\n', "'folder' .* line 1. .*--multi-label"),
        ("a.jsonl", '{"body": {"a": "x"}, "folder": "y"}\n', "'body' must be a text or a number"),
        ("a.jsonl", '{"body": "x", "folder": NaN}\n', "'folder' .* Received: nan, .*line 1"),
        ("a.csv", "body,body,folder\nx,y,z\n", "name of its own. Received: .*'body' 2 times"),
        ("a.csv", "Body,folder\nx,y\n", "Is it 'Body'. Name it, as with --text-column"),
        ("a.csv", "bodies,folder\nx,y\n", "Is it 'bodies'"),
        ("a.csv", b"body,folder\nit \x97 yes,x\n", "line 2, .* 0x97. .*--encoding cp1252"),
        ("a.csv", "body,folder\né,x\n".encode("utf-16-le"), "--encoding utf-16"),
        ("a.csv", "text;label\nx;y\n", "a column 'body'. .*with the columns 'text', 'label'"),
        ("a.jsonl", '{"body": "x"}\n', "Every row must have 'folder'.*line 1, with 'body'"),
        ("a.jsonl", '{"body": null, "folder": "x"}\n', "'body' must not be empty"),
        ("a.txt", "x", "must end in .tsv, .csv, .jsonl, .json or .parquet, .* Received: .*a.txt.$"),
        ("a.XLSX", "x", "must end in .tsv.* Received: .*a.XLSX. Save the sheet as CSV."),
        ("a.csv", "body\n\n", "'folder'. .* Name one of these with --label-column; predict a file"),
        ("a.csv", "text,folder\n", "'body'. .* Name one of these with --text-column.$"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message):
        read_examples(write(tmp_path / name, content), COLUMNS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", 'body;folder\n"He said ""no"", twice.";spam\nDéjà vu;ham\n', "';'"),
        ("a.csv", 'body\tfolder\n"He said ""no"", twice."\tspam\nDéjà vu\tham\n', r"'\\t'"),
        ("a.tsv", 'body,folder\n"He said ""no"", twice.",spam\nDéjà vu,ham\n', "','"),
        ("a.csv", 'body|folder\n"He said ""no"", twice."|spam\nDéjà vu|ham\n', r"'\|'"),
        ("a.csv", ' body , folder\n"He said ""no"", twice.",spam\nDéjà vu,ham\n', None),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_tables_as_spreadsheets_write_them(tmp_path, name, content, said, encoding, caplog):
    path = write(tmp_path / name, content.encode(encoding))
    given = encoding if encoding == "cp1252" else None
    found = read_examples(path, COLUMNS, encoding=given)
    assert [each._replace(location="") for each in found] == EXPECTED
    assert bool(said) == bool(caplog.records)
    assert re.search(said or "", caplog.text)


def test_the_original_files_keep_their_quotation_marks(tmp_path):
    """GLUE's tables have tabs and no quoting, whatever else their lines have."""
    path = write(tmp_path / "a.tsv", 'body\tfolder, old\tfolder\n"x;y\tz\tn\n')
    assert read(path, COLUMNS) == [Example('"x;y', None, "n")]


@pytest.mark.parametrize(
    "content",
    [
        'body\tfolder\n"He said ""no"", twice."\tspam\nDéjà vu\tham\n',
        'body\tfolder\r\n"He said ""no"", twice."\tspam\r\nDéjà vu\tham\r\n',
        '"body"\t"folder"\n"He said ""no"", twice."\t"spam"\n"Déjà vu"\t"ham"\n',
        'body\t"id, no"\tfolder\r\n"He said ""no"", twice."\t1\tspam\r\nDéjà vu\t"2,3"\tham\r\n',
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_tables_with_tabs_as_excel_and_pandas_write_them(tmp_path, content, encoding, caplog):
    path = write(tmp_path / "a.tsv", content.encode(encoding))
    assert read(path, COLUMNS) == EXPECTED
    assert "quotation marks around fields are dropped" in caplog.text


def test_tables_of_pandas_may_have_tabs_and_line_ends_in_a_text(tmp_path):
    rows = [("a\tb", "x"), ("c\nd", "y"), ('"', "z"), ("e", "x, y")]
    path = tmp_path / "a.tsv"
    pandas.DataFrame(rows, columns=["body", "folder"]).to_csv(path, sep="\t", index=False)
    assert [(each.text, each.label) for each in read(path, COLUMNS)] == rows


def test_excel_quotes_fields_with_commas_and_line_ends(tmp_path):
    rows = [("Yes, I do.", "x, y"), ("c\nd", "y"), ("e", "z")]
    lines = ["body\tfolder", '"Yes, I do."\t"x, y"', '"c\nd"\ty', "e\tz", ""]
    path = write(tmp_path / "a.tsv", "\r\n".join(lines))
    assert [(each.text, each.label) for each in read(path, COLUMNS)] == rows


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (['"Go," he said.\tx'], '"Go," he said.'),
        (['"Yes, I do."\tx', "No, never.\ty"], '"Yes, I do."'),
        (['"He said ""no""."\tx', 'a 2" nail\ty'], '"He said ""no""."'),
        (['"One.\tx', 'Two."\ty'], '"One.'),
    ],
)
def test_tables_of_glue_have_quotation_marks_as_text(tmp_path, lines, text, caplog):
    path = write(tmp_path / "a.tsv", "\n".join(["body\tfolder", *lines, ""]))
    found = read(path, COLUMNS)
    assert (len(found), found[0].text, caplog.text) == (len(lines), text, "")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '[{"body": "x", "folder": 1},\n {"body": "y", "folder": 2}]'),
        ("a.json", '{"body": "x", "folder": 1}\n{"body": "y", "folder": 2}\n'),
        ("a.json", '{\n "data": [{"body": "x", "folder": 1}, {"body": "y", "folder": 2}]}'),
        ("a.json", '{"data": [{"body": "x", "folder": 1}, {"body": "y", "folder": 2}]}\n'),
        ("a.jsonl", '\ufeff[{"body": "x", "folder": 1},\n{"body": "y", "folder": 2}]'),
    ],
)
def test_lists_of_json(tmp_path, name, content):
    found = read(write(tmp_path / name, content), COLUMNS)
    assert found == [Example("x", None, "1"), Example("y", None, "2")]


def test_fields_of_objects(tmp_path):
    content = '{"review": {"body": "x"}, "meta": {"folder": true}, "a.b": "c"}\n'
    path = write(tmp_path / "a.jsonl", content)
    assert read(path, Columns("review.body", "meta.folder")) == [Example("x", None, "true")]
    assert read(path, Columns("a.b", "meta.folder")) == [Example("c", None, "true")]
    with pytest.raises(UserError, match="Every row must have 'review.label'"):
        read(path, Columns("review.body", "review.label"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "body\tfolder\nz\nx\ty\n\t\n \ty\nv\tw\n", "Every row must have as many"),
        ("a.csv", 'body,folder\n"z"z,y\nx,y\n"",y\nz,y,\nv,w\n', "a.csv, line 2: ',' expected"),
        (
            "a.jsonl",
            '{"body": \n{"body": "x", "folder": "y"}\n[1]\n{"body": "z"}\n'
            '{"body": "v", "folder": "w"}\n',
            "a.jsonl, line 1, must be JSON",
        ),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_bad_rows_can_be_skipped(tmp_path, caplog, name, content, message, packed):
    """A row's number also counts the bad rows before it."""
    path = write(tmp_path / name, content)
    if packed:
        path = write(tmp_path / f"{name}.gz", gzip.compress(content.encode()))
    for _ in range(2):  # as a command reads it, which says it once
        found = read_examples(path, COLUMNS, True)
        assert [example[:3] for example in found] == [("x", None, "y"), ("v", None, "w")]
        assert row_numbers(example.location for example in found) == [1, 4]
    assert caplog.text.count("skipped 3 bad rows; the first: ") == 1
    assert message in caplog.text.replace("a.jsonl.gz", "a.jsonl").replace("a.csv.gz", "a.csv")
    assert "--skip-bad-rows" not in caplog.text
    with pytest.raises(UserError, match="Correct the row, or skip such rows with --skip-bad-rows"):
        read_examples(path, COLUMNS)
    with pytest.raises(UserError) as error:
        read_examples(path, COLUMNS, None)
    assert "--skip-bad-rows" not in str(error.value)


def test_a_quotation_mark_without_its_other_half_is_not_skipped(tmp_path):
    """It takes in the rows after it."""
    path = write(tmp_path / "a.csv", 'body,folder\nx,y\n"z,y\nx,y\n')
    with pytest.raises(UserError, match="line 4: unexpected end of data"):
        read_examples(path, COLUMNS, True)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("cut", [0, 5, 20])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", 'body,folder\nx,y\n"z",y\n'),
        ("b.csv.gz", "body!folder\nx,y\n"),
        ("c.csv.gz", "body,folder\nx!y\nz,y\n"),
        ("a.tsv.gz", "body\tfolder\nx!y\nz\ty\n"),
        ("a.jsonl.gz", '{"body": "x"! "folder": "y"}\n{"body": "z", "folder": "y"}\n'),
        ("a.json.gz", '[{"body": "x"! "folder": "y"}]'),
        ("b.csv.gz", "body,folder\n\xe9!,y\n"),
    ],
)
def test_a_damaged_gz_file_is_blamed_itself(tmp_path, name, content, cut, skip):
    """Whatever the damage does to the table in it."""
    whole = bytearray(gzip.compress(content.encode("latin-1"), compresslevel=0))
    whole[-8] ^= 1  # the checksum
    path = write(tmp_path / name, bytes(whole[: len(whole) - cut]))
    with pytest.raises(UserError, match=f"A .gz file must be whole. Received: .*{name}"):
        read_examples(path, COLUMNS, skip)


@pytest.mark.parametrize("encoding", [None, "utf-8", "UTF8"])
def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path, encoding):
    path = write(tmp_path / "a.csv", "\ufeffbody,folder\nx,y\n")
    assert read_examples(path, COLUMNS, encoding=encoding)[0].text == "x"


def test_no_file(tmp_path):
    with pytest.raises(UserError, match="missing.tsv, which doesn't exist"):
        read_examples(tmp_path / "missing.tsv", COLUMNS)


def test_examples_know_their_place(tmp_path):
    path = write(tmp_path / "a.csv", 'body,folder\n"two\nlines",x\nb,y\n')
    places = [example.location for example in read_examples(path, COLUMNS)]
    assert places == [f"{path}, line 3", f"{path}, line 4"]


@pytest.mark.parametrize(
    "row", ['{"text": "a", "label": "\\ud800"}', '{"text": ["\\uD800"], "label": 1}']
)
def test_half_a_surrogate_pair(tmp_path, row):
    """Neither config.json nor a report in UTF-8 can hold such a label."""
    path = write(tmp_path / "a.jsonl", '{"text": "\\ud83d\\ude00 \\u00e9", "label": "b"}\n')
    assert read(path, Columns("text", "label")) == [Example("😀 é", None, "b")]
    write(path, f"\n{row}\n")
    with pytest.raises(UserError, match=r"line 2, must be text of whole .* Received: .ud800, half"):
        read(path, Columns("text", "label"))


def test_a_field_of_many_lines_has_a_limit(tmp_path):
    field = ("x" * 1023 + "\n") * (16 << 10)
    path = write(tmp_path / "a.csv", f'text\n"{field}"\n')
    assert read(path, Columns("text")) == [Example(field, None, None)]
    write(path, f'text\n"{field}y"\n')
    with pytest.raises(UserError, match=r"a.csv, line \d+: field larger than field limit"):
        read(path, Columns("text"))
