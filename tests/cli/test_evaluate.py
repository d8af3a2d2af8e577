import json

import pytest

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_evaluate(run, ask, classifier, tmp_path, monkeypatch):
    (tmp_path / "dev.csv").write_text("text,label\nA delight.,good\nDull.,bad\nNoisy.,bad\n")
    arguments = ("evaluate", "--model", classifier, "--task", "classify", "--data")
    scores = json.loads(run(*arguments, tmp_path, "--json")[1])
    assert scores["examples"] == 3
    _, predicted, _ = ask("predict", "A delight.", "Dull.", "Noisy.")
    labels = [line.split("\t")[0] for line in predicted.splitlines()]
    right = sum(map(str.__eq__, labels, ("good", "bad", "bad")))
    assert scores["accuracy"] == pytest.approx(right / 3)
    monkeypatch.setattr("albert_tf.progress.SECONDS_A_LINE", 0.0)
    _, output, errors = run(*arguments, tmp_path / "dev.csv")
    assert "predicting: 100% 3/3 [" in errors
    assert f"accuracy  {right / 3:.4f}\n" in output and "examples       3\n\n" in output
    assert list(scores["classes"]) == ["bad", "good", "macro avg", "weighted avg"]
    assert [line.split()[-1] for line in output.splitlines()[-5:]] == ["support", *"2133"]
    (tmp_path / "dev.csv").write_text("text,label\nA delight.,fine\n")
    status, _, errors = run(*arguments, tmp_path)
    assert (status, "must be one of bad, good. Received: 'fine'" in errors) == (2, True)


def test_predictions_of_test_files(run, ask, classifier, tmp_path):
    """Writes a file next to others, and predicts as for texts without labels."""
    texts = ["A quiet delight.", "Dull.", "Noisy."]
    (tmp_path / "test.csv").write_text("text\n" + "\n".join(texts) + "\n")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "CoLA.tsv").touch()
    arguments = ("evaluate", "--model", classifier, "--task", "classify", "--data", tmp_path)
    status, output, _ = run(*arguments, "--submission", folder)
    assert (status, output) == (0, f"{folder / 'predictions.tsv'}\n")
    assert {path.name for path in folder.iterdir()} == {"CoLA.tsv", "predictions.tsv"}
    _, alone, _ = ask("predict", *texts)
    labels = [line.split("\t")[0] for line in alone.splitlines()]
    rows = [f"{index}\t{label}" for index, label in enumerate(labels)]
    assert (folder / "predictions.tsv").read_text().splitlines() == ["index\tprediction", *rows]


@pytest.mark.parametrize("option", ["--report", "--submission"])
def test_texts_that_belong_together(run, model_folder, tmp_path, option):
    """One task reads the examples, and another task scores or writes them."""
    rows = ["anchor,positive,negative", "A film.,A movie.,Soup.", "A meal.,Soup.,A movie."]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    data = ("--task", "similarity", "--data", tmp_path / "d.csv", option, tmp_path / "out")
    status, output, errors = run("evaluate", "--model", model_folder("embed"), *data)
    assert (status, "albert-tf: error" in errors) == (0, False)
    assert ("accuracy" in output) == (option == "--report")
    assert any((tmp_path / "out").iterdir())


def test_predictions_name_the_rows_of_the_file(run, classifier, tmp_path, caplog):
    rows = ['{"text": "A film.", "label": "good"}', "{", '{"text": "A", "label": "bad"}']
    (tmp_path / "d.jsonl").write_text("\n".join(rows))
    data = ("--task", "classify", "--data", tmp_path / "d.jsonl", "--skip-bad-rows")
    status, *_ = run("evaluate", "--model", classifier, *data, "--predictions", tmp_path)
    assert (status, "skipped 1 bad rows" in caplog.text) == (0, True)
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["index", "0", "2"]
