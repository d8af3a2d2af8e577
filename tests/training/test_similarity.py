"""Fine-tuning of sentence vectors, from files to a folder of sentence-transformers."""

import json
import random

import numpy as np
import pytest
from albert_tf_export import export_tflite

from albert_tf import AlbertModel, AlbertTokenizer, evaluate
from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.pipelines import pipeline
from albert_tf.training.finetune import finetune
from tests.training.test_finetune import Crash, at_step, crash, options

pytestmark = pytest.mark.usefixtures("quick_runs")
THINGS = ("film", "room", "meal", "staff", "garden", "ticket")
WORDS = ("warm", "funny", "clever", "dull", "noisy", "broken", "rude", "cold")
FILES = {"1_Pooling", "modules.json", "sentence_bert_config.json"}
FILES |= {"config_sentence_transformers.json"}


@pytest.fixture(scope="module", params=["scores", pytest.param("pairs", marks=pytest.mark.slow)])
def data(request, tmp_path_factory):
    """Texts about the same thing have a high score, or belong together."""
    folder, generator = tmp_path_factory.mktemp(request.param) / "data", random.Random(2)
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


def given(data, output, **others):
    return options(data, output, task="similarity", dropout=0.1, save_steps=2, **others)


@pytest.mark.slow
def test_from_files_to_vectors(data, tmp_path):
    """A run that crashed and was resumed ends as an uninterrupted one."""
    report = finetune(given(data, tmp_path / "out", micro_batches=2))
    metrics = ["spearman", "pearson"] if "scores" in str(data) else ["accuracy", "mrr"]
    assert report["metrics"] == metrics
    assert report["history"][-1]["loss"] < report["history"][0]["loss"]
    with pytest.raises(Crash), at_step(7, crash):
        finetune(given(data, tmp_path / "resumed", micro_batches=2))
    resumed = finetune(given(data, tmp_path / "resumed", micro_batches=2))
    assert resumed["history"] == report["history"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("out", "resumed")]
    assert weights[0] == weights[1]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= FILES and "checkpoints" not in names
    assert "AlbertModel.from_pretrained" in (tmp_path / "out" / "README.md").read_text()
    embedding = sentence_transformers.read(tmp_path / "out")
    assert embedding == SentenceEmbedding("mean", normalize=True, max_length=16)
    vector = pipeline("feature-extraction", tmp_path / "out")("The film was warm.")
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    scores = evaluate(model=tmp_path / "out", task="similarity", data=data)
    assert scores["examples"] == 12
    for name in metrics:
        assert scores[name] == pytest.approx(report["best"][name], abs=1e-5)


@pytest.mark.slow
def test_an_exported_encoder_has_the_same_scores(data, tmp_path):
    finetune(given(data, tmp_path / "out", epochs=1))
    exported = tmp_path / "out.tflite"
    model = AlbertModel.from_pretrained(tmp_path / "out")
    tokenizer = AlbertTokenizer.from_pretrained(tmp_path / "out")
    export_tflite(model, tokenizer, exported, ids_only=True, lengths=(16,))
    scores = [
        evaluate(model=model, task="similarity", data=data)
        for model in (tmp_path / "out", exported)
    ]
    assert scores[1] == pytest.approx(scores[0], abs=1e-5)


@pytest.mark.slow
def test_another_model_in_its_place_has_no_modules(data, tmp_path):
    finetune(given(data, tmp_path / "out", epochs=1))
    lines = [json.dumps({"text": word, "label": word in WORDS[:3]}) for word in WORDS * 2]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    finetune(
        options(tmp_path / "data.jsonl", tmp_path / "out", epochs=1, force=True, dev_fraction=0.5)
    )
    assert sentence_transformers.read(tmp_path / "out") is None
