from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf import cli
from albert_tf.cli import pretrain as command
from albert_tf.errors import Interrupted
from albert_tf.training import pretrain as training
from albert_tf.training.options import PretrainingOptions


@pytest.fixture
def run(monkeypatch, capsys):
    """Returns a function that runs the command with a stand-in for `pretrain`."""

    def main(outcome, *arguments):
        def pretrain(options):
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr(command, "check", lambda options: None)
        monkeypatch.setattr(training, "pretrain", pretrain)
        line = "pretrain --data examples --output made --size tiny"
        return cli.main([*line.split(), *arguments]), *capsys.readouterr()

    return main


def test_names_of_the_original():
    line = (
        "--input_file=files/*.tfrecord --output_dir=made --albert_config_file=albert_config.json "
        "--train_batch_size=512 --optimizer=adamw --learning_rate=0.001 --poly_power=2 "
        "--num_train_steps=1000 --num_warmup_steps=10 --save_checkpoints_steps=50"
    )
    assert cli._parse(["pretrain", *line.split()])[1] == PretrainingOptions(
        data="files/*.tfrecord",
        output=Path("made"),
        size="albert_config.json",
        batch_size=512,
        optimizer="adamw",
        learning_rate=0.001,
        power=2.0,
        steps=1000,
        warmup_steps=10,
        save_steps=50,
    )


def test_an_interruption_says_what_to_do_next(run):
    status, printed, _ = run(Interrupted("Interrupted."))
    assert status == 130
    assert "Interrupted. Run the same command to resume." in printed
    status, printed, _ = run(Interrupted("Interrupted."), "--force")
    assert "Run the same command without --force to resume." in printed


@pytest.mark.tensorflow
def test_too_little_memory_is_a_line_with_a_way_out(run):
    error = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
    status, _, errors = run(error, "--batch-size", "64", "--micro-batches", "4")
    assert status == 2
    (line,) = errors.splitlines()
    assert "--batch-size 64 and --micro-batches 4." in line


def test_the_summary(run):
    scores = {
        "step": 7,
        "loss": 3.25,
        "masked_lm_loss": 2.75,
        "masked_lm_accuracy": 0.375,
        "sentence_order_loss": 0.5,
        "sentence_order_accuracy": 0.8125,
    }
    held_out = {"step": 7, "loss": 4.125, "masked_lm_loss": 4.125, "masked_lm_accuracy": 0.25}
    report = {
        "history": [{**scores, "step": 3, "loss": 9.0}, scores],
        "evaluation": [held_out],
        "parameters": 12345,
        "steps": 8000,
        "tokens": 4096000,
        "seconds": 12.3,
    }
    status, printed, _ = run(report)
    assert status == 0
    assert printed.splitlines() == [
        "In training, at step 7: loss 3.250, masked LM 37.5%, sentence order 81.2%.",
        "Held out, at step 7: loss 4.125, masked LM 25.0%.",
        "12,345 parameters, 8,000 steps, 4,096,000 tokens, 12 s: made",
    ]
