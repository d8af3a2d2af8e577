"""Every notebook is stored alike. `make docs` runs them, with the checks in tests/notebooks."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_cells():
    """The first one says how to install the package, and none has outputs."""
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert "%pip install albert_tf-" in code[0]["source"][0], notebook
        assert not any(cell["outputs"] for cell in code), f"{notebook}: clear its outputs"


def test_every_notebook_has_checks():
    checks = {path.stem: path.read_text("utf-8") for path in (ROOT / "tests/notebooks").iterdir()}
    assert checks.keys() == {notebook.stem for notebook in NOTEBOOKS}
    assert all("assert " in check for check in checks.values())
