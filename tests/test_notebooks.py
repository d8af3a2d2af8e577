"""Every notebook is stored alike. `make docs` runs them, with the checks in tests/notebooks."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_the_first_cell_says_how_to_install():
    for notebook in NOTEBOOKS:
        assert "%pip install albert_tf-" in code(notebook)[0].splitlines()[0], notebook


def test_notebooks_are_stored_without_outputs():
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs"), f"{notebook}: clear its outputs"


def test_every_notebook_has_checks():
    checks = {path.stem: path.read_text("utf-8") for path in (ROOT / "tests/notebooks").iterdir()}
    assert checks.keys() == {notebook.stem for notebook in NOTEBOOKS}
    assert all("assert " in check for check in checks.values())
