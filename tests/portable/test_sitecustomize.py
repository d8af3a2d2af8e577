import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Runs a line as if it were of a file below the repository's root.
CODE = """
import sys
path, line = sys.argv[1:]
exec(compile(line, path, "exec"), {"__file__": path})
"""

pytestmark = pytest.mark.posix


def run(file, line):
    """Returns the last line of an error, or nothing."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, ROOT / file, line],
        env={"PYTHONPATH": str(HERE), "PYTHONWARNDEFAULTENCODING": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    return done.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("import fcntl", "No module named 'fcntl'"),
        ("from resource import getrlimit", "No module named 'resource'"),
        ("import tensorflow_text", "import of tensorflow_text halted"),
        ("import os; os.symlink('a', '{tmp}/b')", "A required privilege is not held"),
        ("import os; f = open('{tmp}/a', 'rb'); os.remove('{tmp}/a')", "used by this process"),
        ("import os; f = open('{tmp}/a', 'rb'); os.replace('{tmp}', '{tmp}.2')", "used by this"),
        (
            "import mmap, os; f = open('{tmp}/a', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); "
            "f.close(); os.remove('{tmp}/a')",
            "used by this process",
        ),
        (
            "import shutil; f = open('{tmp}/a', 'rb'); shutil.rmtree('{tmp}')",
            "used by this process",
        ),
    ],
)
def test_what_our_packages_lack(tmp_path, line, error):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(b"a")
    assert error in run("albert_tf/some.py", line.format(tmp=folder))
    assert (folder / "a").exists()


@pytest.mark.parametrize(
    "line",
    [
        "import fcntl, resource",
        "import os; os.symlink('a', '{tmp}/b')",
        "import os; f = open('{tmp}/a', 'rb'); os.remove('{tmp}/a')",
    ],
)
def test_what_others_have(tmp_path, line):
    (tmp_path / "a").write_bytes(b"a")
    assert run("tests/some.py", line.format(tmp=tmp_path)) == ""


def test_files_that_are_closed(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    line = f"import os; os.replace('{tmp_path}/a', '{tmp_path}/b'); os.remove('{tmp_path}/b')"
    assert run("albert_tf/some.py", line) == ""
    assert list(tmp_path.iterdir()) == []


def test_the_selection_exists():
    for line in (HERE / "tests.txt").read_text("utf-8").splitlines():
        assert (ROOT / line).exists(), line
