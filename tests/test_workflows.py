"""The workflows are valid YAML, call targets that exist, and test what the package claims."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MATRIX = "${{ matrix.target }}"


def jobs(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


def targets(job):
    """Yields the targets that a job makes, each value of a matrix."""
    matrix = job.get("strategy", {}).get("matrix", {"target": [], "include": []})
    for step in job["steps"]:
        for target in re.findall(r"make (\$\{\{.*?\}\}|[\w-]+)", step.get("run", "")):
            if target == MATRIX:
                yield from matrix["target"] + [each["target"] for each in matrix["include"]]
            else:
                yield target


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_targets_exist(path):
    known = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    made = {target for job in jobs(path).values() for target in targets(job)}
    assert made
    assert made <= set(known), made - set(known)


def test_every_python_of_the_package_is_tested():
    matrix = jobs(ROOT / ".github" / "workflows" / "ci.yml")["test"]["strategy"]["matrix"]
    tested = set(matrix["python"]) | {each["python"] for each in matrix["include"]}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert tested == set(re.findall(r"Python :: (3\.\d+)", project))
