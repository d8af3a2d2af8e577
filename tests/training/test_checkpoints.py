import shutil

import keras
import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.training.checkpoints import (
    STATE,
    Checkpoints,
    Saver,
    load_state,
    read_progress,
    read_state,
    save_state,
    steps_in,
)

SETTINGS = {"seed": 1, "labels": ["a", "b"], "learning_rate": 0.001}
PROGRESS = {"step": 2, "best": None, "history": [{"loss": 0.5}], "seconds": 1.5}
STEPS = 3


def compiled(seed, dtype=None):
    keras.utils.set_random_seed(seed)
    sizes = {"vocab_size": 31, "num_hidden_layers": 1, "hidden_dropout_prob": 0.2}
    config = AlbertConfig.from_size("tiny", **sizes)
    model = AlbertForSequenceClassification(config, dtype=dtype)
    accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
    optimizer = AlbertAdamW(WarmupPolynomialDecay(1e-3, 1, STEPS))
    model.compile(optimizer, metrics=[accuracy], run_eagerly=True)
    return model


def train(model, steps):
    generator = np.random.default_rng(0)
    ids = generator.integers(5, 31, (STEPS, 4, 7)).astype("int32")
    labels = generator.integers(0, 2, (STEPS, 4)).astype("int32")
    for step in steps:
        model.train_on_batch({"input_ids": ids[step]}, labels[step])


def save(folder, model):
    model.save_pretrained(folder)
    save_state(folder, model, SETTINGS, PROGRESS)


def load(folder, model):
    progress = read_progress(folder, "Start again.")
    load_state(read_state(folder, model, "Start again."), model)
    assert progress.pop("settings") == SETTINGS
    return progress


def test_a_restored_model_resumes_exactly(tmp_path):
    """Covers the optimizer within a loss scaler; test_resume.py compares other precisions too."""
    model = compiled(1, "mixed_float16")
    train(model, range(2))
    save(tmp_path, model)
    train(model, range(2, STEPS))

    other = compiled(2, "mixed_float16")  # other weights, other dropout seeds
    assert load(tmp_path, other) == PROGRESS
    train(other, range(2, STEPS))
    assert len(model.weights) == len(other.weights) == 27
    for expected, found in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert int(other.optimizer.iterations) == int(model.optimizer.iterations)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Returns a model and its checkpoint."""
    model, folder = compiled(1), tmp_path_factory.mktemp("saved")
    save(folder, model)
    return model, folder


@pytest.fixture
def copy(saved, tmp_path):
    """Returns a copy of the checkpoint, which a test may damage."""
    return shutil.copytree(saved[1], tmp_path / "copy")


@pytest.mark.parametrize("name", ["model.safetensors", STATE])
def test_files_cut_short(saved, copy, name):
    content = (copy / name).read_bytes()
    for length in (0, 1000, -1):
        (copy / name).write_bytes(content[:length])
        with pytest.raises(UserError, match=f"{copy} is .*damaged.* Start again."):
            load(copy, saved[0])


def test_a_damaged_state(saved, copy):
    """Changes a byte of the progress, the settings, the checksum or a tensor."""
    whole = (copy / STATE).read_bytes()
    for text in (b"step", b"seed", b"checksum", b""):
        content = bytearray(whole)
        content[content.index(text) if text else -1] ^= 1
        (copy / STATE).write_bytes(content)
        with pytest.raises(UserError, match="checksum.* Start again."):
            load(copy, saved[0])


def test_a_state_of_another_model(saved, small_config):
    other = AlbertForSequenceClassification(small_config)
    other.compile("sgd")
    with pytest.raises(UserError, match=f"{saved[1]} was written by a different model"):
        load(saved[1], other)


def test_the_oldest_checkpoints_are_removed(saved, tmp_path):
    saver = Saver(Checkpoints(tmp_path, keep=2), None)
    saver.set_model(saved[0])
    for saver.step in (1, 2, 3):
        saver.save()
    assert [path.name for path in steps_in(tmp_path)] == ["step-00000002", "step-00000003"]
