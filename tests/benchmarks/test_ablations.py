"""The paper's comparisons at small scale: models, runs, tables, and from text to a table."""

import dataclasses
import json
import types

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from benchmarks.ablations import runs
from benchmarks.ablations.__main__ import main
from benchmarks.ablations.comparisons import SMALL
from benchmarks.ablations.runs import table
from tests.conftest import SENTENCES

TASKS = ("none", "nsp", "sop")
TEXT = ["--input", "a.txt", "--eval-input", "b.txt", "--vocab", "spiece.model"]


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Returns settings that name folders of records, and fakes their tokenizer."""
    ids = {"pad_token_id": 4, "cls_token_id": 6, "sep_token_id": 8}
    tokenizer = types.SimpleNamespace(vocab_size=211, **ids)
    stand_in = types.SimpleNamespace(from_pretrained=lambda folder: tokenizer)
    monkeypatch.setattr(runs, "AlbertTokenizer", stand_in)
    return runs.Settings(
        tmp_path / "out",
        {task: f"learned-{task}" for task in TASKS},
        {task: f"held-out-{task}" for task in TASKS},
        steps=50,
        batch_size=6,
        learning_rate=0.02,
        seed=9,
    )


class Trainer:
    """Records its calls and writes a report as `pretrain` does."""

    def __init__(self):
        self.asked = []

    def __call__(self, options):
        self.asked.append(options)
        report = {"parameters": 7, "tokens": 20, "seconds": 4.0, "evaluation": []}
        options.output.mkdir(parents=True)
        (options.output / "report.json").write_text(json.dumps(report))
        return report


class Scorer:
    """Records its calls. Call number `interrupted_at` fails."""

    def __init__(self, interrupted_at=None):
        self.asked, self.interrupted_at = [], interrupted_at

    def __call__(self, model, data):
        if len(self.asked) == self.interrupted_at:
            raise KeyboardInterrupt
        self.asked.append((model.name, data))
        return {"masked_lm_accuracy": 0.25}


def test_models_differ_in_their_configuration_only(settings):
    train = Trainer()
    runs.compare("depth", settings, train, Scorer())
    configs = [AlbertConfig.from_json_file(asked.size) for asked in train.asked]
    assert [config.num_hidden_layers for config in configs] == [1, 3, 6, 12]
    for config in configs:
        ids = (config.pad_token_id, config.bos_token_id, config.eos_token_id)
        assert (config.vocab_size, ids) == (211, (4, 6, 8))
    (asked,) = {
        dataclasses.replace(asked, size="tiny", output=settings.output) for asked in train.asked
    }
    found = (*asked.data, asked.steps, asked.warmup_steps, asked.batch_size, asked.seed)
    assert found == ("learned-sop", 50, 5, 6, 9)
    assert (asked.learning_rate, asked.eval_data) == (0.02, None)


def test_each_pair_task_learns_from_its_own_records_and_is_scored_on_all(settings):
    train, score = Trainer(), Scorer()
    results = runs.compare("pair-task", settings, train, score)
    assert [asked.data for asked in train.asked] == [(f"learned-{task}",) for task in TASKS]
    assert score.asked == [(row, f"held-out-{task}") for row in TASKS for task in TASKS]
    assert [result["name"] for result in results] == list(TASKS)
    assert results[1]["scores"] == {task: {"masked_lm_accuracy": 0.25} for task in TASKS}
    assert results[1]["report"]["parameters"] == 7


def test_a_course_is_scored_ten_times_during_the_run(settings):
    train, score = Trainer(), Scorer()
    runs.compare("dropout", settings, train, score)
    found = [(asked.eval_data, asked.eval_steps) for asked in train.asked]
    assert found == [("held-out-sop", 5)] * 2
    assert score.asked == []


def test_an_interrupted_comparison_resumes(settings):
    """Doesn't train or score finished models again, but scores the trained one."""
    with pytest.raises(KeyboardInterrupt):
        runs.compare("depth", settings, Trainer(), Scorer(interrupted_at=2))
    train, score = Trainer(), Scorer()
    results = runs.compare("depth", settings, train, score)
    assert [asked.output.name for asked in train.asked] == ["L12"]
    assert [name for name, _ in score.asked] == ["L6", "L12"]
    assert [result["name"] for result in results] == ["L1", "L3", "L6", "L12"]
    assert runs.compare("depth", settings, None, None) == results
    other = dataclasses.replace(settings, steps=51, seed=10)
    with pytest.raises(UserError, match="seed was 9, is 10; steps was 50, is 51"):
        runs.compare("depth", other, None, None)


def result(name, seconds, evaluation=(), **accuracies):
    """Returns a result with the accuracy of masked LM, and of pairs for each pair task."""
    scores = {
        task: {
            "masked_lm_accuracy": masked_lm,
            "sentence_order_accuracy": pairs,
            "masked_lm_loss": 1 + masked_lm,
        }
        for task, (masked_lm, pairs) in accuracies.items()
    }
    report = {"parameters": 12345, "tokens": 90, "seconds": seconds, "evaluation": evaluation}
    return {"name": name, "report": report, "scores": scores}


def test_a_table_of_scores():
    """Compares masked LM on pairs in text order, and speed with the first row."""
    rows = [
        result("none", 2.0, none=(0.25, 0.0), nsp=(0.5, 0.5), sop=(0.125, 0.625)),
        result("nsp", 3.0, none=(0.375, 0.0), nsp=(0.25, 0.75), sop=(0.5, 0.5)),
    ]
    assert table("pair-task", rows).splitlines() == [
        "|      | parameters | masked LM |   NSP |   SOP |  loss | speed |",
        "| ---- | ---------: | --------: | ----: | ----: | ----: | ----: |",
        "| none |     12,345 |     25.0% | 50.0% | 62.5% | 1.250 | 1.00x |",
        "| nsp  |     12,345 |     37.5% | 75.0% | 50.0% | 1.375 | 0.67x |",
    ]


def test_a_table_of_a_course():
    points = [{"step": 500, "masked_lm_accuracy": 0.1}, {"step": 1000, "masked_lm_accuracy": 0.2}]
    rows = [result("dropout-0.1", 1.0, points), result("dropout-0.0", 1.0, points[::-1])]
    assert table("dropout", rows).splitlines() == [
        "| masked LM accuracy at step |   500 | 1,000 |",
        "| -------------------------- | ----: | ----: |",
        "| dropout-0.1                | 10.0% | 20.0% |",
        "| dropout-0.0                | 20.0% | 10.0% |",
    ]


RECORDS = ["--data", "a", "--eval-data", "b"]


@pytest.mark.parametrize(
    ("given", "received"),
    [
        (["depth"], "Received: none of them"),
        (["depth", *TEXT[:4]], "Received: --input, --eval-input."),
        (["depth", *TEXT, *RECORDS], "Received: --data, --eval-data, --input, --eval-input, --voc"),
        (["pair-task", *RECORDS], "records of several kinds. Received: --data, --eval-data."),
    ],
)
def test_options_for_records_and_for_text(given, received, capsys):
    assert main([*given, "--output", "out"]) == 2
    assert received in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.tensorflow
def test_from_text_to_a_table(tmp_path, tiny_vocabulary, capsys, monkeypatch):
    monkeypatch.setitem(SMALL, "num_hidden_layers", 1)  # saves time
    for name, first in (("a.txt", 0), ("b.txt", 3)):
        texts = (" ".join(SENTENCES[first : first + 1 + number % 5]) for number in range(40))
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
