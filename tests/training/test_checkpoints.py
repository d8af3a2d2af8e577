import os
import shutil

import keras
import numpy as np
import pytest

from albert_tf.checkpoints import weights
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import locked
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.training.checkpoints import (
    BEST,
    CHECKPOINTS,
    STATE,
    load_state,
    lock_output,
    publish,
    read_state,
    save_state,
    silent_about_new_weights,
    steps_in,
)
from albert_tf.training.saver import Saver

SETTINGS = {"seed": 1, "labels": ["a", "b"], "learning_rate": 0.001}
PROGRESS = {"step": 2, "best": None, "history": [{"loss": 0.5}], "seconds": 1.5}
STEPS = 3


def compiled(seed, dtype=None):
    keras.utils.set_random_seed(seed)
    sizes = {"vocab_size": 31, "num_hidden_layers": 2, "hidden_dropout_prob": 0.2}
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
    tensors, progress = read_state(folder, "Start again.")
    assert progress.pop("settings") == SETTINGS
    load_state(folder, model, tensors, "Start again.")
    return progress


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_a_restored_model_resumes_exactly(tmp_path, dtype):
    model = compiled(1, dtype)
    train(model, range(2))
    save(tmp_path, model)
    train(model, range(2, STEPS))

    other = compiled(2, dtype)  # other weights, other dropout seeds
    assert load(tmp_path, other) == PROGRESS
    train(other, range(2, STEPS))
    assert len(model.weights) == len(other.weights) == 27
    for expected, found in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert int(other.optimizer.iterations) == int(model.optimizer.iterations)


@pytest.mark.parametrize("name", ["model.safetensors", STATE])
@pytest.mark.parametrize("length", [0, 1000, -1])
def test_files_cut_short(tmp_path, name, length):
    model, path = compiled(1), tmp_path / name
    save(tmp_path, model)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match=f"{tmp_path} is .*damaged.* Start again."):
        load(tmp_path, model)


@pytest.mark.parametrize("text", [b"step", b"seed", b"checksum", b""])
def test_a_damaged_state(tmp_path, text):
    """Changes a byte of the progress, the settings, the checksum or a tensor."""
    model, path = compiled(1), tmp_path / STATE
    save(tmp_path, model)
    content = bytearray(path.read_bytes())
    content[content.index(text) if text else -1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="checksum has changed. Start again."):
        load(tmp_path, model)


def test_a_state_of_another_model(tmp_path, small_config):
    save(tmp_path, compiled(1))
    other = AlbertForSequenceClassification(small_config)
    other.compile("sgd")
    with pytest.raises(UserError, match="belongs to another model"):
        load(tmp_path, other)


def test_an_output_that_another_run_has_locked_stays_as_it_is(tmp_path):
    (tmp_path / CHECKPOINTS / "step-00000002").mkdir(parents=True)
    with (
        locked(tmp_path),
        pytest.raises(UserError, match="Another run is writing"),
        lock_output(tmp_path, force=True),
    ):
        raise AssertionError("the block must not run")
    assert len(steps_in(tmp_path / CHECKPOINTS)) == 1


def test_the_oldest_checkpoints_are_removed(tmp_path):
    saver = Saver(tmp_path, None, keep=2)
    saver.set_model(compiled(1))
    for saver.step in (1, 2, 3):
        saver.save()
    assert [path.name for path in steps_in(tmp_path)] == ["step-00000002", "step-00000003"]


def test_a_run_killed_while_it_removes_checkpoints_leaves_none_in_part(tmp_path, monkeypatch):
    (tmp_path / CHECKPOINTS / "step-00000002").mkdir(parents=True)

    def kill(folder, **_):
        if folder.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", kill)
        with pytest.raises(KeyboardInterrupt), lock_output(tmp_path, force=True):
            pass
    assert os.listdir(tmp_path) == [".checkpoints.removed"]
    with lock_output(tmp_path, force=False):
        assert os.listdir(tmp_path) == [".lock"]


def test_the_output_of_another_model_is_replaced(tmp_path):
    """Files of other names stay, but for the modules of sentence-transformers."""
    for name in ("modules.json", "notes.txt", "config.json"):
        (tmp_path / name).write_text("of another model")
    best = tmp_path / CHECKPOINTS / BEST
    best.mkdir(parents=True)
    (best / "config.json").write_text("new")
    publish(tmp_path, {"step": 3})
    assert sorted(os.listdir(tmp_path)) == ["config.json", "notes.txt", "report.json"]
    assert (tmp_path / "config.json").read_text() == "new"


def test_a_resumed_run_does_not_warn_of_new_weights(tmp_path, caplog):
    (tmp_path / "resumed" / CHECKPOINTS / "step-00000001").mkdir(parents=True)
    for name in ("resumed", "new"):
        with silent_about_new_weights(tmp_path / name):
            weights.logger.warning("newly initialized for the %s run", name)
    assert caplog.messages == ["newly initialized for the new run"]
