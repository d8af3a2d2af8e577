from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf import cli
from albert_tf.commands import pretrain as command
from albert_tf.errors import Interrupted
from albert_tf.training import pretrain as training
from albert_tf.training.options import PretrainingOptions

LEAST = ["pretrain", "--data", "examples", "--output", "made", "--size", "tiny"]
SCORES = {
    "step": 7,
    "loss": 3.25,
    "masked_lm_loss": 2.75,
    "masked_lm_accuracy": 0.375,
    "sentence_order_loss": 0.5,
    "sentence_order_accuracy": 0.8125,
}


def parsed(*arguments):
    return cli._parsed([str(each) for each in arguments])[1]


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
        return cli.main([*LEAST, *arguments]), *capsys.readouterr()

    return main


def test_names_of_the_original():
    flags = {
        "--input_file": "files/*.tfrecord",
        "--output_dir": "made",
        "--albert_config_file": "albert_config.json",
        "--train_batch_size": 512,
        "--optimizer": "adamw",
        "--learning_rate": 0.001,
        "--poly_power": 2.0,
        "--num_train_steps": 1000,
        "--num_warmup_steps": 10,
        "--save_checkpoints_steps": 50,
    }
    options = parsed("pretrain", *(each for flag in flags.items() for each in flag))
    assert options == PretrainingOptions(
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
    weights = ["--init_checkpoint", "model.ckpt-best"]
    continued = parsed("pretrain", "--data", "d", "--output", "o", *weights)
    assert continued.init_checkpoint == "model.ckpt-best"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "steps must be 1 or more. Received: 0."),
        (["--learning-rate", "nan"], "learning_rate must be above 0. Received: nan."),
        (["--seed", "-1"], "seed must be 0 or more and below 4294967296. Received: -1."),
        (["--init-checkpoint", "other"], "--init-checkpoint excludes --size"),
        (["--steps", "9", "--warmup-steps", "9"], "warmup_steps=9, steps=9"),
        (["--data", "nowhere"], "nowhere"),
        (["--dtype-policy", "bfloat16"], "mixed_bfloat16.*Received: 'bfloat16'"),
        (["--strategy", "everything"], "Received: 'everything'."),
    ],
)
def test_a_mistake_is_a_line_and_status_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "0.tfrecord").touch()
    assert cli.main([*LEAST, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("albert-tf: error: ")
    assert message.split(".*")[0] in line and message.split(".*")[-1] in line
    assert not (tmp_path / "made").exists()


def test_an_interruption_says_what_to_do_next(run):
    status, printed, _ = run(Interrupted("Interrupted."))
    assert status == 130
    assert "Interrupted. The same command resumes there." in printed
    status, printed, _ = run(Interrupted("Interrupted."), "--force")
    assert "The same command without --force resumes there." in printed


@pytest.mark.tensorflow
def test_too_little_memory_is_a_line_with_a_way_out(run):
    error = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
    status, _, errors = run(error, "--batch-size", "64", "--micro-batches", "4")
    assert status == 2
    (line,) = errors.splitlines()
    assert "Received: --batch-size 64 --micro-batches 4. Give twice as many" in line


def test_other_failures_are_not_hidden(run):
    with pytest.raises(ZeroDivisionError, match="a fault of ours"):
        run(ZeroDivisionError("a fault of ours"))


def test_the_summary(run):
    report = {
        "history": [{**SCORES, "step": 3, "loss": 9.0}, SCORES],
        "evaluation": [],
        "parameters": 12345,
        "steps": 8000,
        "tokens": 4096000,
        "seconds": 12.3,
    }
    status, printed, _ = run(report)
    assert status == 0
    assert printed.splitlines() == [
        "In training, at step 7: loss 3.250, masked LM 37.5%, sentence order 81.2%.",
        "12,345 parameters, 8,000 steps, 4,096,000 tokens, 12 s: made",
    ]
    held_out = {name: SCORES[name] for name in SCORES if not name.startswith("sentence_order")}
    held_out["loss"] = 4.125
    _, printed, _ = run({**report, "evaluation": [held_out]})
    assert "Held out, at step 7: loss 4.125, masked LM 37.5%.\n" in printed
