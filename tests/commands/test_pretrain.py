import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf import cli
from albert_tf.commands.pretraining_options import pretraining_options
from albert_tf.training import pretrain as training
from albert_tf.training.interruption import Interrupted
from albert_tf.training.pretraining.options import PretrainingOptions

ROOT = Path(__file__).resolve().parents[2]
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
    return pretraining_options(cli._parser().parse_args([str(each) for each in arguments]))


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs the command with an outcome of `pretrain`: status, output, errors."""

    def main(outcome, *arguments):
        def pretrain(options):
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr(training, "pretrain", pretrain)
        return cli.main([*LEAST, *arguments]), *capsys.readouterr()

    return main


def test_defaults_are_those_of_the_options():
    assert parsed(*LEAST) == PretrainingOptions(data="examples", output=Path("made"), size="tiny")


def test_every_option_arrives():
    """Each with a value of its own, so that none can take another's place."""
    numbers = {
        "beta_1": 0.51,
        "beta_2": 0.52,
        "clip_norm": 0.53,
        "dropout": 0.54,
        "ema": 0.55,
        "learning_rate": 0.56,
        "power": 0.57,
        "save_minutes": 0.58,
        "weight_decay": 0.59,
        "batch_size": 60,
        "micro_batches": 6,
        "steps": 61,
        "warmup_steps": 62 - 10,
        "seed": 63,
        "save_steps": 64,
        "keep": 65,
        "eval_steps": 66,
    }
    words = {
        "data": "d",
        "output": Path("o"),
        "init_checkpoint": "i",
        "vocab": "v",
        "eval_data": "e",
        "optimizer": "adamw",
        "schedule": "usual",
        "dtype_policy": "mixed_bfloat16",
        "strategy": "mirrored",
    }
    switches = dict.fromkeys(
        ("bias_correction", "gradient_checkpointing", "jit_compile", "force"), True
    )
    expected = {**numbers, **words, **switches}
    names = {field.name for field in dataclasses.fields(PretrainingOptions)}
    assert names == expected.keys() | {"size"}
    arguments = ["pretrain"]
    for name, value in expected.items():
        arguments.append("--" + name.replace("_", "-"))
        arguments += [] if value is True else [value]
    assert parsed(*arguments) == PretrainingOptions(**expected)


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
        "--keep_checkpoint_max": 7,
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
        keep=7,
    )
    weights = ["--init_checkpoint", "model.ckpt-best"]
    continued = parsed("pretrain", "--data", "d", "--output", "o", *weights)
    assert continued.init_checkpoint == "model.ckpt-best"


def test_the_help_has_each_option_once(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["pretrain", "--help"])
    shown = capsys.readouterr().out
    for field in dataclasses.fields(PretrainingOptions):
        flag = "--" + field.name.replace("_", "-")
        assert len(re.findall(rf"^  {flag}(?:[ ,]|$)", shown, re.MULTILINE)) == 1, flag
    assert "--num_train_steps N" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "steps must be above 0. Received: 0."),
        (["--learning-rate", "nan"], "learning_rate must be above 0. Received: nan."),
        (["--seed", "-1"], "seed must be in .*Received: -1."),
        (["--init-checkpoint", "other"], "Received: size=tiny, init_checkpoint=other."),
        (["--steps", "9", "--warmup-steps", "9"], "warmup_steps=9, steps=9"),
        (["--data", "nowhere"], "nowhere"),
        (["--dtype-policy", "bfloat16"], "Give mixed_bfloat16."),
        (["--strategy", "everything"], "Received: everything."),
    ],
)
def test_a_mistake_is_a_line_and_status_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*LEAST, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("albert-tf: error: ")
    assert message.split(".*")[0] in line and message.split(".*")[-1] in line
    assert not (tmp_path / "made").exists()


def test_an_interruption_says_what_to_do_next(run):
    status, printed, _ = run(Interrupted())
    assert status == 130
    assert "made. The same command goes on from there." in printed
    status, printed, _ = run(Interrupted(), "--force")
    assert "The same command without --force goes on from there." in printed


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
    held_out = {**SCORES, "loss": 4.125, "sentence_order_loss": 0.0}
    _, printed, _ = run({**report, "evaluation": [held_out]})
    assert "Held out, at step 7: loss 4.125, masked LM 37.5%.\n" in printed


def test_the_command_line_stays_light():
    """What is imported to parse the options is imported by every command."""
    code = "import sys, albert_tf.cli; assert not {'keras', 'tensorflow'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
