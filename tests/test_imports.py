"""Dependencies point one way; heavy packages are imported only where they are needed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BASE = {"errors", "files", "options", "probabilities", "progress", "quiet", "tasks"}
# Each part may import only the parts listed for it.
ALLOWED = {
    "errors": set(),
    "files": {"errors"},
    "options": {"errors", "files"},
    "probabilities": set(),
    "progress": {"errors"},
    "quiet": {"errors"},
    "tasks": set(),
    "config": {"errors", "files", "options"},
    "layers": {"config"},
    "checkpoints": {"assets", "config", *BASE},
    "optimizers": {"options"},
    "recipes": {"checkpoints", "config", "data", "errors", "text"},
    "models": {
        "checkpoints",
        "config",
        "data",
        "layers",
        "optimizers",
        "recipes",
        "text",
        *BASE,
    },
    "text": {"assets", "checkpoints", "config", *BASE},
    "data": {"config", "evaluation", "text", *BASE},
    "runtimes": set(),
    "exported": {"checkpoints", "config", "runtimes", "text", *BASE},
    "pipelines": {"evaluation", "exported", "models", "text", "checkpoints", *BASE},
    "evaluation": {*BASE},
    "training": {
        "assets",
        "checkpoints",
        "config",
        "data",
        "evaluation",
        "exported",
        "layers",
        "models",
        "optimizers",
        "recipes",
        "text",
        *BASE,
    },
}
# The same for the folders of albert_tf.data.
DATA_ALLOWED = {
    "corpus": set(),
    "pretraining": {"corpus"},
    "jobs": {"corpus", "pretraining"},
}
# Where an import inside a function goes against the arrows: `AlbertConfig.from_pretrained`.
AGAINST = {"config": {"checkpoints"}}
TENSORFLOW_FREE = (
    "config",
    "layers",
    "models",
    "checkpoints",
    "errors",
    "files",
    "optimizers",
    "recipes",
    "tasks",
)


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
    path = ROOT / part.replace(".", "/")
    return (
        [path.with_suffix(".py")]
        if path.with_suffix(".py").exists()
        else sorted(path.rglob("*.py"))
    )


@pytest.mark.parametrize("part", ALLOWED)
def test_dependencies_point_one_way(part):
    paths = sources(f"albert_tf.{part}")
    assert paths, f"{part} has no source"
    for path in paths:
        late = {name.split(".")[1] for name in imports(path) if name.startswith("albert_tf.")}
        assert late <= ALLOWED[part] | {part} | AGAINST.get(part, set()), path
        first = {name.split(".")[1] for name in imports(path, True) if "albert_tf." in name}
        assert first <= ALLOWED[part] | {part}, path


@pytest.mark.parametrize("part", DATA_ALLOWED)
def test_dependencies_within_data_point_one_way(part):
    for path in sources(f"albert_tf.data.{part}"):
        names = {name for name in imports(path) if name.startswith("albert_tf.data.")}
        assert {name.split(".")[2] for name in names} <= DATA_ALLOWED[part] | {part}, path


def test_making_examples_needs_no_packages_of_models():
    """TensorFlow takes a gigabyte with two workers, which a job needs for itself."""
    code = (
        "import sys, albert_tf.data.jobs.run, albert_tf.data.jobs.local, "
        "albert_tf.commands.build_data, albert_tf.commands.build_vocab; "
        "absent = {'keras', 'tensorflow', 'torch', 'ml_dtypes', 'safetensors'}; "
        "assert not absent & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("part", TENSORFLOW_FREE)
def test_importing_what_runs_on_every_backend_needs_no_tensorflow(part):
    for path in sources(f"albert_tf.{part}"):
        names = {name.split(".")[0] for name in imports(path, at_import_time=True)}
        own = {"tensorflow"} if path.name == "steps_tensorflow.py" else set()
        assert names & {"tensorflow", "tensorflow_text"} == own, path


def test_counting_needs_no_keras():
    code = (
        "import sys, albert_tf.cli; assert albert_tf.cli.main(['sizes', '--model', 'small']) == 0; "
        "assert not {'keras', 'tensorflow'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_nothing_imports_the_command_line():
    for path in [*(ROOT / "albert_tf").rglob("*.py"), *(ROOT / "export").rglob("*.py")]:
        if path.name != "__main__.py" and "commands" not in path.parts:
            assert not {name for name in imports(path) if name.startswith("albert_tf.cli")}, path


def test_import_alone_is_light():
    code = (
        "import sys, albert_tf.cli, albert_tf.pipelines; "
        "assert not {'keras', 'tensorflow', 'scipy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_facade_names_exist():
    import albert_tf

    for name in albert_tf.__all__:
        assert getattr(albert_tf, name)
    assert albert_tf.TFAlbertForMaskedLM is albert_tf.AlbertForMaskedLM
    assert albert_tf.TFAutoModelForMaskedLM is albert_tf.AlbertForMaskedLM
    assert albert_tf.AutoTokenizer is albert_tf.AlbertTokenizerFast is albert_tf.AlbertTokenizer
    with pytest.raises(AttributeError, match="no attribute 'AlbertForPoetry'"):
        _ = albert_tf.AlbertForPoetry


def test_the_drawing_of_the_arrows():
    """Matches the arrows of docs/pictures/architecture.dot and the imports, in both directions."""
    graph = (ROOT / "docs" / "pictures" / "architecture.dot").read_text("utf-8")
    arrows = {}
    for start, end in re.findall(r"^  (\w+) -> (\w+)$", graph, re.MULTILINE):
        arrows.setdefault(start, set()).add(end)

    def reached(part):
        further = arrows.get(part, set())
        return further.union(*map(reached, further))

    drawn = set(arrows).union(*arrows.values())
    for part in drawn - {"assets"}:
        home = "export/albert_tf_export" if part == "albert_tf_export" else f"albert_tf.{part}"
        names = {name for path in sources(home) for name in imports(path)}
        found = {name.removeprefix("albert_tf.").split(".")[0] for name in names} - {part}
        found -= AGAINST.get(part, set())
        assert arrows.get(part, set()) <= found, part
        assert found & drawn <= reached(part), part
