"""TensorFlow, JAX, and torch agree on outputs, training, and loops, given the same weights."""

import dataclasses
import functools
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.backends, pytest.mark.slow]
SCRIPT = Path(__file__).with_name("run_models.py")
ROOT = SCRIPT.parents[2]
OTHERS = ("jax", "torch")
B, T, C, P = 2, 7, 3, 4
TOKENS = np.array([[-100, 4, 9, -100, 1, 0, 2], [-100, 3, -100, 7, -100, -100, -100]])
POSITIONS = np.array([[1, 2, 4, 6], [1, 3, 0, 0]])
ANSWER = {"start_positions": np.array([3, 7]), "end_positions": np.array([5, 7])}
# Model, changes of the configuration, further inputs. Three have a loop before the last layer.
MODELS = {
    "model": ("AlbertModel", {"num_hidden_layers": 3}, {}),
    "pretraining": (
        "AlbertForPreTraining",
        {"num_hidden_groups": 2, "num_hidden_layers": 3},
        {"labels": TOKENS, "sentence_order_label": np.array([1, 0])},
    ),
    "masked_lm": (
        "AlbertForMaskedLM",
        {"hidden_act": "gelu"},
        {"masked_lm_positions": POSITIONS, "labels": np.take_along_axis(TOKENS, POSITIONS, axis=1)},
    ),
    "classes": (
        "AlbertForSequenceClassification",
        {"inner_group_num": 2, "num_hidden_layers": 3},
        {"labels": [2, 0]},
    ),
    "several_labels": (
        "AlbertForSequenceClassification",
        {"problem_type": "multi_label_classification", "hidden_act": "silu"},
        {"labels": [[1, 0, 1], [0, 0, 1]]},
    ),
    "score": (
        "AlbertForSequenceClassification",
        {"problem_type": "regression", "id2label": {0: "score"}},
        {"labels": [0.5, -2.0]},
    ),
    "tags": (
        "AlbertForTokenClassification",
        {"share": "attention", "hidden_act": "relu"},
        {"labels": np.where(TOKENS < 0, -100, TOKENS % 3)},
    ),
    "spans": ("AlbertForQuestionAnswering", {"share": "ffn", "num_hidden_groups": 2}, ANSWER),
    "answerability": (
        "AlbertForQuestionAnswering",
        {"answerability": True, "share": "none"},
        {
            "start_positions": np.array([3, 0]),
            "end_positions": np.array([5, 0]),
            "is_impossible": [0, 1],
            "p_mask": np.eye(T)[[1, 2]],
        },
    ),
    "choices": ("AlbertForMultipleChoice", {}, {"labels": [2, 0]}),
}
# The differences between the backends' kernels in float32, and of losses in half precision.
TOLERANCE, HALF_TOLERANCE = 2e-5, 0.05


def write(folder, cls, config, features, further, scrambled):
    import albert_tf.models

    model = scrambled(getattr(albert_tf.models, cls)(config))
    model.save_pretrained(folder)
    if cls == "AlbertForMultipleChoice":
        features = {name: np.stack([value] * C, axis=1) for name, value in features.items()}
        features["input_ids"][:, :, 2] += np.arange(C, dtype="int32")
        features["attention_mask"][1, C - 1] = 0  # one example has fewer choices
    np.savez(folder / "inputs.npz", **features, **further)


@pytest.fixture(scope="module")
def processes(small_config, small_features, scrambled, tmp_path_factory):
    """Starts a process per installed backend, and returns them with the files they write."""
    folder, started = tmp_path_factory.mktemp("backends"), {}
    for name, (cls, changes, further) in MODELS.items():
        changes = {"classifier_dropout_prob": 0.0, "num_hidden_layers": 2, **changes}
        config = dataclasses.replace(small_config, **changes)
        write(folder / "models" / name, cls, config, small_features, further, scrambled)
    for backend in ("tensorflow", *OTHERS):
        if importlib.util.find_spec(backend):
            result = folder / f"{backend}.npz"
            process = subprocess.Popen(
                [sys.executable, SCRIPT, folder / "models", result],
                env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)},
                stderr=subprocess.PIPE,
                text=True,
            )
            started[backend] = process, result
    yield started
    for process, _ in started.values():
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def answers(processes):
    """Returns a function from a backend to everything it computes."""

    @functools.cache
    def of(backend):
        pytest.importorskip(backend, reason=f"needs {backend} (pip install albert_tf[{backend}])")
        process, result = processes[backend]
        _, errors = process.communicate()
        assert process.returncode == 0, errors[-4000:]
        return dict(np.load(result))

    return of


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", OTHERS)
def test_gives_what_tensorflow_gives(answers, backend, name):
    expected, ours = answers("tensorflow"), answers(backend)
    assert ours.keys() == expected.keys()
    for key in (key for key in expected if key.startswith(f"{name}/")):
        tolerance = HALF_TOLERANCE if "/mixed_" in key else TOLERANCE
        np.testing.assert_allclose(ours[key], expected[key], atol=tolerance, rtol=0, err_msg=key)


@pytest.mark.parametrize("backend", ("tensorflow", *OTHERS))
def test_the_looped_form_gives_what_the_layers_give(answers, backend):
    found = answers(backend)
    looped = [key for key in found if "/looped" in key and not key.endswith(".loss")]
    assert len({key.split(".")[0] for key in looped}) == 2 * len(MODELS)
    for key in looped:
        plain = re.sub(r"/looped[^.]*\.", "/", key)
        if plain in found:  # given the start, an end has other outputs
            np.testing.assert_allclose(found[key], found[plain], atol=TOLERANCE, err_msg=key)


@pytest.mark.parametrize("backend", ("tensorflow", *OTHERS))
def test_fine_tuning_and_half_precision(answers, backend):
    found = answers(backend)
    tuned = [key for key in found if key.endswith("/fine-tuned.loss")]
    halves = [key for key in found if "/mixed_" in key]
    assert (len(tuned), len(halves)) == (3, 2 * (len(MODELS) - 1))
    for key in tuned + halves:
        loss = found[f"{key.split('/')[0]}/looped.loss"]
        difference = found[key] - loss
        assert difference < 0 if key in tuned else abs(difference) < HALF_TOLERANCE, key
