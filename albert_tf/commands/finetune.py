"""`albert-tf finetune`"""

import argparse
from pathlib import Path

from albert_tf.commands.data_options import add_data_options, columns
from albert_tf.sizes import SIZES
from albert_tf.training.options import Options

SUMMARY = "fine-tune a classifier or regressor on a task"
EXAMPLES = """examples:
  albert-tf finetune --task sst2 --data SST-2 --model albert/albert-base-v2 --output my-model
  albert-tf finetune --task classify --data mails.csv --text-column body --label-column folder \\
      --model mini --output my-model

The output is a model directory of Hugging Face's layout, with report.json beside. Stopped by Ctrl-C
or killed, the same command again goes on exactly where it was.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `finetune`; their defaults are the task's recipe."""
    add_data_options(parser)
    parser.add_argument(
        "--model",
        required=True,
        help="model directory, name on the hub, or small, which comes along; for random weights a "
        f"configuration file or one of {', '.join(SIZES)}",
    )
    parser.add_argument("--output", required=True, type=Path, help="model directory to make")
    parser.add_argument("--force", action="store_true", help="replace an earlier result")
    parser.add_argument(
        "--dev-fraction", type=float, default=Options.dev_fraction, help="held out of a single file"
    )
    parser.add_argument(
        "--vocab", type=Path, help="vocabulary (spiece.model or vocab.txt) for random weights"
    )
    parser.add_argument(
        "--vocab-size",
        type=int,
        default=Options.vocab_size,
        help="of a vocabulary made from the training texts",
    )
    training = parser.add_argument_group(
        "training",
        "Defaults: the paper's table 14 for GLUE's tasks; for your own data a rate of 2e-5, "
        "batches of 32, 3 epochs; from random weights 5e-4, 64, 3.",
    )
    training.add_argument("--epochs", type=int, help="passes over the data")
    training.add_argument("--steps", type=int, help="training steps, in the place of --epochs")
    training.add_argument("--batch-size", type=int)
    training.add_argument("--learning-rate", type=float, help="peak, after warm-up")
    training.add_argument("--warmup", type=float, help="steps, or the share of all if below 1")
    training.add_argument("--max-length", type=int, help="pieces in a row")
    training.add_argument("--dropout", type=float, help="of the encoder")
    training.add_argument("--seed", type=int, default=Options.seed, help="default: %(default)s")
    training.add_argument(
        "--dtype-policy",
        default=Options.dtype_policy,
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        help="default: %(default)s",
    )
    training.add_argument(
        "--early-stopping",
        type=int,
        metavar="PATIENCE",
        help="end after so many epochs without a better score on dev",
    )
    training.add_argument(
        "--save-steps",
        type=int,
        default=Options.save_steps,
        help="steps between states to go on from",
    )


def run(options: argparse.Namespace) -> int:
    """Trains; 130 if interrupted."""
    from albert_tf.training.finetune import finetune
    from albert_tf.training.interruption import Interrupted

    values = vars(options)
    taken = {name: values[name] for name in Options.__dataclass_fields__ if name in values}
    try:
        report = finetune(
            Options(**taken, columns=columns(options), patience=options.early_stopping)
        )
    except Interrupted:
        command = "The same command without --force" if options.force else "The same command"
        print(f"\nStopped; the state is in {options.output}. {command} goes on from there.")
        return 130
    best = {name: f"{value:.4f}" for name, value in report["best"].items() if name not in _PLACE}
    scores = ", ".join(f"{name} {value}" for name, value in best.items())
    print(f"Best on dev, after epoch {report['best']['epoch']}: {scores}.")
    print(f"{report['parameters']:,} parameters, {report['seconds']:.0f} s: {options.output}")
    return 0


_PLACE = ("epoch", "score")
