"""The paper's comparisons at small scale: models, runs, tables, and from text to a table."""

import dataclasses
import json
import re
import types

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import Interrupted, UserError
from benchmarks.ablations import runs
from benchmarks.ablations.__main__ import main
from benchmarks.ablations.comparisons import COMPARISONS, SMALL, configuration
from benchmarks.ablations.runs import table
from tests.conftest import SENTENCES

V = 1009
TASKS = ("none", "nsp", "sop")
TEXT = ["--input", "a.txt", "--eval-input", "b.txt", "--vocab", "spiece.model"]


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_models_of_a_comparison_differ(name):
    rows = COMPARISONS[name].rows
    assert len({row.name for row in rows}) == len(rows)
    assert len({(configuration(row, V), row.pair_task) for row in rows}) == len(rows)


def test_the_vocabulary_is_that_of_the_records():
    row = COMPARISONS["depth"].rows[1]
    config = configuration(row, V, pad_token_id=4, bos_token_id=6, eos_token_id=8)
    found = (config.vocab_size, config.pad_token_id, config.bos_token_id, config.eos_token_id)
    assert found == (V, 4, 6, 8)


@pytest.fixture
def settings(tmp_path, tokenizer):
    return runs.Settings(
        tmp_path / "out",
        {task: f"learned-{task}" for task in TASKS},
        {task: f"held-out-{task}" for task in TASKS},
        steps=50,
        batch_size=6,
        learning_rate=0.02,
        seed=9,
    )


@pytest.fixture
def tokenizer(monkeypatch):
    """Stands in for the tokenizer that every directory of records contains."""
    found = types.SimpleNamespace(vocab_size=211, pad_token_id=0, cls_token_id=2, sep_token_id=3)
    stand_in = types.SimpleNamespace(from_pretrained=lambda folder: found)
    monkeypatch.setattr(runs, "AlbertTokenizer", stand_in)


class Trainer:
    """Records its calls and writes a report as `pretrain` does."""

    def __init__(self, fails_at=None):
        self.asked, self.fails_at = [], fails_at

    def __call__(self, options):
        if len(self.asked) == self.fails_at:
            raise KeyboardInterrupt
        self.asked.append(options)
        report = {"parameters": 7, "tokens": 20, "seconds": 4.0, "evaluation": []}
        options.output.mkdir(parents=True)
        (options.output / "report.json").write_text(json.dumps(report))
        return report


class Scorer:
    """Records its calls."""

    def __init__(self, fails=False):
        self.asked, self.fails = [], fails

    def __call__(self, model, data):
        if self.fails:
            raise KeyboardInterrupt
        self.asked.append((model.name, data))
        return {"masked_lm_accuracy": 0.25}


def test_models_differ_in_their_configuration_only(settings):
    train = Trainer()
    runs.compare("depth", settings, train, Scorer(), announce=lambda line: None)
    configs = [AlbertConfig.from_json_file(asked.size) for asked in train.asked]
    assert [config.num_hidden_layers for config in configs] == [1, 3, 6, 12]
    assert {config.vocab_size for config in configs} == {211}
    alike = {
        dataclasses.replace(asked, size="tiny", output=settings.output) for asked in train.asked
    }
    (asked,) = alike
    found = (*asked.data, asked.steps, asked.warmup_steps, asked.batch_size, asked.seed)
    assert found == ("learned-sop", 50, 5, 6, 9)
    assert (asked.learning_rate, asked.eval_data) == (0.02, None)


def test_each_pair_task_learns_from_its_own_records_and_is_scored_on_all(settings):
    train, score = Trainer(), Scorer()
    results = runs.compare("pair-task", settings, train, score, announce=lambda line: None)
    assert [asked.data for asked in train.asked] == [(f"learned-{task}",) for task in TASKS]
    assert score.asked == [(row, f"held-out-{task}") for row in TASKS for task in TASKS]
    assert [result["name"] for result in results] == list(TASKS)
    assert results[1]["scores"] == {task: {"masked_lm_accuracy": 0.25} for task in TASKS}
    assert results[1]["report"]["parameters"] == 7


def test_a_course_is_scored_ten_times_during_the_run(settings):
    train, score = Trainer(), Scorer()
    runs.compare("dropout", settings, train, score, announce=lambda line: None)
    assert [(asked.eval_data, asked.eval_steps) for asked in train.asked] == [
        ("held-out-sop", 5)
    ] * 2
    assert score.asked == []


def test_finished_models_are_not_trained_again(settings):
    with pytest.raises(KeyboardInterrupt):
        runs.compare("depth", settings, Trainer(fails_at=2), Scorer(), announce=lambda line: None)
    train, said = Trainer(), []
    results = runs.compare("depth", settings, train, Scorer(), announce=said.append)
    assert [asked.output.name for asked in train.asked] == ["L6", "L12"]
    assert [result["name"] for result in results] == ["L1", "L3", "L6", "L12"]
    assert said[2] == "depth 3/4: L6"
    assert runs.compare("depth", settings, None, None, announce=said.append) == results


def test_trained_models_without_a_score_are_scored(settings):
    with pytest.raises(KeyboardInterrupt):
        runs.compare("depth", settings, Trainer(), Scorer(fails=True), announce=lambda line: None)
    train, score = Trainer(), Scorer()
    runs.compare("depth", settings, train, score, announce=lambda line: None)
    assert "L1" not in [asked.output.name for asked in train.asked]
    assert score.asked[0] == ("L1", "held-out-sop")


