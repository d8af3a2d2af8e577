import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Runs a line as if it were of a file below the repository's root.
CODE = """
import mmap, os, shutil, sys
path, line = sys.argv[1:]
exec(compile(line, path, "exec"), {**globals(), "__file__": path})
"""

pytestmark = pytest.mark.posix


def run(file, line, folder):
    """Returns the last line of an error, or nothing."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, ROOT / file, line],
        env={"PYTHONPATH": str(HERE), "PYTHONWARNDEFAULTENCODING": "1"},
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
    )
    return done.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("import fcntl", "No module named 'fcntl'"),
        ("from resource import getrlimit", "No module named 'resource'"),
        ("os.symlink('a', 'b')", "A required privilege is not held"),
        ("f = open('a', 'rb'); os.remove('a')", "used by this process"),
        ("f = open('a', 'rb'); os.replace(os.getcwd(), os.getcwd() + '.2')", "used by this"),
        ("f = open('a', 'rb'); shutil.rmtree(os.getcwd())", "used by this process"),
        (
            "f = open('a', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); f.close(); os.remove('a')",
            "used by this process",
        ),
    ],
)
def test_our_packages_lack_what_others_have(tmp_path, line, error):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(b"a")
    assert error in run("albert_tf/some.py", line, folder)
    assert (folder / "a").exists()
    assert run("tests/some.py", line, folder) == ""


def test_tensorflow_text_is_missing(tmp_path):
    error = run("tests/some.py", "import tensorflow_text", tmp_path)
    assert "import of tensorflow_text halted" in error


def test_files_that_are_closed(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    assert run("albert_tf/some.py", "os.replace('a', 'b'); os.remove('b')", tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


def test_the_selection_exists():
    for line in (HERE / "tests.txt").read_text("utf-8").splitlines():
        assert (ROOT / line).exists(), line
