"""Fine-tuning by other ways: devices, frozen layers, changed losses, other settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from albert_tf.checkpoints.weight_files import read_tensors
from albert_tf.config import AlbertConfig
from albert_tf.errors import Interrupted, UserError
from albert_tf.options import decisive, declared
from albert_tf.training.finetune import finetune
from albert_tf.training.options import FinetuningOptions
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


def test_changed_losses_and_frozen_embeddings(data, tmp_path):
    """Changes the result, decides the settings, and is refused at resumption with others."""
    with at_step(5, ask_to_stop), pytest.raises(Interrupted):
        finetune(options(data, tmp_path / "out", save_steps=2, **CHANGES))
    for name, value in OTHERS.items():
        with pytest.raises(UserError, match=f"{name} was .*, is .*"):
            finetune(options(data, tmp_path / "out", save_steps=2, **{**CHANGES, name: value}))


CHANGES = {
    "freeze": "embeddings",
    "class_weights": ("balanced",),
}
OTHERS = {"freeze": "1"}


def test_a_resumed_run_of_questions_has_the_same_head(tmp_path):
    context = "The cat is in the old harbour. Nobody is at home."
    answer = {"text": "harbour", "answer_start": context.index("harbour")}
    rows = [
        {"id": str(row), "question": f"Where is the cat {row}?", "answers": [answer]}
        for row in range(8)
    ]
    lines = [json.dumps({**row, "context": context}) for row in rows]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    given = {"task": "squad", "dev_fraction": 0.25, "vocab_size": 60, "head": "transformers"}
    given |= {"steps": 3, "batch_size": 2, "max_length": 96}
    with at_step(2, ask_to_stop), pytest.raises(Interrupted):
        finetune(options(tmp_path / "data.jsonl", tmp_path / "out", **given))
    with pytest.raises(UserError, match="head was .*, is 'original'"):
        finetune(options(tmp_path / "data.jsonl", tmp_path / "out", **given | {"head": "original"}))


def test_options_with_which_a_run_may_not_resume(data, tmp_path):
    """Paths, intervals and devices may change, and options of other tasks don't count."""
    run = options(data, tmp_path / "out")
    of_run, declared_ones = decisive(run), declared(FinetuningOptions)
    others = {name for name, option in declared_ones.items() if not option.applies(vars(run))}
    assert (
        "head" in others
        and {
            "regression",
            "seed",
            "patience",
        }
        < of_run.keys()
    )
    assert declared_ones.keys() - of_run.keys() - others == {
        *("data", "strategy", "output", "force", "vocab", "baseline", "save_steps"),
    }


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"freeze": "head"}, "freeze must be embeddings, or a number .* Received: head"),
        ({"freeze": "0"}, "freeze must be embeddings, or a number .* Received: 0"),
        ({"freeze": "99"}, "a number of layers from 1 to .* Received: 99"),
        ({"class_weights": ("fine=2",)}, "LABEL=WEIGHT each.*bad, good.*Received: 'fine=2'"),
        ({"class_weights": ("good=-1",)}, "Received: 'good=-1'"),
    ],
)
def test_bad_options(data, tmp_path, others, message):
    with pytest.raises(UserError, match=message):
        finetune(options(data, tmp_path / "out", **others))
