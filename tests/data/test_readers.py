import json

import pytest

from albert_tf.data.readers import Columns, Example, read_examples
from albert_tf.errors import UserError

COLUMNS = Columns(text="body", label="folder")
EXPECTED = [Example('He said "no", twice.', None, "spam"), Example("Déjà vu", None, "ham")]


def read(*arguments):
    """Reads examples without their places."""
    return [example._replace(place="") for example in read_examples(*arguments)]


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
        ("a.tsv", "body\tfolder\nx\t\n", "'folder' must not be empty"),
        ("a.tsv", "", "at least one row"),
        ("a.tsv", "body\tfolder\n", "at least one row"),
        (
            "a.tsv",
            b"body\tfolder\nd\xe9j\xe0\tx\n",
            "must be UTF-8. Received: .*line 2, with the byte 0xe9",
        ),
        ("a.csv", 'body,folder\n"x,y\n', "a.csv, line 2: unexpected end of data"),
        ("a.jsonl", "{\n", "line 1, must be JSON"),
        (
            "a.jsonl",
            '{"body": "x", "folder": "y"}\n{"body": "z", "fol',
            "line 2, must be JSON: .*fol'. If it was cut",
        ),
        ("a.csv", "body\nx\n", "a column 'folder'.* predict a file without labels with .*predict"),
        ("a.jsonl", "[1]\n", "line 1, must be a JSON object. Received: list"),
        ("a.jsonl", '{"body": "x"}\n', "Every row must have 'folder'.*line 1, with 'body'"),
        ("a.jsonl", '{"body": null, "folder": "x"}\n', "'body' must not be empty"),
        ("a.xlsx", "x", "must end in .tsv, .csv, .jsonl"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message):
        read_examples(write(tmp_path / name, content), COLUMNS)


def test_bad_rows_can_be_skipped(tmp_path, caplog):
    content = "body\tfolder\nx\ty\nz\n\t\n \ty\nv\tw\n"
    found = read(write(tmp_path / "a.tsv", content), COLUMNS, True)
    assert found == [Example("x", None, "y"), Example("v", None, "w")]
    assert "skipped 3 bad rows; the first: Every row must have as many fields" in caplog.text


def test_no_file(tmp_path):
    with pytest.raises(UserError, match="must be in a file. Received: .*missing.tsv"):
        read_examples(tmp_path / "missing.tsv", COLUMNS)


def test_examples_know_their_place(tmp_path):
    path = write(tmp_path / "a.csv", 'body,folder\n"two\nlines",x\nb,y\n')
    places = [example.place for example in read_examples(path, COLUMNS)]
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
