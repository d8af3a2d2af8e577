"""Invalid options and files: one line and status 2."""

import json
import shutil
from pathlib import Path

import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from albert_tf import cli
from albert_tf.assets import reviews
from tests.training.test_finetune import ask_to_stop, at_step

pytestmark = pytest.mark.usefixtures("quick_runs")


@pytest.fixture(scope="module", autouse=True)
def without_graphs():
    """Runs TensorFlow's functions eagerly: two steps take a third of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def finetune(tmp_path, run):
    """Returns a function that fine-tunes on the bundled reviews for two steps."""

    def main(*options):
        arguments = ["finetune", "--task", "classify", "--data", reviews(), "--model", "tiny"]
        arguments += ["--text-column", "sentence", "--steps", 2]
        arguments += [] if {"--model", "--vocab"} & set(options) else ["--vocab-size", 300]
        arguments += ["--batch-size", 4, "--max-length", 16, "--output", tmp_path / "model"]
        return run(*arguments, *options)

    return main


@pytest.fixture
def model(classifier, tmp_path):
    """Returns a copy of the classifier's directory, which a test may change."""
    return Path(shutil.copytree(classifier, tmp_path / "given"))


def data(folder, train, dev, suffix=".tsv"):
    folder.mkdir(exist_ok=True)
    (folder / f"train{suffix}").write_text("text\tlabel\n" + train)
    (folder / f"dev{suffix}").write_text("text\tlabel\n" + dev)
    return folder


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--learning-rate", "nan"),
        ("--vocab-size", 3),
        ("--max-length", 600),
        ("--dev-fraction", 1.5),
    ],
)
def test_values_out_of_range(finetune, tmp_path, option, value):
    options = ["--data", reviews() / "train.tsv"] if option == "--dev-fraction" else []
    status, _, errors = finetune(option, value, *options)
    assert status == 2
    assert errors.startswith("albert-tf: error: ")
    assert str(value) in errors
    assert not (tmp_path / "model" / "model.safetensors").exists()


def test_a_finished_output(finetune, tmp_path):
    assert finetune()[0] == 0
    before = load_file(tmp_path / "model" / "model.safetensors")["classifier.weight"]
    status, _, errors = finetune("--seed", 7)
    assert status == 2
    assert "--force" in errors
    assert finetune("--seed", 7, "--force")[0] == 0
    after = load_file(tmp_path / "model" / "model.safetensors")["classifier.weight"]
    assert (after != before).all()


def test_a_failed_run_leaves_nothing_for_the_next(finetune, tmp_path):
    train = (reviews() / "train.tsv").read_text().split("\n", 1)[1]
    folder = data(tmp_path / "data", train, "so so\tneutral\n")
    options = ["--data", folder, "--text-column", "text"]
    assert finetune(*options, "--vocab-size", 300)[0] == 2
    data(folder, train, "so so\tpositive\n")
    assert finetune(*options, "--vocab-size", 500)[0] == 0
    assert json.loads((tmp_path / "model" / "config.json").read_text())["vocab_size"] > 400


def test_numbers_as_labels_keep_their_order(finetune, tmp_path):
    rows = "".join(f"word {number}\t{number % 12}\n" for number in range(48))
    folder = data(tmp_path / "data", rows, rows)
    assert finetune("--data", folder, "--text-column", "text")[0] == 0
    labels = json.loads((tmp_path / "model" / "config.json").read_text())["id2label"]
    assert labels == {str(number): str(number) for number in range(12)}


def test_a_file_of_scores_is_split(finetune, tmp_path):
    rows = "".join(f"word {number},{number // 2 / 10}\n" for number in range(40))
    (tmp_path / "scores.csv").write_text("text,label\n" + rows)
    options = ["--data", tmp_path / "scores.csv", "--text-column", "text", "--regression"]
    assert finetune(*options)[0] == 0


def test_a_model_of_another_task_gets_a_new_classifier(model, finetune, tmp_path):
    rows = "a b\tx\nc d\ty\ne f\tz\n" * 4
    folder = data(tmp_path / "data", rows, rows)
    options = ["--data", folder, "--text-column", "text", "--model", model]
    assert finetune(*options, "--output", tmp_path / "other")[0] == 0


def test_the_default_length_fits_the_model(model, tmp_path, capsys):
    folder = tmp_path / "sst2"
    folder.mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).write_text("sentence\tlabel\n" + "a delight\t1\ndull\t0\n" * 4)
    arguments = ["finetune", "--task", "sst2", "--data", folder, "--model", model, "--steps", "1"]
    status = cli.main([*map(str, arguments), "--output", str(tmp_path / "other")])
    assert status == 0, capsys.readouterr().err


def test_what_a_run_understood(model, finetune, tmp_path, caplog):
    """One class has nearly all examples, and another one occurs once."""
    rows = "a delight\tyes\n" * 40 + "dull\tno\n" * 2
    folder = data(tmp_path / "data", rows + "odd\tYes\n", rows)
    options = ["--data", folder, "--text-column", "text", "--output", tmp_path / "other"]
    status, output, errors = finetune(*options, "--baseline")
    assert status == 0
    for part in ("43 train, 42 dev", "3: yes 40, no 2, Yes 1", "'yes' = 'Yes'", "40 rows of train"):
        assert part in errors
    assert "The classes are unbalanced: give --class-weights" in caplog.text
    assert "TF-IDF with logistic regression: accuracy 1.0000" in output
    report = json.loads((tmp_path / "other" / "report.json").read_text())
    assert report["data"]["labels"] == {"yes": 40, "no": 2, "Yes": 1}


def test_an_interruption(finetune, tmp_path, ctrl_c_enabled):
    with at_step(1, ask_to_stop):
        status, output, errors = finetune()
    assert status == 130 and "The same command resumes there." in output, errors
    assert not (tmp_path / "model" / "model.safetensors").exists()
    assert finetune()[0] == 0
