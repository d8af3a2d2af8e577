"""The notebooks run from top to bottom."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Checks after the last cell.
CHECKS = {
    "finetune": """
assert accuracy > 0.75, accuracy
assert Path("reviews.tflite").stat().st_size > 100_000
""",
    "inside-albert": """
assert same_kind > 0.8, same_kind
assert in_ten[0] < 0.1 and in_ten[-1] > 0.3, in_ten
assert len(plt.get_fignums()) == 6
""",
    "phone": """
assert accuracy["dynamic"] > 0.75, accuracy
assert agreement["none"] == 1 and agreement["dynamic"] > 0.9, agreement
assert sizes["dynamic"] < sizes["float16"] < sizes["none"], sizes
assert 0 < memory["dynamic"][1] < memory["none"][1], memory
assert all(len(values) == len(lengths) for values in times.values())
""",
    "pretrain": """
assert list(losses) == [25, 50, 75, 100]
assert losses[100] < losses[25] < 6, losses  # 9 is the logarithm of 8,000
assert classifier.newly_initialized == ["classifier"]
assert Path("my-model/curves.png").stat().st_size > 10_000
""",
    "question-answering": """
assert correct > 0.8, correct
assert (found["answer"], found["start"]) == ("Peter", long_text.index("Peter"))
assert best.argmax() == starts[:, 0].argmin() == 3, starts[:, 0]
answer = ask(question="Where was it?", context=text)
assert served["answer"].numpy()[0].decode() == answer["answer"]
assert served["start"].numpy()[0] == answer["start"] == text.index(answer["answer"])
""",
    "serve": """
assert words == [each["token_str"] for each in expected]
assert len(loaded.signatures) == 5
assert [answer["token_str"][0][0] for answer in answers] == [
    each[0]["token_str"] for each in albert_tf.pipeline("fill-mask", "small", top_k=1)(texts)
], answers
assert "at most 32 rows" in refusal, refusal
assert list(rates) == [1, 2, 4, 8, 16, 32]
""",
}


def code(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_every_cell_runs(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"Path": Path}
    for cell in code(notebook):
        exec(cell, names)
    exec(CHECKS[notebook.stem], names)


def test_the_first_cell_says_how_to_install():
    for notebook in NOTEBOOKS:
        assert "%pip install albert_tf-" in code(notebook)[0].splitlines()[0], notebook


def test_notebooks_are_stored_without_outputs():
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs"), f"{notebook}: clear its outputs"
