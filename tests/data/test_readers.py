import gzip
import json

import pytest

from albert_tf.data.readers import Example, read_examples, row_numbers
from albert_tf.data.tables import Columns
from albert_tf.errors import UserError

COLUMNS = Columns(text="body", label="folder")
EXPECTED = [Example('He said "no", twice.', None, "spam"), Example("Déjà vu", None, "ham")]


def read(*arguments):
    """Reads examples without their locations."""
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
            "a.tsv isn't UTF-8: line 2 contains the byte 0xe9",
        ),
        ("a.csv", 'body,folder\n"x,y\n', "a.csv, line 2: unexpected end of data"),
        (
            "a.jsonl",
            '{"body": "x", "folder": "y"}\n{"body": "z", "fol',
            "line 2, must be JSON: .*fol'",
        ),
        ("a.csv", "body\nx\n", "a column 'folder'.* predict a file without labels with .*evaluate"),
        ("a.jsonl", "[1]\n", r"must be a list of objects.*a.jsonl, \[1\]"),
        ("a.jsonl", "1\n", "line 1, must be a JSON object. Received: int"),
        ("a.json", '{"rows": [\n1]}\n', "must be a list of objects.*a.json"),
        ("a.jsonl", '{"body": "x", "folder": ["y"]}\n', "'folder' .* Received: .'y'. .*line 1"),
        ("a.jsonl", '{"body": {"a": "x"}, "folder": "y"}\n', "'body' must be a string or a number"),
        ("a.jsonl", '{"body": "x", "folder": NaN}\n', "'folder' .* Received: nan .*line 1"),
        ("a.csv", "body,body,folder\nx,y,z\n", "'body' 2 times"),
        ("a.csv", "Body,folder\nx,y\n", "mean 'Body'. .*--text-column"),
        ("a.csv", "bodies,folder\nx,y\n", "mean 'bodies'"),
        ("a.csv", b"body,folder\nit \x97 yes,x\n", "line 2 .* 0x97. .*--encoding cp1252"),
        ("a.csv", "body,folder\né,x\n".encode("utf-16-le"), "--encoding utf-16"),
        ("a.csv", "text;label\nx;y\n", "a column 'body'. .*with the columns 'text', 'label'"),
        ("a.jsonl", '{"body": "x"}\n', "a column 'folder'.*line 1, with 'body'"),
        ("a.jsonl", '{"body": null, "folder": "x"}\n', "'body' must not be empty"),
        ("a.txt", "x", "must end in .tsv, .csv, .jsonl, .json .* Received: .*a.txt.$"),
        ("a.XLSX", "x", "must end in .tsv.* Received: .*a.XLSX. Save the sheet as CSV."),
        ("a.csv", "body\n\n", "'folder'. .* Name one of these with --label-column; predict a file"),
        ("a.csv", "text,folder\n", "'body'. .* with --text-column. .* an example, insert a line"),
        ("a.csv", "body,folder\nx,y\nbody,folder\n", "a.csv, line 3, repeats the header"),
        ("a.csv", "sep=;\nbody;folder\nx\n", "line 3, 1 fields"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message):
        read_examples(write(tmp_path / name, content), COLUMNS)


def test_fields_of_objects(tmp_path):
    content = '{"review": {"body": "x"}, "meta": {"folder": true}, "a.b": "c"}\n'
    path = write(tmp_path / "a.jsonl", content)
    assert read(path, Columns("review.body", "meta.folder")) == [Example("x", None, "true")]
    assert read(path, Columns("a.b", "meta.folder")) == [Example("c", None, "true")]
    with pytest.raises(UserError, match="a column 'review.label'"):
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
    """Row numbers also count bad rows."""
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


def test_examples_know_their_place(tmp_path):
    path = write(tmp_path / "a.csv", 'body,folder\n"two\nlines",x\nb,y\n')
    places = [example.location for example in read_examples(path, COLUMNS)]
    assert places == [f"{path}, line 3", f"{path}, line 4"]
