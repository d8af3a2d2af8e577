"""Every model of a comparison is trained once, alike but for what is compared."""

import dataclasses
import json
import types

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.training import ablation_runs
from albert_tf.training.ablation_runs import AblationOptions, ablate

TASKS = ("none", "nsp", "sop")


@pytest.fixture
def options(tmp_path):
    return AblationOptions(
        tmp_path / "out",
        {task: f"learned-{task}" for task in TASKS},
        {task: f"held-out-{task}" for task in TASKS},
        steps=50,
        batch_size=6,
        learning_rate=0.02,
        seed=9,
    )


@pytest.fixture(autouse=True)
def tokenizer(monkeypatch):
    """That of every directory of records."""
    found = types.SimpleNamespace(vocab_size=211, pad_token_id=0, cls_token_id=2, sep_token_id=3)
    stand_in = types.SimpleNamespace(from_pretrained=lambda folder: found)
    monkeypatch.setattr(ablation_runs, "AlbertTokenizer", stand_in)


class Trainer:
    """Notes what it is asked to train, and leaves a report as `pretrain` does."""

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
    """Notes what it is asked to score."""

    def __init__(self, fails=False):
        self.asked, self.fails = [], fails

    def __call__(self, model, data):
        if self.fails:
            raise KeyboardInterrupt
        self.asked.append((model.name, data))
        return {"masked_lm_accuracy": 0.25}


def test_models_are_trained_alike_but_for_their_configuration(options):
    train = Trainer()
    ablate("depth", options, train, Scorer(), announce=lambda line: None)
    configs = [AlbertConfig.from_json_file(asked.size) for asked in train.asked]
    assert [config.num_hidden_layers for config in configs] == [1, 3, 6, 12]
    assert {config.vocab_size for config in configs} == {211}
    alike = {dataclasses.replace(asked, size="", output=options.output) for asked in train.asked}
    (asked,) = alike
    found = (asked.data, asked.steps, asked.warmup_steps, asked.batch_size, asked.seed)
    assert found == ("learned-sop", 50, 5, 6, 9)
    assert (asked.learning_rate, asked.eval_data) == (0.02, None)


def test_each_pair_task_learns_from_its_own_records_and_is_scored_on_all(options):
    train, score = Trainer(), Scorer()
    results = ablate("pair-task", options, train, score, announce=lambda line: None)
    assert [asked.data for asked in train.asked] == [f"learned-{task}" for task in TASKS]
    assert score.asked == [(row, f"held-out-{task}") for row in TASKS for task in TASKS]
    assert [result["name"] for result in results] == list(TASKS)
    assert results[1]["scores"] == {task: {"masked_lm_accuracy": 0.25} for task in TASKS}
    assert results[1]["report"]["parameters"] == 7


def test_a_course_is_scored_ten_times_during_the_run(options):
    train, score = Trainer(), Scorer()
    ablate("dropout", options, train, score, announce=lambda line: None)
    assert [(asked.eval_data, asked.eval_steps) for asked in train.asked] == [
        ("held-out-sop", 5)
    ] * 2
    assert score.asked == []


def test_what_is_finished_is_not_trained_again(options):
    with pytest.raises(KeyboardInterrupt):
        ablate("depth", options, Trainer(fails_at=2), Scorer(), announce=lambda line: None)
    train, said = Trainer(), []
    results = ablate("depth", options, train, Scorer(), announce=said.append)
    assert [asked.output.name for asked in train.asked] == ["L6", "L12"]
    assert [result["name"] for result in results] == ["L1", "L3", "L6", "L12"]
    assert said[2] == "depth 3/4: L6"
    assert ablate("depth", options, None, None, announce=said.append) == results


def test_what_is_trained_but_not_scored_is_scored(options):
    with pytest.raises(KeyboardInterrupt):
        ablate("depth", options, Trainer(), Scorer(fails=True), announce=lambda line: None)
    train, score = Trainer(), Scorer()
    ablate("depth", options, train, score, announce=lambda line: None)
    assert "L1" not in [asked.output.name for asked in train.asked]
    assert score.asked[0] == ("L1", "held-out-sop")


def test_other_settings_are_refused(options):
    ablate("depth", options, Trainer(), Scorer(), announce=lambda line: None)
    other = dataclasses.replace(options, steps=51, seed=10)
    with pytest.raises(UserError, match="steps: 50 then, 51 now; seed: 9 then, 10 now"):
        ablate("depth", other, Trainer(), Scorer(), announce=lambda line: None)


def test_comparisons_share_an_output(options):
    for name in ("depth", "width"):
        ablate(name, options, Trainer(), Scorer(), announce=lambda line: None)
    assert sorted(path.name for path in options.output.iterdir()) == ["depth", "width"]
