"""Fine-tuning on two devices, and the options that decide a run."""

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
from albert_tf.options import decisive, declared
from albert_tf.training.options import FinetuningOptions
from tests.training.test_finetune import ROOT, options, write


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


def test_options_with_which_a_run_may_not_resume(data, tmp_path):
    """Paths, intervals and devices may change, and options of other tasks don't count."""
    known = declared(FinetuningOptions)
    for task in ("classify", "squad"):
        run = options(data, tmp_path / "out", task=task)
        others = {name for name, option in known.items() if not option.applies(vars(run))}
        assert ("head" in others) != ("regression" in others)
        assert known.keys() - decisive(run).keys() == others | {
            *("data", "strategy", "output", "force", "vocab", "baseline", "save_steps"),
        }


@pytest.mark.parametrize("value", ["head", "0"])
def test_layers_that_are_no_number(data, tmp_path, value):
    with pytest.raises(UserError, match=f"freeze must be embeddings, or a number .*: {value}"):
        options(data, tmp_path / "out", freeze=value)
