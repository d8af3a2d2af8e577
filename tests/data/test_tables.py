"""Tables as spreadsheets, pandas, and GLUE write them."""

import re

import pandas
import pytest

from albert_tf.data.readers import Example, read_examples
from albert_tf.data.tables import Columns
from albert_tf.errors import UserError
from tests.data.test_readers import COLUMNS, EXPECTED, read, write


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", 'body;folder\n"He said ""no"", twice.";spam\nDéjà vu;ham\n', "';'"),
        ("a.csv", 'body\tfolder\n"He said ""no"", twice."\tspam\nDéjà vu\tham\n', r"'\\t'"),
        ("a.tsv", 'body,folder\n"He said ""no"", twice.",spam\nDéjà vu,ham\n', "','"),
        ("a.csv", 'body|folder\n"He said ""no"", twice."|spam\nDéjà vu|ham\n', r"'\|'"),
        ("a.csv", 'sep=|\r\nbody|folder\n"He said ""no"", twice."|spam\nDéjà vu|ham\n', None),
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


def test_a_text_may_equal_its_header(tmp_path):
    path = write(tmp_path / "a.csv", "text\ntext\n")
    assert read(path, Columns("text")) == [Example("text", None, None)]


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
    assert "dropping quotation marks" in caplog.text


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


def test_a_quotation_mark_without_its_other_half_is_not_skipped(tmp_path):
    """The field would contain the rows after it, so skipping one row would drop them all."""
    path = write(tmp_path / "a.csv", 'body,folder\nx,y\n"z,y\nx,y\n')
    with pytest.raises(UserError, match="line 4: unexpected end of data"):
        read_examples(path, COLUMNS, True)


def test_a_field_of_many_lines_has_a_limit(tmp_path):
    field = ("x" * 1023 + "\n") * (16 << 10)
    path = write(tmp_path / "a.csv", f'text\n"{field}"\n')
    assert read(path, Columns("text")) == [Example(field, None, None)]
    write(path, f'text\n"{field}y"\n')
    with pytest.raises(UserError, match=r"a.csv, line \d+: field larger than field limit"):
        read(path, Columns("text"))
