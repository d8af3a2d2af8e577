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
    progress = read_progress(folder, "Start again.")
    load_state(read_state(folder, model, "Start again."), model)
    assert progress.pop("settings") == SETTINGS
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
    with pytest.raises(UserError, match="checksum.* Start again."):
        load(tmp_path, model)


def test_a_state_of_another_model(tmp_path, small_config):
    save(tmp_path, compiled(1))
    other = AlbertForSequenceClassification(small_config)
    other.compile("sgd")
    with pytest.raises(UserError, match=f"{tmp_path} was written by a different model"):
        load(tmp_path, other)


def test_the_oldest_checkpoints_are_removed(tmp_path):
    saver = Saver(Checkpoints(tmp_path, keep=2), None)
    saver.set_model(compiled(1))
    for saver.step in (1, 2, 3):
        saver.save()
    assert [path.name for path in steps_in(tmp_path)] == ["step-00000002", "step-00000003"]
