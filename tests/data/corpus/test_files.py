"""Finding files by pattern, and opening them."""

import gzip
import os
import re

import fsspec
import pytest

from albert_tf.data.corpus.documents import text_lines
from albert_tf.data.corpus.files import InputFile, find_inputs, open_bytes
from albert_tf.data.corpus.options import CorpusInput
from albert_tf.errors import UserError


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "corpus"
    for name in ("b.txt", "deep/a.txt", "deep/er/c.jsonl", ".git/no.txt", "deep/.no.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    (root / "z.txt.gz").write_bytes(gzip.compress(b"z"))
    return root


def names(*patterns):
    return [file.name for file in find_inputs(patterns)]


def test_a_folder_with_inner_folders(folder):
    (folder / "deep" / "again").symlink_to(folder)  # a loop
    found = find_inputs([folder])
    assert [file.name for file in found] == ["b.txt", "deep/a.txt", "deep/er/c.jsonl", "z.txt.gz"]
    assert found[1] == InputFile(str(folder / "deep" / "a.txt"), "deep/a.txt", 10)


def test_globs_and_paths(folder, monkeypatch):
    assert names(f"{folder}/*.txt") == ["b.txt"]
    assert names(f"{folder}/**/*.txt") == ["b.txt", "deep/a.txt"]
    assert names(f"{folder}/*") == ["b.txt", "deep/a.txt", "deep/er/c.jsonl", "z.txt.gz"]
    monkeypatch.chdir(folder / "deep")
    assert names("a.txt", "../b.txt") == ["b.txt", "deep/a.txt"]
    assert names("a.txt", "./*.txt", f"{folder}/deep/a.txt", "../deep/a.txt") == ["a.txt"]
    monkeypatch.setenv("HOME", str(folder))
    assert names("~/deep/e*") == ["c.jsonl"]


def test_a_name_that_looks_like_a_glob(folder):
    (folder / "[b].txt").write_text("brackets")
    assert names(f"{folder}/[b].txt") == ["[b].txt"]
    assert names(f"{folder}/deep") == ["a.txt", "er/c.jsonl"]
    (folder / "a::b.txt").write_text("colons")
    with open_bytes(str(folder / "a::b.txt")) as stream:
        assert stream.read() == b"colons"


@pytest.mark.posix
def test_only_regular_files_are_text(folder):
    """Nothing in a folder is skipped silently; reading a pipe could wait forever."""
    os.mkfifo(folder / "deep" / "pipe.txt")
    with pytest.raises(UserError, match=r"deep/pipe\.txt, which is a pipe"):
        find_inputs([folder])
    (folder / "deep" / "pipe.txt").unlink()
    (folder / "link.txt").symlink_to("none.txt")
    with pytest.raises(UserError, match=r"link\.txt, which doesn't exist"):
        find_inputs([folder])


def test_a_link_beside_its_file_is_left_out(folder):
    (folder / "a link.txt").symlink_to(folder / "b.txt")
    (folder / "deep" / "one.txt").symlink_to(folder / ".git" / "no.txt")
    (folder / "deep" / "two.txt").symlink_to(folder / ".git" / "no.txt")
    expected = ["b.txt", "deep/a.txt", "deep/er/c.jsonl", "deep/one.txt", "z.txt.gz"]
    assert names(folder) == expected
    assert names(f"{folder}/a link.txt") == ["a link.txt"]


@pytest.mark.parametrize("name", ["a.jsonl.ZST", "a.tar.gz"])
def test_other_compressions_are_refused_by_name(folder, name):
    (folder / name).write_bytes(b"x")
    for read in (text_lines, lambda path: CorpusInput(input=[path]).files()):
        with pytest.raises(UserError, match=f"gzip.*Received: {folder}/{name}"):
            read(f"{folder}/{name}")


@pytest.mark.parametrize("name", ["a.csv", "a.TSV.gz", "deep/a.parquet"])
def test_tables_are_not_read_as_prose(folder, name):
    (folder / name).write_bytes(b"id,text\n1,A text.\n")
    with pytest.raises(UserError, match=f"table.*Received: {folder}/{name}"):
        CorpusInput(input=[str(folder)]).files()


def test_names_with_a_common_prefix(tmp_path):
    for name in ("part-1/a.txt", "part-2/a.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    assert names(f"{tmp_path}/part-*") == ["part-1/a.txt", "part-2/a.txt"]


@pytest.mark.parametrize("pattern", ["none.txt", "*.csv", "empty"])
def test_a_pattern_without_a_file(folder, monkeypatch, pattern):
    (folder / "empty").mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(UserError, match=re.escape(f"matches {pattern!r}")):
        find_inputs(["b.txt", pattern])


def test_a_folder_that_can_not_be_read(folder, monkeypatch):
    scandir = os.scandir

    def refusing(path):
        if str(path).endswith("er"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(PermissionError, match="Permission denied: '.*deep/er'"):
        find_inputs([folder])


@pytest.mark.parametrize("protocol", ["file", "memory"])
def test_urls(folder, protocol):
    url = f"{protocol}://{folder}"
    local = [(file.name, file.size) for file in find_inputs([folder])]
    if protocol == "memory":
        fsspec.filesystem("memory").put(str(folder), str(folder), recursive=True)
    for pattern in (url, f"{url}/"):
        found = find_inputs([pattern])
        assert [(file.name, file.size) for file in found] == local
        assert all(file.path.startswith(f"{url}/") for file in found)
    assert names(f"{url}/*.txt", f"{url}/deep/a.txt") == ["b.txt", "deep/a.txt"]
    for file in found:
        with open_bytes(file.path) as stream:
            content = b"z" if file.name == "z.txt.gz" else file.name.encode()
            assert stream.read() == content
            assert stream.seek(0) == 0
            assert stream.read(1) == content[:1]
    with pytest.raises(UserError, match=f"matches '{protocol}://.*/none'"):
        find_inputs([f"{url}/none"])


def test_an_unknown_protocol():
    with pytest.raises(UserError, match="none://a: Protocol not known"):
        find_inputs(["none://a"])
