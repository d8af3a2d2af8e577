"""Fine-tuning on SQuAD, from files to answers."""

import json

import pytest

from albert_tf.models import AlbertForQuestionAnswering
from albert_tf.training.evaluate import evaluate
from albert_tf.training.finetune import finetune
from tests.training.test_finetune import options as options_of

PLACES = ("harbour", "library", "garden", "station")
THINGS = ("cat", "dog", "book", "lamp")


def write(path, impossible, count=None):
    """Writes a question for each thing and place, in an article of its own; the first `count`."""
    articles = []
    for thing in THINGS:
        for place in PLACES:
            context = f"The {thing} is in the old {place}. " + "Nobody is at home. " * 3
            gold = {"text": place, "answer_start": context.index(place)}
            answer = {"answers": [gold], "is_impossible": False}
            qas = [{"id": f"{thing} {place}", "question": f"Where is the {thing}?", **answer}]
            if impossible:
                none = {"question": "Who is there?", "answers": [], "is_impossible": True}
                qas.append({"id": f"who {thing} {place}", **none})
            articles.append({"paragraphs": [{"context": context, "qas": qas}]})
    path.write_text(json.dumps({"data": articles[:count]}))
    return path


def options(data, output, **others):
    given = {"task": "squad", "batch_size": 16, "vocab_size": 100, "max_length": 24}
    given |= {"dropout": 0.1, "learning_rate": 3e-3, "dev_fraction": 0.25}
    return options_of(data, output, **given, **others)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["transformers", "original"])
def test_squad_2_from_files_to_answers(tmp_path, head):
    """Evaluates to the scores of the run."""
    data, output = write(tmp_path / "all.json", impossible=True), tmp_path / "out"
    report = finetune(options(data, output, head=head))
    assert report["examples"] == {"train": 24, "dev": 8}
    best = report["best"]
    assert best["f1"] == best["best_f1"] >= 50  # the threshold is the one that dev chose
    assert {"exact_match", "has_answer_f1", "no_answer_f1"} <= best.keys()

    model = AlbertForQuestionAnswering.from_pretrained(output)
    assert model.config.answerability == (head == "original")
    assert model.config.thresholds == (best["best_f1_threshold"],)
    found = evaluate(task="squad", data=data, model=str(output), predictions=tmp_path / "files")
    texts, odds = (
        json.loads((tmp_path / "files" / f"{name}.json").read_text())
        for name in ("predictions", "null_odds")
    )
    assert found["examples"] == len(texts) == len(odds) == 32
    assert all(
        (text == "") == (odds[name] > model.config.thresholds[0]) for name, text in texts.items()
    )


@pytest.mark.usefixtures("without_graphs", "quick_runs")
def test_squad_1(tmp_path):
    data = write(tmp_path / "all.json", impossible=False)
    report = finetune(options(data, tmp_path / "out", steps=2))
    assert report["best"].keys() >= {"f1", "exact_match"}
    assert not [name for name in report["best"] if name.startswith(("best_f1", "no_answer"))]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert "thresholds" not in config
