from importlib import metadata
from pathlib import Path

from check_dist import RUNTIME

from benchmarks.install_size import sizes, table

ROOT = Path(__file__).resolve().parents[2]


def test_files_of_a_package(tmp_path):
    """Compiled files count, and those of another package in the same folder don't."""
    for name, size in (("one.py", 2), ("two.py", 5), ("__pycache__/one.cpython-311.pyc", 3)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b" " * size * 1_000_000)
    folder = tmp_path / "first-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: first\n")
    (folder / "RECORD").write_text("one.py,,\nfirst-1.0.dist-info/METADATA,,\n")
    [found] = sizes(metadata.distributions(path=[str(tmp_path)])).items()
    assert found[0] == "first" and 5 <= found[1] < 5.001


def test_small_packages_are_one_row():
    lines = table({"large": 30.0, "b": 3.0, "c": 1.0}, least=20).splitlines()
    assert lines[2:] == ["| large | 30 |", "| 2 others | 4 |", "| total | 34 |"]


def test_the_packages_that_run_exported_files():
    """RESULTS.md names those that `make dist` installs."""
    page = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    assert f"`pip install {' '.join(RUNTIME)}`" in page
