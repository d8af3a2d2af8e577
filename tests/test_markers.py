"""Tests that need an optional package are marked for the target that installs it."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
# `make test` installs none of these; the target named like the marker requires them.
OPTIONAL = {"apache_beam", "flax", "jax", "keras_hub", "playwright", "pyspark", "torch"}
OPTIONAL |= {"mediapipe", "transformers"}
MARKERS = ("mark.peers", "mark.backends", "mark.engines", "mark.browser")


def marked(source: str) -> bool:
    return any(marker in source for marker in MARKERS)


def needs_package(node: ast.AST) -> bool:
    """Returns whether a call below passes an optional package to `pytest.importorskip`."""
    return any(
        ast.unparse(call.func) == "pytest.importorskip"
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value in OPTIONAL
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and call.args
    )


def without_marker(path: Path) -> list[str]:
    """Returns the unmarked places of a file that need a package: tests, or the file itself."""
    source = path.read_text(encoding="utf-8")
    found = []
    for node in ast.parse(source).body:
        if not needs_package(node):
            continue
        marks = "".join(line for line in source.splitlines() if line.startswith("pytestmark"))
        if isinstance(node, ast.FunctionDef):
            is_test = node.name.startswith("test_")
            marks += " ".join(map(ast.unparse, node.decorator_list)) if is_test else source
        if not marked(marks):
            found.append(getattr(node, "name", "top level"))
    return found


def test_tests_that_need_a_package_say_so():
    missing = {str(path): without_marker(path) for path in TESTS.rglob("test_*.py")}
    assert not {path: names for path, names in missing.items() if names}


def test_a_missing_marker_is_found(tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text('def test_one():\n    pytest.importorskip("torch")\n')
    assert without_marker(path) == ["test_one"]
    path.write_text('torch = pytest.importorskip("torch")\n')
    assert without_marker(path) == ["top level"]
    path.write_text('torch = pytest.importorskip("torch")\npytestmark = pytest.mark.peers\n')
    assert without_marker(path) == []