def test_other_settings_are_refused(settings):
    runs.compare("depth", settings, Trainer(), Scorer(), announce=lambda line: None)
    other = dataclasses.replace(settings, steps=51, seed=10)
    with pytest.raises(UserError, match="seed was 9, is 10; steps was 50, is 51"):
        runs.compare("depth", other, Trainer(), Scorer(), announce=lambda line: None)


def result(name, tokens, seconds, evaluation=(), **accuracies):
    """Returns a result with accuracies of masked LM and of pairs by pair task."""
    scores = {
        task: {
            "masked_lm_accuracy": masked_lm,
            "sentence_order_accuracy": pairs,
            "masked_lm_loss": 1 + masked_lm,
        }
        for task, (masked_lm, pairs) in accuracies.items()
    }
    report = {"parameters": 12345, "tokens": tokens, "seconds": seconds}
    return {"name": name, "report": {**report, "evaluation": evaluation}, "scores": scores}


def test_speed_is_relative_to_the_first_row():
    rows = [result("L1", 100, 2.0, sop=(0.25, 0.5)), result("L3", 90, 3.0, sop=(0.375, 0.625))]
    assert table("depth", rows).splitlines() == [
        "|     | parameters | masked LM |   SOP |  loss | speed |",
        "| --- | ---------: | --------: | ----: | ----: | ----: |",
        "| L1  |     12,345 |     25.0% | 50.0% | 1.250 | 1.00x |",
        "| L3  |     12,345 |     37.5% | 62.5% | 1.375 | 0.60x |",
    ]


def test_masked_lm_is_compared_on_pairs_in_the_order_of_the_text():
    row = result("nsp", 1, 1.0, none=(0.125, 0.0), nsp=(0.25, 0.75), sop=(0.375, 0.5))
    assert table("pair-task", [row]).splitlines() == [
        "|     | parameters | masked LM |   NSP |   SOP |  loss | speed |",
        "| --- | ---------: | --------: | ----: | ----: | ----: | ----: |",
        "| nsp |     12,345 |     12.5% | 75.0% | 50.0% | 1.125 | 1.00x |",
    ]


def test_a_course_has_a_column_for_each_evaluation():
    def points(*found):
        return [
            {"step": 500 * (number + 1), "masked_lm_accuracy": accuracy}
            for number, accuracy in enumerate(found)
        ]

    rows = [
        result("dropout-0.1", 1, 1.0, points(0.1, 0.2, 0.4)),
        result("dropout-0.0", 1, 1.0, points(0.2, 0.3, 0.5)),
    ]
    assert table("dropout", rows).splitlines() == [
        "| masked LM accuracy at step |   500 | 1,000 | 1,500 |",
        "| -------------------------- | ----: | ----: | ----: |",
        "| dropout-0.1                | 10.0% | 20.0% | 40.0% |",
        "| dropout-0.0                | 20.0% | 30.0% | 50.0% |",
    ]


@pytest.mark.parametrize(
    ("given", "received"),
    [
        ([], "Received: none of them"),
        (TEXT[:4], "Received: --input, --eval-input.$"),
        ([*TEXT, "--eval-data", "b"], "Received: --eval-data, --input, --eval-input, --vocab"),
    ],
)
def test_options_for_records_and_for_text_exclude_each_other(given, received, capsys):
    assert main(["depth", "--output", "out", *given]) == 2
    assert re.search(received, capsys.readouterr().err.strip())


def test_pair_tasks_need_text(capsys):
    assert main(["pair-task", "--output", "out", "--data", "a", "--eval-data", "b"]) == 2
    assert "pair-task trains on records of several kinds" in capsys.readouterr().err


def test_an_interruption_says_how_to_resume(monkeypatch, capsys):
    def interrupted(*arguments):
        raise Interrupted

    monkeypatch.setattr(runs, "compare", interrupted)
    assert main(["depth", "--output", "out", "--data", "a", "--eval-data", "b"]) == 130
    assert "The same command resumes" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.tensorflow
def test_from_text_to_a_table(tmp_path, tiny_vocabulary, capsys, monkeypatch):
    monkeypatch.setitem(SMALL, "num_hidden_layers", 1)  # saves time
    for name, first in (("a.txt", 0), ("b.txt", 3)):
        texts = (
            " ".join(SENTENCES[(first + number + word) % 8] for word in range(1 + number % 5))
            for number in range(40)
        )
        (tmp_path / name).write_text("\n\n".join(texts))
    (tmp_path / "spiece.model").write_bytes(tiny_vocabulary)
    given = [str(tmp_path / each) if "." in each else each for each in TEXT]
    command = ["pair-task", *given, "--max-seq-length", "24", "--steps", "2", "--batch-size", "3"]
    command += ["--output", str(tmp_path / "out")]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    *_, header, _, none, nsp, sop = (line.split() for line in lines if line.startswith("|"))
    assert " ".join(header) == "| | parameters | masked LM | NSP | SOP | loss | speed |"
    assert [row[1] for row in (none, nsp, sop)] == ["none", "nsp", "sop"]
    assert main(command) == 0  # skips finished models
    assert [line.split() for line in capsys.readouterr().out.splitlines() if line][-1] == sop
