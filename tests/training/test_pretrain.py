"""Runs of a tiny model from records to a model directory, with every kind of interruption."""

import dataclasses
import json
import os
import random
from unittest.mock import patch

import numpy as np
import pytest
from safetensors.numpy import load_file

from albert_tf import pipeline
from albert_tf.cli import main
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.batches import evaluation_batches
from albert_tf.errors import UserError
from albert_tf.files import LOCK, check_own, locked
from albert_tf.models import AlbertForPreTraining
from albert_tf.outputs import RUN
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training import distribution
from albert_tf.training import pretrain as training
from albert_tf.training.checkpoints import Saver
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretrain import pretraining_model
from tests.conftest import SENTENCES
from tests.training.test_finetune import Crash, continued_at, on_two_devices

STEPS, BATCH, T = 12, 6, 24

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("quick_runs")]


@pytest.fixture(scope="module")
def records(tiny_vocabulary, tmp_path_factory):
    """Returns a directory by `build-data` with at least 60 examples of 24 pieces."""
    folder = tmp_path_factory.mktemp("records")
    generator = random.Random(2)
    texts = ["\n".join(generator.sample(SENTENCES, 5)) for _ in range(40)]
    (folder / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    (folder / "spiece.model").write_bytes(tiny_vocabulary)
    command = f"build-data --input {folder}/text.txt --vocab {folder}/spiece.model --workers 1"
    assert main([*command.split(), "--max-seq-length", str(T), "--output", f"{folder}/made"]) == 0
    return folder / "made"


@pytest.fixture(scope="module")
def options(records, tmp_path_factory):
    """Returns a function that makes options; the model has dropout, so that its seeds matter."""
    path = tmp_path_factory.mktemp("config") / "config.json"
    pieces = AlbertTokenizer.from_pretrained(records).vocab_size
    sizes = {"vocab_size": pieces, "num_hidden_layers": 1, "hidden_dropout_prob": 0.1}
    path.write_text(json.dumps(AlbertConfig.from_size("tiny", **sizes).to_dict()))

    def make(output, **changes):
        given = {"batch_size": BATCH, "steps": STEPS, "warmup_steps": 3, "learning_rate": 0.01}
        given |= {"size": str(path), "save_steps": 5, "eval_data": str(records), "eval_steps": 6}
        if "init_checkpoint" in changes:
            del given["size"]
        return PretrainingOptions(**{"data": str(records), "output": output, **given, **changes})

    return make


@pytest.fixture(scope="module")
def uninterrupted(options, tmp_path_factory):
    """Returns the report and the output of an uninterrupted run."""
    output = tmp_path_factory.mktemp("uninterrupted") / "model"
    return training.pretrain(options(output, ema=0.5)), output


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_equal(one, other):
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_the_output(uninterrupted, records):
    report, output = uninterrupted
    check_own(output, RUN)
    names = {"config.json", "curves.png", "logs", "model.safetensors", "options.yaml"}
    names |= {"report.json", "special_tokens_map.json", "spiece.model", "tokenizer_config.json"}
    assert {path.name for path in output.iterdir()} == names
    assert json.loads((output / "report.json").read_text()) == json.loads(json.dumps(report))
    assert (output / "spiece.model").read_bytes() == (records / "spiece.model").read_bytes()
    assert report["steps"] == STEPS and report["tokens"] == STEPS * BATCH * T
    assert [point["step"] for point in report["history"]] == list(range(1, STEPS + 1))
    assert [point["step"] for point in report["evaluation"]] == [6, STEPS]
    for point in [*report["history"], *report["evaluation"]]:
        assert {"masked_lm_loss", "sentence_order_accuracy"} < point.keys() and all(
            map(np.isfinite, point.values())
        )
    assert report["evaluation"][-1]["loss"] < report["history"][0]["loss"] - 0.1
    assert len(pipeline("fill-mask", model=str(output))("the film was a [MASK] delight")) == 5


def test_a_resumed_run_begins_with_its_next_batch(options, tmp_path):
    """Checks only the batch number, because the tests of `mixed_batches` compare the batches."""
    read = patch.object(training, "mixed_batches", side_effect=Crash)
    with continued_at(3), read as mixed_batches, pytest.raises(Crash):
        training.pretrain(options(tmp_path / "model", eval_data=None, eval_steps=None))
    assert mixed_batches.call_args.args[3] == 3  # the number of the first batch


@pytest.mark.slow
def test_a_run_without_an_average_resumes_with_the_same_settings_only(
    options, uninterrupted, tmp_path, monkeypatch
):
    """The average of weights changes scores and saved weights, not training."""
    given = options(tmp_path / "model")
    # Stands in for a kill at this moment.
    monkeypatch.setattr(training, "publish", lambda *_: None)
    training.pretrain(given)
    with pytest.raises(UserError, match="learning_rate was 0.01, is 0.02"):
        training.pretrain(dataclasses.replace(given, learning_rate=0.02))
    monkeypatch.undo()
    report = training.pretrain(dataclasses.replace(given, save_steps=3))
    averaged, output = uninterrupted
    assert report["history"] == averaged["history"]
    last = [each["evaluation"][-1]["loss"] for each in (report, averaged)]
    assert last[0] != last[1]
    own, average = weights(tmp_path / "model"), weights(output)
    assert any((own[name] != average[name]).any() for name in own)
    model = AlbertForPreTraining.from_pretrained(output)
    training.compile_with_metrics(model)
    found = training.scores(model, evaluation_batches(given.eval_data, training.EVALUATION_BATCH))
    assert found["loss"] == pytest.approx(last[1], rel=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("without_graphs")
def test_another_host_than_the_first_writes_nothing(options, tmp_path, monkeypatch):
    monkeypatch.setattr(distribution, "is_chief", lambda strategy: False)
    second = {"host": (1, 2)}
    monkeypatch.setattr(
        "albert_tf.training.run.Saver", lambda *a, **named: Saver(*a, **named | second)
    )
    few = {"steps": 4, "save_steps": 2, "eval_data": None, "eval_steps": None}
    with locked(tmp_path / "model"):
        report = training.pretrain(options(tmp_path / "model", **few))
        assert os.listdir(tmp_path / "model") == [LOCK]
    assert report["steps"] == 4


@pytest.mark.usefixtures("without_graphs")
def test_a_loss_of_nan_leaves_the_last_checkpoint(options, tmp_path):
    changes = {"save_steps": 1, "eval_data": None, "eval_steps": None}
    given = options(tmp_path / "model", learning_rate=1e30, **changes)
    with pytest.raises(UserError, match="loss is nan at step") as error:
        training.pretrain(given)
    last = max((tmp_path / "model" / "checkpoints").glob("step-*"))
    good = f"The last good checkpoint is {last}. Choose another output, or add force=True"
    assert good in str(error.value)
    AlbertForPreTraining.from_pretrained(last)


def test_starts_with_weights_of_any_format(uninterrupted, options, tmp_path):
    """Covers the original's format, which has no vocabulary beside it."""
    google = str(tmp_path / "google")
    assert main(["convert", str(uninterrupted[1]), google, "--format", "tf1"]) == 0
    for source in (uninterrupted[1], google):
        given = options(tmp_path / "model", init_checkpoint=str(source), dropout=0.3)
        model = pretraining_model(given, T)
        assert model.config.hidden_dropout_prob == 0.3
        model.save_pretrained(tmp_path / "started")
        assert_equal(tmp_path / "started", uninterrupted[1])


def test_weights_of_another_vocabulary(uninterrupted, options, records, tmp_path):
    other = tmp_path / "other"
    AlbertForPreTraining.from_pretrained(uninterrupted[1]).save_pretrained(other)
    pieces = ModelProto.FromString((records / "spiece.model").read_bytes())
    pieces.pieces[-1].piece = "another"
    AlbertTokenizer(pieces.SerializeToString()).save_pretrained(other)
    message = f"{other} have different vocabularies"
    with pytest.raises(UserError, match=message):
        training.pretrain(options(tmp_path / "model", init_checkpoint=str(other)))


@pytest.mark.slow
def test_records_of_two_lengths(options, records, tmp_path):
    longer = tmp_path / "longer"
    build = f"build-data --input {records.parent}/text.txt --vocab {records} --workers 1"
    assert main([*build.split(), "--max-seq-length", "40", "--output", str(longer)]) == 0
    data = str(records), str(records), str(longer)
    report = training.pretrain(options(tmp_path / "model", data=data))
    assert report["tokens"] == BATCH * (8 * T + 4 * 40)
    first, again, other = report["settings"]["data"]
    assert first == again != other


def pretrain_with_batches_of_264(**options):
    """Runs on two devices, in a process of its own."""
    training.EVALUATION_BATCH = 264
    training.pretrain(**options)


@pytest.mark.slow
def test_two_devices_train_and_score_as_one(options, tmp_path, monkeypatch):
    """Evaluates a number of examples whose last one only one device gets."""
    given = options(tmp_path / "one", dropout=0.0, optimizer="adamw", learning_rate=1e-3, ema=0.5)
    monkeypatch.setattr(training, "EVALUATION_BATCH", 264)
    one = training.pretrain(dataclasses.replace(given, strategy="none"))
    two = dataclasses.replace(given, output=tmp_path / "two", strategy="mirrored")
    on_two_devices(
        "tests.training.test_pretrain", "pretrain_with_batches_of_264", dataclasses.asdict(two)
    )
    report = json.loads((tmp_path / "two" / "report.json").read_text())
    assert one["settings"]["data"][0]["examples"] % training.EVALUATION_BATCH == 1
    for name in ("history", "evaluation"):
        for mine, other in zip(one[name], report[name], strict=True):
            assert mine == pytest.approx(other, rel=1e-4), name
    mine, other = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name, value in mine.items():
        np.testing.assert_allclose(value, other[name], rtol=0, atol=1e-5, err_msg=name)
