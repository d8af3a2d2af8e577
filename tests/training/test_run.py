"""The output of a run: its lock, its checkpoints, and its publication."""

import os
import shutil

import pytest

from albert_tf.checkpoints import weights
from albert_tf.errors import UserError
from albert_tf.files import locked
from albert_tf.outputs import BEST, CHECKPOINTS
from albert_tf.training.checkpoints import steps_in
from albert_tf.training.run import lock_output, publish, silent_about_new_weights


def test_an_output_that_another_run_has_locked_stays_as_it_is(tmp_path):
    (tmp_path / CHECKPOINTS / "step-00000002").mkdir(parents=True)
    with (
        locked(tmp_path),
        pytest.raises(UserError, match="Another run is writing"),
        lock_output(tmp_path, force=True),
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
