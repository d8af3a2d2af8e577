"""Fine-tuning of sentence vectors, from files to a folder of sentence-transformers."""

import json
import random

import numpy as np
import pytest

from albert_tf import evaluate
from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.pipelines import pipeline
from albert_tf.training.finetune import finetune
from tests.training.test_finetune import Crash, at_step, crash, options

pytestmark = [pytest.mark.usefixtures("quick_runs"), pytest.mark.slow]
THINGS = ("film", "room", "meal", "staff", "garden", "ticket")
WORDS = ("warm", "funny", "clever", "dull", "noisy", "broken", "rude", "cold")
FILES = {"1_Pooling", "modules.json", "sentence_bert_config.json"}
FILES |= {"config_sentence_transformers.json"}


@pytest.fixture(params=["scores", "pairs"])
def data(request, tmp_path):
    """Texts about the same thing have a high score, or belong together."""
    folder, generator = tmp_path / request.param, random.Random(2)
    folder.mkdir()
    for name, count in (("train", 40), ("dev", 12)):
        rows = []
        for _ in range(count):
            things = generator.choices(THINGS, k=2)
            texts = [f"The {thing} was {generator.choice(WORDS)}." for thing in things]
            if request.param == "scores":
                rows.append({"sentence1": texts[0], "sentence2": texts[1]})
                rows[-1]["score"] = 4 * (things[0] == things[1])
            else:
                end = generator.choice(WORDS)
                rows.append({"anchor": texts[0], "positive": f"A {things[0]}: {end}, {len(rows)}"})
        lines = "\n".join(map(json.dumps, rows))
        (folder / f"{name}.jsonl").write_text(lines + "\n")
    return folder


def test_from_files_to_vectors(data, tmp_path):
    """A run that crashed and was resumed ends as an uninterrupted one."""
    given = {"task": "similarity", "dropout": 0.1, "save_steps": 2, "micro_batches": 2}
    output, other = tmp_path / "whole", tmp_path / "resumed"
    report = finetune(options(data, output, **given))
    metrics = ["spearman", "pearson"] if data.name == "scores" else ["accuracy", "mrr"]
    assert report["metrics"] == metrics
    assert report["history"][-1]["loss"] < report["history"][0]["loss"]
    with pytest.raises(Crash), at_step(7, crash):
        finetune(options(data, other, **given))
    assert finetune(options(data, other, **given))["history"] == report["history"]
    weights = [(folder / "model.safetensors").read_bytes() for folder in (output, other)]
    assert weights[0] == weights[1]
    names = {path.name for path in output.iterdir()}
    assert names >= FILES and "checkpoints" not in names
    assert "AlbertModel.from_pretrained" in (output / "README.md").read_text()
    embedding = sentence_transformers.read(output)
    assert embedding == SentenceEmbedding("mean", normalize=True, max_length=16)
    vector = pipeline("feature-extraction", output)("The film was warm.")
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    scores = evaluate(model=output, task="similarity", data=data)
    assert scores["examples"] == 12
    for name in metrics:
        assert scores[name] == pytest.approx(report["best"][name], abs=1e-5)
