"""The options of `finetune` and `pretrain`."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from albert_tf.config import SIZES, is_size
from albert_tf.data.options import CLASSES, TEXT_CLASSES, LabelledData
from albert_tf.errors import UserError, listed, short_repr
from albert_tf.files import check_free
from albert_tf.options import (
    COUNT,
    FILE,
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    SEED,
    VOCABULARY,
    Checked,
    DecayForm,
    Range,
    flag,
    option,
)
from albert_tf.outputs import CHECKPOINTS, RUN

if TYPE_CHECKING:
    from albert_tf.data.tasks.registry import TrainingData
    from albert_tf.recipes import Recipe

EMBEDDINGS: Final = "embeddings"  # value of --freeze
BALANCED: Final = "balanced"  # value of --class-weights

Strategy = Literal["auto", "none", "mirrored", "multi-worker", "tpu"]

_TRAINING: Final = "training (defaults by task and model: docs/finetuning.md)"
_DEVICES: Final = "precision, memory, and devices"
_MODEL: Final = "model (requires --size or --init-checkpoint)"
_PRETRAINING: Final = "training (defaults from the ALBERT paper, section 4.1)"
_OPTIMIZER: Final = "optimizer (defaults from the original code)"
_OUTPUTS: Final = "evaluation and checkpoints"


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Checked):
    """The options of `pretrain` and `finetune` for precision, memory, and devices."""

    dtype_policy: Literal["float32", "mixed_bfloat16", "mixed_float16"] = option(
        "float32",
        help="Keras dtype policy: float32, mixed_bfloat16 (recent GPUs, TPUs, some CPUs), or "
        "mixed_float16 (older GPUs)",
        group=_DEVICES,
        metavar="POLICY",
    )
    micro_batches: int = option(
        1,
        help="number of micro-batches per replica and update; more micro-batches need less memory "
        "and don't change the result",
        range=COUNT,
        group=_DEVICES,
    )
    gradient_checkpointing: bool = option(
        False,
        help="recompute layers in the backward pass; saves memory, but takes more time",
        group=_DEVICES,
    )
    strategy: Strategy = option(
        "auto",
        help="devices to train on: auto (all), none (only one), mirrored (all GPUs of this host), "
        "multi-worker (all hosts), or tpu",
        group=_DEVICES,
        metavar="NAME",
        decisive=False,
    )


@dataclass(frozen=True, kw_only=True)
class FinetuningOptions(DeviceOptions, LabelledData):
    """The options of `finetune`. An option that is None defaults to the task's recipe."""

    model: str = option(
        help='model directory, Hub model ID, or "small", which ships with the package; to train '
        f"from scratch, a configuration file or one of {', '.join(SIZES)}",
        metavar="NAME",
        is_path=True,
    )
    output: Path = option(help="model directory to write", decisive=False)
    force: bool = option(
        False, help="replace an earlier result or an interrupted run", decisive=False
    )
    dev_fraction: float = option(
        0.1, help="fraction of a single file to hold out for dev", range=Range(above=0, below=1)
    )
    test: Path | None = option(
        None,
        help="labeled file on which the best version is scored once, at the end",
        metavar="FILE",
        decisive=False,
    )
    vocab: Path | None = option(
        None,
        help="vocabulary file for training from scratch: spiece.model or vocab.txt",
        decisive=False,
    )
    vocab_size: int = option(
        8000,
        help="size of the vocabulary to build from the training texts when training from scratch",
        range=VOCABULARY,
        excludes=("vocab",),
    )
    epochs: int | None = option(
        None,
        help="number of passes over the data",
        range=COUNT,
        group=_TRAINING,
        excludes=("steps",),
    )
    steps: int | None = option(
        None, help="number of training steps, instead of --epochs", range=COUNT, group=_TRAINING
    )
    batch_size: int | None = option(
        None, help="number of examples per step", range=COUNT, group=_TRAINING
    )
    learning_rate: float | None = option(
        None, help="peak learning rate, after the warm-up", range=POSITIVE, group=_TRAINING
    )
    warmup: float | None = option(
        None,
        help="number of warm-up steps, or, if below 1, a fraction of all steps",
        range=NOT_NEGATIVE,
        group=_TRAINING,
    )
    max_length: int | None = option(
        None,
        help="maximum number of tokens in an example, including special tokens",
        range=Range(minimum=3),
        group=_TRAINING,
    )
    dropout: float | None = option(
        None, help="dropout rate of the encoder", range=RATE, group=_TRAINING
    )
    baseline: bool = option(
        False,
        help="also score a baseline on the same data: TF-IDF with logistic regression",
        decisive=False,
        only={"task": TEXT_CLASSES},
        excludes=("regression", "multi_label"),
    )
    seed: int = option(
        12345,
        help="random seed for weight initialization, shuffling, and dropout",
        range=SEED,
        group=_TRAINING,
    )
    freeze: str | None = option(
        None,
        help="layers to freeze: embeddings, or N for the embeddings and the first N layers; later "
        "layers still update shared weights",
        group=_TRAINING,
        metavar="LAYERS",
    )
    class_weights: tuple[str, ...] = option(
        (),
        help="loss weights of the classes: balanced (inverse frequency), or LABEL=WEIGHT arguments",
        group=_TRAINING,
        metavar="WEIGHT",
        only={"task": CLASSES},
        excludes=("regression", "multi_label"),
    )
    patience: int | None = option(
        None,
        help="number of epochs without a better dev score before training stops",
        range=COUNT,
        group=_TRAINING,
        original=("early_stopping",),
    )
    save_steps: int = option(
        500,
        help="number of steps between checkpoints",
        range=COUNT,
        group=_TRAINING,
        decisive=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("dev_fraction", "group_column"):
            is_default = getattr(self, name) == getattr(FinetuningOptions, name)
            if not is_default and not self.data.is_file():
                raise UserError(
                    f"{flag(name)} splits a single file; folders and Hub datasets already have a "
                    f"dev split. Received: --data {self.data}."
                )
        if self.vocab_size != FinetuningOptions.vocab_size and not is_size(self.model):
            raise UserError(
                "--vocab-size requires training from scratch; a pretrained model has its own "
                f"vocabulary. Received: --model {self.model}."
            )
        if self.warmup is not None and self.warmup > 1 and not self.warmup.is_integer():
            raise UserError(
                "warmup must be a whole number of steps, or a fraction (below 1) of all steps. "
                f"Received: {self.warmup}."
            )
        if self.freeze not in (None, EMBEDDINGS) and not self.frozen_layers:
            raise UserError(
                "freeze must be 'embeddings' or a positive number of layers. "
                f"Received: {self.freeze}."
            )
        if self.vocab is not None and not self.vocab.exists():
            raise UserError(
                f"The vocabulary {self.vocab} doesn't exist. Pass a file (spiece.model or "
                "vocab.txt) or a folder that contains one."
            )

    @property
    def frozen_layers(self) -> int:
        """The number of frozen layers; 0 if only the embeddings or no weights are frozen."""
        text = self.freeze or ""
        return int(text) if text.isascii() and text.isdigit() else 0

    def read(self) -> "TrainingData":
        """Reads and checks the examples and the labels in `class_weights`, without TensorFlow."""
        from albert_tf.data.tasks.registry import task_of, training_data

        data = training_data(self, self.dev_fraction, self.seed)
        weights_by_label(self.class_weights, data.config.labels)
        if self.test is None:
            return data
        # The group column matters only if a file is split.
        test = task_of(dataclasses.replace(self, group_column=None)).read(self.test)
        data.task.check(test, data.config)
        return data._replace(test=test)

    def recipe(self, name: str, examples: int) -> "Recipe":
        """Returns a task's recipe, overridden by the options that are set.

        Args:
            name: name of the task in `albert_tf.recipes`; see `TrainingData.recipe`.
            examples: number of training examples.
        """
        from albert_tf.recipes import Recipe, recipe  # imports all checkpoint readers

        base = recipe(name, self.model, examples)
        if self.epochs is not None:
            base = base._replace(steps=None)
        asked = {name: getattr(self, name) for name in Recipe._fields}
        return base._replace(**{name: value for name, value in asked.items() if value is not None})


@dataclass(frozen=True)
class PretrainingOptions(DeviceOptions):
    """The options of `pretrain`.

    Source of the defaults: ALBERT, arXiv 1909.11942, section 4.1; google-research/albert,
        run_pretraining.py, whose flags are also accepted.
    """

    data: tuple[str, ...] = option(
        help="build-data output folders, or globs for the original code's TFRecord files; steps "
        "read from them in turn, so one that is listed twice is read twice as often",
        metavar="DIR",
        original=("input_file",),
        decisive=False,
        is_path=True,
    )
    output: Path = option(
        help="model directory to write", metavar="DIR", original=("output_dir",), decisive=False
    )
    size: str | None = option(
        None,
        help=f"named size ({', '.join(SIZES)}) or configuration file, to train from scratch",
        group=_MODEL,
        original=("albert_config_file",),
        decisive=False,
        is_path=True,
    )
    init_checkpoint: str | None = option(
        None,
        help='initial weights: a model directory, a Hub model ID, "small", or a checkpoint in any '
        "format that convert reads",
        group=_MODEL,
        metavar="NAME",
        instead_of="size",
        is_path=True,
    )
    vocab: str | None = option(
        None,
        help="vocabulary file or model directory, for records without a vocabulary in their folder",
        group=_MODEL,
        metavar="FILE",
        decisive=False,
        is_path=True,
    )
    dropout: float | None = option(
        None,
        help="dropout rate of the encoder; default: the rate in the configuration or checkpoint",
        range=RATE,
        group=_MODEL,
        metavar="RATE",
    )
    batch_size: int = option(
        4096,
        help="number of examples per update, over all replicas and hosts",
        range=COUNT,
        group=_PRETRAINING,
        original=("train_batch_size",),
        multiple_of="micro_batches",
    )
    steps: int = option(
        125_000,
        help="number of updates",
        range=COUNT,
        group=_PRETRAINING,
        original=("num_train_steps",),
    )
    warmup_steps: int = option(
        3125,
        help="number of updates during which the learning rate increases",
        range=NOT_NEGATIVE,
        group=_PRETRAINING,
        original=("num_warmup_steps",),
        below="steps",
    )
    learning_rate: float = option(
        0.00176, help="peak learning rate", range=POSITIVE, group=_PRETRAINING, metavar="RATE"
    )
    power: float = option(
        1.0,
        help="exponent of the learning rate decay; 1 is linear",
        range=POSITIVE,
        group=_PRETRAINING,
        original=("poly_power",),
    )
    schedule: DecayForm = option(
        "original",
        help="start of the decay: at step 0 (original) or after the warm-up (usual)",
        group=_PRETRAINING,
    )
    seed: int = option(
        12345,
        help="random seed for weight initialization, shuffling, masking, and dropout",
        range=SEED,
        group=_PRETRAINING,
    )
    optimizer: Literal["lamb", "adamw"] = option(
        "lamb",
        help="optimizer: lamb, for large batches, or adamw, with bias correction",
        group=_OPTIMIZER,
    )
    beta_2: float = option(
        0.999, help="decay rate of the second-moment estimates", range=RATE, group=_OPTIMIZER
    )
    ema: float | None = option(
        None,
        help="momentum of a moving average of the weights, such as 0.999; the averaged weights "
        "are evaluated and saved",
        range=Range(above=0, below=1),
        group=_OPTIMIZER,
        metavar="MOMENTUM",
    )
    eval_data: str | None = option(
        None,
        help="held-out records to score the model on at the end",
        group=_OUTPUTS,
        metavar="DIR",
        decisive=False,
        is_path=True,
    )
    eval_steps: int | None = option(
        None,
        help="number of updates between additional evaluations",
        range=COUNT,
        group=_OUTPUTS,
        decisive=False,
        needs="eval_data",
    )
    save_steps: int = option(
        1000,
        help="number of updates between checkpoints",
        range=COUNT,
        group=_OUTPUTS,
        original=("save_checkpoints_steps",),
        decisive=False,
    )
    force: bool = option(
        False,
        help="replace an earlier result or an interrupted run",
        group=_OUTPUTS,
        decisive=False,
    )
    jit_compile: bool = option(
        False,
        help="compile the step with XLA, on a single device only (JAX always compiles)",
        group=_DEVICES,
        decisive=False,
    )


def check_frozen(layers: int, count: int) -> None:
    """Rejects more frozen layers than the model has."""
    if layers > count:
        raise UserError(
            f"--freeze must be embeddings, or a number of layers from 1 to {count}. "
            f"Received: {layers}."
        )


def weights_by_label(given: Sequence[str], labels: Sequence[str]) -> list[float] | None:
    """Parses `LABEL=WEIGHT` arguments. Other labels get a weight of 1.

    Returns:
        a weight per label, or None if there are no arguments or only "balanced".
    Raises:
        UserError: if an argument isn't LABEL=WEIGHT with a finite weight >= 0, or its label is
            unknown or repeated.
    """
    if tuple(given) in ((), (BALANCED,)):
        return None
    weights: dict[str, float] = {}
    for argument in given:
        label, _, text = argument.rpartition("=")
        try:
            weight = float(text)
        except ValueError:
            weight = -1.0
        if label not in labels or label in weights or not 0 <= weight < float("inf"):
            raise UserError(
                f"--class-weights must be {BALANCED}, or LABEL=WEIGHT arguments with different "
                f"labels from {listed(labels)}. Received: {short_repr(argument)}."
            )
        weights[label] = weight
    return [weights.get(label, 1.0) for label in labels]


def check_output(output: Path, force: bool) -> None:
    """Rejects an output that is a file, or contains unrelated files or a finished run.

    Commands call it before they load TensorFlow. `lock_output` calls it again, because another run
    may have finished in the meantime.

    Args:
        force: whether to accept a folder that contains a finished run.
    """
    check_free(output, force=True, own=RUN)
    if not force and (output / FILE).exists() and not (output / CHECKPOINTS).is_dir():
        raise UserError(
            f"{output} contains a finished run. Choose another folder, or replace the run with "
            "force=True."
        )
