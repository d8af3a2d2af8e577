import pytest

from albert_tf.data.readers import Example
from albert_tf.data.tables import Columns
from albert_tf.errors import UserError
from tests.data.test_readers import COLUMNS, read, write


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '[{"body": "x", "folder": 1},\n {"body": "y", "folder": 2}]'),
        ("a.json", '{"body": "x", "folder": 1}\n{"body": "y", "folder": 2}\n'),
        ("a.json", '{\n "data": [{"body": "x", "folder": 1}, {"body": "y", "folder": 2}]}'),
        ("a.json", '{"data": [{"body": "x", "folder": 1}, {"body": "y", "folder": 2}]}\n'),
        ("a.json", '{"v": 1, "data": [{"body": "x", "folder": 1}, {"body": "y", "folder": 2}]}'),
        ("a.jsonl", '\ufeff[{"body": "x", "folder": 1},\n{"body": "y", "folder": 2}]'),
    ],
)
def test_lists_of_json(tmp_path, name, content):
    found = read(write(tmp_path / name, content), COLUMNS)
    assert found == [Example("x", None, "1"), Example("y", None, "2")]


@pytest.mark.parametrize(
    "row", ['{"text": "a", "label": "\\ud800"}', '{"text": ["\\uD800"], "label": 1}']
)
def test_half_a_surrogate_pair(tmp_path, row):
    """Neither config.json nor a report can contain such a label, because they are UTF-8."""
    path = write(tmp_path / "a.jsonl", '{"text": "\\ud83d\\ude00 \\u00e9", "label": "b"}\n')
    assert read(path, Columns("text", "label")) == [Example("😀 é", None, "b")]
    write(path, f"\n{row}\n")
    with pytest.raises(UserError, match=r"line 2, contains .ud800"):
        read(path, Columns("text", "label"))
