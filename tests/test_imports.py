"""Dependencies point one way; heavy packages are imported only where they are needed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Each arrow of the drawing leads from a part to one that it imports.
DRAWING = (ROOT / "docs" / "pictures" / "architecture.dot").read_text("utf-8")
ARROWS = re.findall(r"^  (\w+) -> (\w+)$", DRAWING, re.MULTILINE)
# Parts that the drawing leaves out, with those that each may import; the drawn ones may import all.
UNDRAWN = {
    "bfloat16": set(),
    "config_files": {"errors", "huggingface", "options"},
    "errors": set(),
    "files": {"errors"},
    "labels": {"errors", "options"},
    "huggingface": {"options"},
    "options": {"errors", "files"},
    "outputs": set(),
    "probabilities": {"errors"},
    "progress": {"errors"},
    "quiet": {"errors"},
    "registration": {"tasks"},
    "tasks": set(),
}
# The same for the folders of albert_tf.data.
DATA = {
    "corpus": {"lines"},
    "tasks": {"conll", "hub", "json_rows", "options", "readers", "tables", "text_files"},
    "pretraining": {"corpus", "tasks"},
    "jobs": {"corpus", "pretraining"},
}
# The only import against the arrows; see `test_one_import_goes_against_the_arrows`.
FINDER = "albert_tf.checkpoints.finder"
TENSORFLOW_FREE = {*UNDRAWN, "config", "layers", "models", "checkpoints", "optimizers", "recipes"}


def imports(path: Path, at_import_time: bool = False) -> set[str]:
    """Returns what a file imports, inside functions too unless `at_import_time`."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if at_import_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def sources(part: str) -> list[Path]:
    path = ROOT / ("export" if part == "albert_tf_export" else "albert_tf") / part
    file = path.with_suffix(".py")
    return [file] if file.exists() else sorted(path.rglob("*.py"))


def parts(names: set[str]) -> set[str]:
    """Returns the parts of our packages among the names that a file imports."""
    steps = (name.removeprefix("albert_tf.").split(".") for name in names if "albert_tf" in name)
    return {first for first, *_ in steps} - {"albert_tf"}


def allowed(part: str) -> set[str]:
    """Returns the parts that a part may import: those that its arrows lead to."""
    ends = {end for start, end in ARROWS if start == part}
    return ends.union(*map(allowed, ends))


@pytest.mark.parametrize("part", sorted({part for arrow in ARROWS for part in arrow}))
def test_dependencies_point_one_way(part):
    assert sources(part), f"{part} has no source"
    found = set()
    for path in sources(part):
        names = imports(path) - ({FINDER} if part == "config" else set())
        assert parts(names) <= allowed(part) | {part} | UNDRAWN.keys(), path
        found |= parts(names)
    drawn = {end for start, end in ARROWS if start == part}
    assert drawn <= found, f"{part} imports less than is drawn"


def test_one_import_goes_against_the_arrows():
    """Only inside `AlbertConfig.from_pretrained`, a public name whose work is the finder's."""
    tree = ast.parse((ROOT / "albert_tf" / "config.py").read_text(encoding="utf-8"))
    against = {
        function.name: statement.module
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.ImportFrom)
    }
    assert against == {"from_pretrained": FINDER.rpartition(".")[0]}
    assert "checkpoints" not in parts(imports(ROOT / "albert_tf" / "config.py", True))


@pytest.mark.parametrize("part", UNDRAWN)
def test_small_parts_import_less(part):
    for path in sources(part):
        assert parts(imports(path)) <= UNDRAWN[part] | {part}, path


@pytest.mark.parametrize("part", DATA)
def test_dependencies_within_data_point_one_way(part):
    for path in sources(f"data/{part}"):
        names = {name for name in imports(path) if name.startswith("albert_tf.data.")}
        assert {name.split(".")[2] for name in names} <= DATA[part] | {part}, path


@pytest.mark.parametrize("part", sorted(TENSORFLOW_FREE))
def test_importing_what_runs_on_every_backend_needs_no_tensorflow(part):
    for path in sources(part):
        names = {name.split(".")[0] for name in imports(path, at_import_time=True)}
        own = {"tensorflow"} if path.name == "steps_tensorflow.py" else set()
        assert names & {"tensorflow", "tensorflow_text"} == own, path


LIGHT = """
import sys
import albert_tf.cli, albert_tf.data.jobs.run, albert_tf.data.jobs.local
# TensorFlow takes a gigabyte with two workers, which a job needs for itself.
heavy = {"keras", "tensorflow", "torch", "ml_dtypes", "safetensors"}
assert not heavy & sys.modules.keys()
import albert_tf.pipelines
assert not {"keras", "tensorflow", "scipy"} & sys.modules.keys()
albert_tf.cli.main(["sizes", "--model", "small"])
assert not {"keras", "tensorflow"} & sys.modules.keys()
"""


def test_light_commands_load_no_heavy_packages():
    subprocess.run([sys.executable, "-c", LIGHT], check=True, cwd=ROOT)


def test_facade_names_exist():
    import albert_tf

    for name in albert_tf.__all__:
        assert getattr(albert_tf, name)
    with pytest.raises(AttributeError, match="no attribute 'AlbertForPoetry'"):
        _ = albert_tf.AlbertForPoetry
