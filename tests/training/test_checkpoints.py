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
    CHECKPOINTS,
    STATE,
    load_state,
    lock_output,
    read_state,
    save_state,
    silent_about_new_weights,
    steps_in,
    written_through,
)

SETTINGS = {"seed": 1, "labels": ["a", "b"], "learning_rate": 0.001}
PROGRESS = {"step": 2, "best": None, "history": [{"loss": 0.5}], "seconds": 1.5}
STEPS = 3


def compiled(seed, dtype=None, vocab_size=31):
    keras.utils.set_random_seed(seed)
    config = AlbertConfig.from_size(
        "tiny", vocab_size=vocab_size, num_hidden_layers=2, hidden_dropout_prob=0.2
    )
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


def load(folder, model, settings):
    tensors, progress = read_state(folder, settings)
    load_state(folder, model, tensors)
    return progress


def test_weights_are_stored_once(tmp_path):
    model = compiled(1)
    train(model, range(1))
    save(tmp_path, model)
    weights = (tmp_path / "model.safetensors").stat().st_size
    moments = (tmp_path / STATE).stat().st_size  # two for each weight
    assert 1.9 * weights < moments < 2.1 * weights


def test_damaged_weights_of_a_checkpoint(tmp_path):
    model, path = compiled(1), tmp_path / "model.safetensors"
    save(tmp_path, model)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(UserError, match="model.safetensors.* Or start again with --force"):
        load(tmp_path, model, SETTINGS)


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "mixed_bfloat16",
        "mixed_float16",
    ],
)
def test_a_restored_model_resumes_exactly(tmp_path, dtype):
    model = compiled(1, dtype)
    train(model, range(2))
    save(tmp_path, model)
    train(model, range(2, STEPS))

    other = compiled(2, dtype)  # other weights, other dropout seeds
    assert load(tmp_path, other, SETTINGS) == PROGRESS
    train(other, range(2, STEPS))
    assert len(model.weights) == len(other.weights) == 27
    for expected, found in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert int(other.optimizer.iterations) == int(model.optimizer.iterations)


def test_other_settings_are_listed(tmp_path):
    model = compiled(1)
    save(tmp_path, model)
    changed = {**SETTINGS, "seed": 2, "labels": ["a", "c"]}
    with pytest.raises(
        UserError,
        match=r"labels was \['a', 'b'\], is \['a', 'c'\]; seed was 1, is 2.*--force",
    ):
        load(tmp_path, model, changed)
    with pytest.raises(UserError, match="patience was nothing, is 3"):
        load(tmp_path, model, {**SETTINGS, "patience": 3})


@pytest.mark.parametrize("length", [0, 5, 1000])
def test_a_state_cut_short(tmp_path, length):
    model, path = compiled(1), tmp_path / STATE
    save(tmp_path, model)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match="must be a whole file. Received: .*state.*--force"):
        load(tmp_path, model, SETTINGS)


@pytest.mark.parametrize("old", [b"step", b"seed", b"checksum", None])
def test_a_damaged_state(tmp_path, old):
    """A byte is another one: in the progress, the settings, the checksum, or a tensor."""
    model, path = compiled(1), tmp_path / STATE
    save(tmp_path, model)
    content = bytearray(path.read_bytes())
    content[content.index(old) if old else -1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="must be a whole file. Received: .*checksum.*--force"):
        load(tmp_path, model, SETTINGS)


def test_a_state_of_another_model(tmp_path, small_config):
    save(tmp_path, compiled(1))
    other = AlbertForSequenceClassification(small_config)
    other.compile("sgd")
    with pytest.raises(UserError, match="belongs to another model"):
        load(tmp_path, other, SETTINGS)


def test_a_full_disk_leaves_the_earlier_checkpoint(tmp_path, tiny_tokenizer, files_of_at_most):
    model, place = compiled(1, vocab_size=len(tiny_tokenizer)), tmp_path / "out" / "step-00000002"
    with written_through(place) as folder:
        save(folder, model)
    with (
        pytest.raises(OSError, match="too large"),
        files_of_at_most(5_000),
        written_through(place) as folder,
    ):
        save(folder, model)
    assert load(place, model, SETTINGS) == PROGRESS
    assert os.listdir(place.parent) == [place.name]


@pytest.mark.parametrize("force", [False, True])
def test_an_output_that_another_run_has_locked_stays_as_it_is(tmp_path, force):
    (tmp_path / CHECKPOINTS / "step-00000002").mkdir(parents=True)
    with (
        locked(tmp_path),
        pytest.raises(UserError, match="one run at a time.*another run is writing"),
        lock_output(tmp_path, force),
    ):
        raise AssertionError("the block must not run")
    assert len(steps_in(tmp_path / CHECKPOINTS)) == 1


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


def test_a_resumed_run_does_not_warn_of_new_weights(tmp_path, caplog):
    with silent_about_new_weights(tmp_path):
        weights.logger.warning("newly initialized: classifier")
    assert len(caplog.records) == 1
    (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    with silent_about_new_weights(tmp_path):
        weights.logger.warning("newly initialized: classifier")
    assert len(caplog.records) == 1
    weights.logger.warning("newly initialized: classifier")
    assert len(caplog.records) == 2
