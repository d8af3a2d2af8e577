import json

import pytest

from albert_tf.assets import reviews
from albert_tf.training.options import FinetuningOptions
from tests.training.test_finetune import ask_to_stop, at_step

pytestmark = pytest.mark.usefixtures("quick_runs", "without_graphs")


@pytest.fixture
def finetune(tmp_path, run):
    """Returns a function that fine-tunes on some of the bundled reviews for one step."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    for name, count in (("train.tsv", 40), ("dev.tsv", 8)):
        lines = (reviews() / name).read_text().split("\n")[: count + 1]
        (folder / name).write_text("\n".join(lines))

    def main(*options):
        arguments = ["finetune", "--task", "classify", "--data", folder, "--model", "tiny"]
        arguments += ["--text-column", "sentence", "--steps", 1]
        arguments += ["--vocab-size", 300, "--batch-size", 4, "--max-length", 16]
        return run(*arguments, "--output", tmp_path / "model", *options)

    return main


def data(folder, train, dev):
    folder.mkdir(exist_ok=True)
    (folder / "train.tsv").write_text("text\tlabel\n" + train)
    (folder / "dev.tsv").write_text("text\tlabel\n" + dev)
    return folder


def test_a_failed_run_leaves_nothing_for_the_next(finetune, tmp_path):
    train = (reviews() / "train.tsv").read_text().split("\n", 1)[1]
    folder = data(tmp_path / "data", train, "so so\tneutral\n")
    options = ["--data", folder, "--text-column", "text"]
    assert finetune(*options, "--vocab-size", 300)[0] == 2
    data(folder, train, "so so\tpositive\n")
    assert finetune(*options, "--vocab-size", 500)[0] == 0
    assert json.loads((tmp_path / "model" / "config.json").read_text())["vocab_size"] > 400


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


def test_the_default_length_fits_the_model(run, classifier, tmp_path):
    """The recipe of SST-2 has 512 tokens."""
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("sentence\tlabel\n" + "a delight\t1\ndull\t0\n" * 4)
    line = ["finetune", "--task", "sst2", "--data", tmp_path, "--model", classifier, "--steps", 1]
    status, _, errors = run(*line, "--output", tmp_path / "out")
    assert status == 0, errors
    tokenizer = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert tokenizer["model_max_length"] == 128


def test_what_a_run_understood(finetune, tmp_path, caplog):
    """One class has nearly all examples, and another one occurs once."""
    rows = "a delight\tyes\n" * 40 + "dull\tno\n" * 2
    folder = data(tmp_path / "data", rows + "odd\tYes\n", rows)
    status, output, errors = finetune("--data", folder, "--text-column", "text", "--baseline")
    assert status == 0
    for part in ("43 train, 42 dev", "3: yes 40, no 2, Yes 1", "'yes' = 'Yes'", "40 repeated"):
        assert part in errors
    assert "--class-weights balanced" in caplog.text
    assert "TF-IDF with logistic regression: accuracy 1.0000" in output
    report = json.loads((tmp_path / "model" / "report.json").read_text())
    assert report["data"]["labels"] == {"yes": 40, "no": 2, "Yes": 1}


def test_an_interruption(finetune, tmp_path, ctrl_c_enabled):
    with at_step(1, ask_to_stop):
        status, output, errors = finetune("--steps", 2)
    assert status == 130 and "Run the same command to resume." in output, errors
    assert not (tmp_path / "model" / "model.safetensors").exists()
    assert finetune("--steps", 2)[0] == 0


def test_a_test_file(finetune, tmp_path):
    """It is checked before training, and scored once, after it."""
    test = tmp_path / "test.csv"
    for content, reason in (
        (None, "doesn't exist"),
        ("sentence,label\nso so,neutral\n", "neutral"),
    ):
        if content is not None:
            test.write_text(content)
        status, _, errors = finetune("--test", test)
        assert (status, reason in errors) == (2, True)
        assert not (tmp_path / "model").exists()
    test.write_text("sentence,label\ngood,positive\nbad,negative\nfine,positive\n")
    status, output, _ = finetune("--test", test)
    assert status == 0 and f"On {test}:\n" in output and "examples       3\n" in output
    report = json.loads((tmp_path / "model" / "report.json").read_text())
    assert (report["test"]["file"], report["test"]["in_train_or_dev"]) == ("test.csv", 0)
    assert {"accuracy", "macro_f1"} < report["test"].keys()
    assert report["test"]["classes"]["positive"]["support"] == 2
    card = (tmp_path / "model" / "README.md").read_text()
    assert "| on test | |\n" in card and "| examples | 3 |" in card


def test_a_test_file_needs_no_groups(tmp_path):
    (tmp_path / "rows.csv").write_text(
        "text,label,author\n" + "".join(f"word {n},{n % 2},{n % 9}\n" for n in range(48))
    )
    (tmp_path / "test.csv").write_text("text,label\nother,1\n")
    given = {"task": "classify", "data": tmp_path / "rows.csv", "model": "tiny", "output": "out"}
    found = FinetuningOptions(**given, test=tmp_path / "test.csv", group_column="author").read()
    assert [example.label for example in found.test] == ["1"]
