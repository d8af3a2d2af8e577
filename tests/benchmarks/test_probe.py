"""Linear classifiers on frozen vectors."""

import re
import sys

import numpy as np

from benchmarks import probe, search


def test_each_model_has_a_row(tmp_path, monkeypatch, capsys):
    """The third direction of the known vectors tells the classes apart."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    vectors = rng.normal(size=(200, 8))
    vectors[:, 2] += 6 * labels
    of_text = {f"text {number}": vector for number, vector in enumerate(vectors)}
    rows = [f"{text}\t{label}" for text, label in zip(of_text, labels, strict=True)]
    for name, part in {"train": rows[:100], "dev": rows[100:]}.items():
        (tmp_path / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *part, ""]), "utf-8")
    makes = {
        "known": lambda texts: np.array([of_text[text] for text in texts]),
        "none": lambda texts: np.zeros((len(texts), 3)),
    }
    monkeypatch.setattr(search, "encoders", lambda options: makes)
    monkeypatch.setattr(probe, "PER_CLASS", (2, 32))
    monkeypatch.setattr(sys, "argv", ["probe", "--data", str(tmp_path)])
    probe.main()
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head == "| vectors | 2 per class | 32 per class | all 100 |"
    scores = {name: cells for name, *cells in (row.strip("| ").split(" | ") for row in rows)}
    assert list(scores) == ["TF-IDF", "known", "none"]
    two, many = (list(map(float, re.findall(r"[\d.]+", cell))) for cell in scores["known"][:2])
    assert two[1] < two[0] < many[0] <= many[2] and many[1] > 0.95
    assert float(scores["known"][2]) > 0.98 and float(scores["none"][2]) < 0.65
