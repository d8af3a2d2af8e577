"""Fine-tuning of sentence vectors, from files to a folder of sentence-transformers."""

import json
import random
import shutil

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


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """Returns the report and the folder of a run."""
    output = tmp_path_factory.mktemp("finished") / "out"
    return finetune(given(data, output, micro_batches=2)), output


@pytest.mark.slow
def test_from_files_to_vectors(data, finished, tmp_path):
    """A run that crashed and was resumed ends as an uninterrupted one."""
    report, output = finished
    metrics = ["spearman", "pearson"] if "scores" in str(data) else ["accuracy", "mrr"]
    assert report["metrics"] == metrics
    assert report["history"][-1]["loss"] < report["history"][0]["loss"]
    with pytest.raises(Crash), at_step(7, crash):
        finetune(given(data, tmp_path / "resumed", micro_batches=2))
    resumed = finetune(given(data, tmp_path / "resumed", micro_batches=2))
    assert resumed["history"] == report["history"]
    folders = (output, tmp_path / "resumed")
    weights = [(folder / "model.safetensors").read_bytes() for folder in folders]
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


@pytest.mark.slow
def test_an_exported_encoder_has_the_same_scores(data, finished, tmp_path):
    report, output = finished
    exported = tmp_path / "out.tflite"
    model, tokenizer = (part.from_pretrained(output) for part in (AlbertModel, AlbertTokenizer))
    export_tflite(model, tokenizer, exported, ids_only=True, lengths=(16,))
    scores = evaluate(model=exported, task="similarity", data=data)
    for name in report["metrics"]:
        assert scores[name] == pytest.approx(report["best"][name], abs=1e-5)


@pytest.mark.slow
def test_another_model_in_its_place_has_no_modules(finished, tmp_path):
    output = shutil.copytree(finished[1], tmp_path / "out")
    lines = [json.dumps({"text": word, "label": word in WORDS[:3]}) for word in WORDS * 2]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    finetune(options(tmp_path / "data.jsonl", output, epochs=1, force=True, dev_fraction=0.5))
    assert sentence_transformers.read(output) is None
