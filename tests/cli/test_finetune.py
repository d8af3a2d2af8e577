import json

import pytest

from albert_tf.cli.finetune import check
from albert_tf.recipes import TABLE_14
from albert_tf.training.finetune import _model
from albert_tf.training.options import FinetuningOptions
from tests.training.test_finetune import ask_to_stop, at_step

pytestmark = pytest.mark.usefixtures("quick_runs", "without_graphs")


@pytest.fixture
def data(tmp_path):
    """Returns a folder in which one class has nearly all examples, and another one occurs once."""
    rows = "a delight\tyes\n" * 40 + "dull\tno\n" * 2
    folder = tmp_path / "data"
    folder.mkdir()
    for name, more in (("train.tsv", "odd\tYes\n"), ("dev.tsv", "")):
        (folder / name).write_text("text\tlabel\n" + rows + more)
    return folder


@pytest.fixture
def finetune(run, data, tmp_path):
    """Returns a function that fine-tunes on this data for two steps."""

    def main(*options):
        arguments = ["finetune", "--task", "classify", "--data", data, "--model", "tiny"]
        arguments += ["--steps", 2, "--batch-size", 4, "--max-length", 16]
        return run(*arguments, "--output", tmp_path / "model", *options)

    return main


def test_a_run_that_was_interrupted(finetune, tmp_path, caplog, ctrl_c_enabled):
    """The same command resumes it, and reports what it understood and how it scored."""
    test, output = tmp_path / "test.csv", tmp_path / "model"
    test.write_text("text,label\ngood,yes\nbad,no\nfine,yes\n")
    with at_step(1, ask_to_stop):
        status, printed, errors = finetune("--baseline", "--test", test)
    assert status == 130 and "Run the same command to resume." in printed, errors
    assert not (output / "model.safetensors").exists()

    status, printed, errors = finetune("--baseline", "--test", test)
    assert status == 0, errors
    for part in ("43 train, 42 dev", "3: yes 40, no 2, Yes 1", "'yes' = 'Yes'", "40 repeated"):
        assert part in errors
    assert "--class-weights balanced" in caplog.text
    assert "TF-IDF with logistic regression: accuracy 1.0000" in printed
    assert f"On {test}:\n" in printed and "examples       3\n" in printed
    report = json.loads((output / "report.json").read_text())
    assert report["data"]["labels"] == {"yes": 40, "no": 2, "Yes": 1}
    assert (report["test"]["file"], report["test"]["in_train_or_dev"]) == ("test.csv", 0)
    assert {"accuracy", "macro_f1"} < report["test"].keys()
    assert report["test"]["classes"]["yes"]["support"] == 2
    card = (output / "README.md").read_text()
    assert "| on test | |\n" in card and "| examples | 3 |" in card


@pytest.mark.parametrize(
    ("name", "rows", "reason"),
    [
        ("test.tsv", None, "doesn't exist"),
        ("test.tsv", "so so\tneutral\n", "neutral"),
        ("dev.tsv", "so so\tneutral\n", "neutral"),
    ],
)
def test_a_run_that_fails_leaves_nothing(finetune, data, tmp_path, name, rows, reason):
    """All files are checked before training."""
    if rows is not None:
        (data / name).write_text("text\tlabel\n" + rows)
    status, _, errors = finetune("--test", data / name)
    assert (status, reason in errors) == (2, True)
    assert not (tmp_path / "model").exists()


def test_numbers_as_labels(tmp_path):
    """They keep their order as classes; as scores, each may occur less often than dev has parts."""
    rows = "".join(f"word {number},{number % 12}\n" for number in range(48))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    given = {"task": "classify", "data": tmp_path / "rows.csv", "model": "tiny", "output": "out"}
    classes = FinetuningOptions(**given).read()
    assert classes.config.labels == tuple(map(str, range(12)))
    scores = FinetuningOptions(**given, regression=True).read()
    assert scores.config.labels == ("score",)
    assert len(scores.train) + len(scores.dev) == 48


def test_a_test_file_needs_no_groups(tmp_path):
    (tmp_path / "rows.csv").write_text(
        "text,label,author\n" + "".join(f"word {n},{n % 2},{n % 9}\n" for n in range(48))
    )
    (tmp_path / "test.csv").write_text("text,label\nother,1\n")
    given = {"task": "classify", "data": tmp_path / "rows.csv", "model": "tiny", "output": "out"}
    found = FinetuningOptions(**given, test=tmp_path / "test.csv", group_column="author").read()
    assert [example.label for example in found.test] == ["1"]


def test_the_default_length_fits_the_model(classifier, tmp_path):
    """The recipe of SST-2 has 512 tokens, and the model 128 positions."""
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("sentence\tlabel\n" + "a delight\t1\ndull\t0\n" * 4)
    given = {"task": "sst2", "data": tmp_path, "model": str(classifier)}
    options = FinetuningOptions(**given, output=tmp_path / "out")
    model = _model(options, TABLE_14["sst2"], check(options))
    assert model.tokenizer.model_max_length == 128
