import gzip

import pytest

from albert_tf.data.readers import read_examples
from albert_tf.errors import UserError
from tests.data.test_readers import COLUMNS, write


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
    """The error is the same whatever the damage does to the table inside."""
    whole = bytearray(gzip.compress(content.encode("latin-1"), compresslevel=0))
    whole[-8] ^= 1  # the checksum
    path = write(tmp_path / name, bytes(whole[: len(whole) - cut]))
    with pytest.raises(UserError, match=f"{name} is not a valid .gz file"):
        read_examples(path, COLUMNS, skip)


@pytest.mark.parametrize("encoding", [None, "utf-8", "UTF8"])
def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path, encoding):
    path = write(tmp_path / "a.csv", "\ufeffbody,folder\nx,y\n")
    assert read_examples(path, COLUMNS, encoding=encoding)[0].text == "x"


def test_no_file(tmp_path):
    with pytest.raises(UserError, match="missing.tsv, which doesn't exist"):
        read_examples(tmp_path / "missing.tsv", COLUMNS)
