"""Exports are scored on labelled examples, beside Keras."""

import json

import numpy as np
import pytest
from albert_tf_export import Gate, ParityError, export_tflite, gate, parity
from albert_tf_export.tflite import REPORT, beside

from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.rows import Rows

ROWS = [
    ("A quiet delight from start to finish.", "good"),
    ("noisy mess " * 40, "bad"),
    ("Crème brûlée, 12 euros; NEVER closed!", "naïve"),
    ("slow", "good"),
    ("a boat", "bad"),
]


@pytest.fixture(scope="module")
def mails(tmp_path_factory):
    """Returns the options of a TSV file of texts and labels."""
    path = tmp_path_factory.mktemp("mails") / "dev.tsv"
    lines = [f"{text}\t{label}\n" for text, label in [("text", "label"), *ROWS]]
    path.write_text("".join(lines), encoding="utf-8")
    return LabelledData(task="classify", data=path)


def test_scores_and_costs_are_reported(mails, checked, classifier, tokenizer):
    report = checked(export_tflite, classifier, lengths=(8, 16), max_length=None, gate=Gate(mails))
    texts = [text for text, _ in ROWS]
    features = tokenizer(texts, padding=True, truncation=True, max_length=16, return_tensors="np")
    best = np.argmax(classifier(dict(features))["logits"], axis=-1)
    labels = [classifier.config.labels[each] for each in best]
    accuracy = np.mean([one == other for one, (_, other) in zip(labels, ROWS, strict=True)])
    scores = report.scores
    assert (scores.metric, scores.examples, scores.agreement) == ("accuracy", 5, 1)
    assert scores.keras == scores.exported == pytest.approx(accuracy)
    assert f"accuracy {accuracy:.4f} of 5 examples, Keras {accuracy:.4f}" in str(report)
    written = json.loads(beside(report.path, REPORT).read_text())
    assert (written["size"], written["sha256"]) == (report.size, report.sha256)
    assert written["scores"] == scores._asdict()
    assert written["signatures"].keys() == {"ids_8", "ids_16", "text"}
    assert all(each["milliseconds"] > 0 for each in written["signatures"].values())
    assert "tensorflow" in written["packages"]


@pytest.mark.slow
def test_a_file_that_lost_too_much_is_removed(mails, classifier, tokenizer, tmp_path, monkeypatch):
    """Answers the wrong class for every row."""

    def run(runner, path, samples):
        rows = samples["ids"].inputs
        logits = np.array([0, 0, 1], "float32")  # Only two of five are good.
        return {"ids": parity.Run([{"logits": logits}] * len(rows), 7.0, 20.0)}

    monkeypatch.setattr(parity, "run", run)
    monkeypatch.setattr(gate, "predictions", lambda task, examples, *_: np.eye(3)[[2, 0, 1, 2, 0]])
    options = {"gate": Gate(mails, 0.1), "check": False}
    message = "may lose 0.1 of Keras' accuracy. Received: accuracy 0.4000 of 5 examples, Keras 1.0"
    with pytest.raises(ParityError, match=message):
        export_tflite(classifier, tokenizer, tmp_path / "a.tflite", **options)
    assert not list(tmp_path.iterdir())
    options["gate"] = Gate(mails, 0.6)
    report = export_tflite(classifier, tokenizer, tmp_path / "a.tflite", **options)
    assert report.scores.agreement == 0.4


def test_rows_of_choices_lose_their_padding():
    ids = [[[2, 9, 8, 3], [2, 7, 3, 0]], [[2, 3], [2, 3]]]
    masks = [[[1, 1, 1, 1], [1, 1, 1, 0]], [[1, 1], [1, 1]]]
    arrays = {"input_ids": ids, "token_type_ids": masks, "attention_mask": masks}
    rows = gate._inputs(Rows(arrays, {}, 0))
    assert rows[0]["input_ids"] == [[2, 9, 8, 3], [2, 7, 3]]
    assert rows[0]["token_type_ids"] == [[1, 1, 1, 1], [1, 1, 1]]
    assert rows[1]["input_ids"] == [[2, 3], [2, 3]]
    del arrays["attention_mask"]
    rows = gate._inputs(Rows({name: [[2, 3]] for name in arrays}, {}, 0))
    assert rows == [{"input_ids": [2, 3], "token_type_ids": [2, 3]}]
