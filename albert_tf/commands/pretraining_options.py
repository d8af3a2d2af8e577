"""The options by which a command is told of a pretraining run."""

import argparse
from typing import Any, Final, get_args, get_type_hints

from albert_tf.commands.corpus_options import add_option
from albert_tf.sizes import SIZES
from albert_tf.training.pretraining.options import PretrainingOptions

_KINDS: Final = get_type_hints(PretrainingOptions)
_METAVARS: Final = {int: "N", float: "NUMBER"}


def add_pretraining_options(parser: argparse.ArgumentParser) -> None:
    """Declares all but `--data` and `--output`; the defaults are the paper's recipe."""
    _add_model(parser)
    _add_training(parser)
    _add_optimizer(parser)
    _add_devices(parser)
    _add_outputs(parser)


def pretraining_options(options: argparse.Namespace) -> PretrainingOptions:
    """What the options say.

    Raises:
        UserError: a value out of its range, or two that contradict each other.
    """
    values = vars(options)
    return PretrainingOptions(**{name: values[name] for name in _KINDS})


def _add_model(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("the model", "One of the first two.")
    _add(
        model,
        "--size",
        f"random weights of a size ({', '.join(SIZES)}) or of a configuration file",
        original="--albert-config-file",
    )
    _add(
        model,
        "--init-checkpoint",
        "weights to begin with: a model directory, a name on the hub, small, or a checkpoint of "
        "any format that convert reads",
        metavar="NAME",
    )
    _add(
        model,
        "--vocab",
        "vocabulary file or model directory, for records that have none beside",
        metavar="FILE",
    )
    _add(
        model,
        "--dropout",
        "of the encoder; default: the configuration's, or the checkpoint's",
        metavar="RATE",
    )


def _add_training(parser: argparse.ArgumentParser) -> None:
    training = parser.add_argument_group("training", "Defaults: the paper's, section 4.1.")
    _add(
        training,
        "--batch-size",
        "examples of an update, on all devices together",
        original="--train-batch-size",
    )
    _add(training, "--steps", "updates", original="--num-train-steps")
    _add(
        training,
        "--warmup-steps",
        "updates over which the learning rate rises",
        original="--num-warmup-steps",
    )
    _add(training, "--learning-rate", "at its peak", metavar="RATE")
    _add(training, "--power", "of the learning rate's decay; 1 is linear", original="--poly-power")
    _add(
        training,
        "--schedule",
        "whether the decay is counted from step 0, as the original does, or from the peak",
    )
    _add(training, "--seed", "of weights, order, masks and dropout")


def _add_optimizer(parser: argparse.ArgumentParser) -> None:
    optimizer = parser.add_argument_group("optimizer", "As the original's, unless told otherwise.")
    _add(optimizer, "--optimizer", "LAMB, for large batches, or Adam with decoupled weight decay")
    _add(optimizer, "--weight-decay", "of all but biases and layer norms", metavar="RATE")
    _add(optimizer, "--beta-1", "memory of the gradients' mean")
    _add(optimizer, "--beta-2", "memory of their squares' mean")
    _add(optimizer, "--bias-correction", "correct both for the first steps; the original doesn't")
    _add(optimizer, "--clip-norm", "longest gradient of all weights together; 0: any")
    _add(
        optimizer,
        "--ema",
        "evaluate and save an average of the weights, of this momentum (0.999)",
        metavar="MOMENTUM",
    )


def _add_devices(parser: argparse.ArgumentParser) -> None:
    devices = parser.add_argument_group("precision, memory and devices")
    _add(
        devices,
        "--dtype-policy",
        "float32, mixed_bfloat16 (new GPUs, TPUs, some CPUs) or mixed_float16 (older GPUs)",
        metavar="POLICY",
    )
    _add(
        devices,
        "--micro-batches",
        "parts in which a device computes its share of a batch, one after another; the result "
        "stays the same, memory shrinks",
    )
    _add(
        devices,
        "--gradient-checkpointing",
        "compute layers again for their gradient: less memory, more time",
    )
    _add(devices, "--jit-compile", "compile the step with XLA; on one device alone")
    _add(
        devices,
        "--strategy",
        "auto (all devices), none (one), mirrored (all of this host), multi-worker, or tpu",
        metavar="NAME",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    outputs = parser.add_argument_group("evaluation and checkpoints")
    _add(outputs, "--eval-data", "held-out records, scored at the end", metavar="DIR")
    _add(outputs, "--eval-steps", "score them every so many updates too")
    _add(
        outputs,
        "--save-steps",
        "updates from one checkpoint to the next",
        original="--save-checkpoints-steps",
    )
    _add(outputs, "--save-minutes", "save also when so many minutes have passed", metavar="N")
    _add(
        outputs,
        "--keep",
        "newest checkpoints that stay while the run lasts",
        original="--keep-checkpoint-max",
    )
    _add(outputs, "--force", "replace an earlier result, or start an interrupted run anew")


def _add(group: Any, name: str, help: str, original: str | None = None, **more: Any) -> None:
    """Declares an option with the default of `PretrainingOptions`, and its type.

    Args:
        original: its name in run_pretraining.py, which the help leaves out.
    """
    field = name[2:].replace("-", "_")
    default = getattr(PretrainingOptions, field)
    kinds = [
        kind for kind in (get_args(_KINDS[field]) or (_KINDS[field],)) if kind is not type(None)
    ]
    if kinds == [bool]:
        more["action"] = "store_true"
    elif isinstance(kinds[0], str):
        more["choices"] = kinds
    else:
        more = {"type": kinds[0], "metavar": _METAVARS.get(kinds[0]), **more}
    if default not in (None, False):
        help = f"{help}; default: {default}"
    add_option(group, name, default=default, help=help, **more)
    if original is not None:
        silent = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS, "dest": field}
        add_option(group, original, **{**more, **silent})
