"""Fine-tuning by other ways: devices, seeds, frozen layers, changed losses, futile runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from albert_tf.checkpoints.weight_files import read_tensors
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.training.finetune import finetune
from albert_tf.training.loop import Interrupted, Loop
from tests.training.test_finetune import ROOT, ask_to_stop, at_step, options, write

pytestmark = pytest.mark.usefixtures("one_layer")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("options") / "data")


def weights(output):
    return read_tensors(output / "model.safetensors")[0]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_two_devices_and_micro_batches_end_with_the_weights_of_one_device(data, tmp_path):
    """Fills each batch up; a resumed run ends with the same bits."""
    config = AlbertConfig.from_size(
        "tiny", vocab_size=50, num_hidden_layers=2, classifier_dropout_prob=0.0
    )
    (tmp_path / "model.json").write_text(json.dumps(config.to_dict()))
    script = Path(__file__).with_name("finetune_runs.py")
    done = subprocess.run(
        [sys.executable, script, data, tmp_path / "model.json", tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)
    reports = {
        name: json.loads((tmp_path / name / "report.json").read_text())
        for name in ("one", "two", "resumed")
    }
    for name, value in reports["one"]["history"][-1].items():
        assert reports["two"]["history"][-1][name] == pytest.approx(value, abs=1e-5)
    assert reports["resumed"]["history"] == reports["two"]["history"]
    assert (tmp_path / "resumed" / "model.safetensors").read_bytes() == (
        tmp_path / "two" / "model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_several_seeds(data, tmp_path, ctrl_c_enabled):
    """Trains each seed as alone, resumes in the second one, and keeps the best."""
    several = {"seeds": 2, "epochs": 1, "learning_rate": 3e-3, "output": tmp_path / "out"}
    alone = finetune(options(data, tmp_path / "alone", epochs=1, learning_rate=3e-3))
    stops = iter([False] * 10 + [True])

    def stop_in_the_second(loop, sums, after=Loop.after):
        if next(stops, False):
            ask_to_stop()
        after(loop, sums)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Loop, "after", stop_in_the_second)
        finetune(options(data, **several))
    first = tmp_path / "out" / "checkpoints" / "seed-12345" / "out" / "model.safetensors"
    assert first.read_bytes() == (tmp_path / "alone" / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="learning_rate"):
        finetune(options(data, **{**several, "learning_rate": 1e-3}))
    report = finetune(options(data, **several))
    runs = report["seeds"]["runs"]
    assert [run["seed"] for run in runs] == [12345, 12346]
    assert runs[0]["accuracy"] == alone["best"]["accuracy"]
    accuracies = [run["accuracy"] for run in runs]
    assert report["seeds"]["median"]["accuracy"] == np.median(accuracies)
    assert report["seeds"]["min"]["accuracy"] == min(accuracies)
    assert report["best"]["accuracy"] == report["seeds"]["max"]["accuracy"] == max(accuracies)
    assert report["settings"]["seed"] == runs[int(np.argmax(accuracies))]["seed"]
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    assert {path.name for path in (tmp_path / "out" / "logs").iterdir()} == {
        "seed-12345",
        "seed-12346",
    }
    assert "seeds: 2" in (tmp_path / "out" / "options.yaml").read_text()
    assert not (tmp_path / "out" / "checkpoints").exists()


def test_a_run_that_learns_nothing_ends_early(data, tmp_path):
    """Ends at the first epoch of the last third, and publishes the best version."""
    report = finetune(options(data, tmp_path / "out", batch_size=2, epochs=6, learning_rate=0.3))
    assert report["step"] == report["history"][-1]["step"] == 104 and len(report["history"]) == 4
    assert "The training loss is still" in report["stopped"]
    assert "lower --learning-rate" in report["stopped"]
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_model_whose_predictions_differ_may_learn_late(data, tmp_path):
    """Goes on to the end, where the loss alone says that it has learned nothing."""
    report = finetune(options(data, tmp_path / "out", batch_size=2, epochs=4, learning_rate=1e-9))
    assert report["step"] == 104 and len(report["history"]) == 4
    assert "is still 0.6" in report["stopped"]


def test_changed_losses_frozen_embeddings_and_rates_by_depth(data, tmp_path):
    """Changes the result, decides the settings, and is refused at resumption with others."""
    with at_step(5, ask_to_stop), pytest.raises(Interrupted):
        finetune(options(data, tmp_path / "out", save_steps=2, **CHANGES))
    for name, value in OTHERS.items():
        with pytest.raises(UserError, match=f"{name} was .*, is .*"):
            finetune(options(data, tmp_path / "out", save_steps=2, **{**CHANGES, name: value}))


CHANGES = {
    "freeze": "embeddings",
    "layer_decay": 0.5,
    "class_weights": ("balanced",),
    "label_smoothing": 0.1,
}
OTHERS = {"freeze": "1"}


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"freeze": "head"}, "freeze must be embeddings, or a number .* Received: head"),
        ({"freeze": "0"}, "freeze must be embeddings, or a number .* Received: 0"),
        ({"freeze": "99"}, "a number of layers from 1 to .* Received: 99"),
        ({"class_weights": ("fine=2",)}, "LABEL=WEIGHT each.*bad, good.*Received: 'fine=2'"),
        ({"class_weights": ("good=-1",)}, "Received: 'good=-1'"),
        ({"seed": 2**32 - 1, "seeds": 2}, "The last seed must be below"),
    ],
)
def test_bad_options(data, tmp_path, others, message):
    with pytest.raises(UserError, match=message):
        finetune(options(data, tmp_path / "out", **others))
