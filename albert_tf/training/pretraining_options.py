"""The options of `pretrain`; the defaults are the paper's recipe."""

import dataclasses
from pathlib import Path
from typing import Any, Final, Literal

from albert_tf.config import SIZES
from albert_tf.errors import UserError
from albert_tf.options import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    SEED,
    Range,
    option,
)
from albert_tf.training.options import DeviceOptions, Form

_MODEL: Final = "the model (give --size or --init-checkpoint)"
_TRAINING: Final = "training (defaults: the paper's, section 4.1)"
_OPTIMIZER: Final = "optimizer (defaults: the original's)"
_OUTPUTS: Final = "evaluation and checkpoints"


@dataclasses.dataclass(frozen=True)
class PretrainingOptions(DeviceOptions):
    """The options of `pretrain`.

    Source of the defaults: ALBERT, arXiv 1909.11942, section 4.1; google-research/albert,
        run_pretraining.py, which also gives the flags that the help leaves out.
    """

    data: tuple[str, ...] = option(
        help="records: folders of build-data, or globs of the original code's files; each batch is "
        "from one of them",
        metavar="DIR",
        original=("input_file",),
    )
    output: Path = option(help="model directory to write", metavar="DIR", original=("output_dir",))
    weights: tuple[int, ...] = option(
        (),
        help="batches of each of --data in a round, such as 2 1; default: equally many",
        range=Range(minimum=1, maximum=1000),
    )
    size: str | None = option(
        None,
        help=f"named size ({', '.join(SIZES)}) or configuration file, for random weights",
        group=_MODEL,
        original=("albert_config_file",),
    )
    init_checkpoint: str | None = option(
        None,
        help="initial weights: a model directory, a name on the hub, small, or a checkpoint of any "
        "format that convert reads",
        group=_MODEL,
        metavar="NAME",
    )
    vocab: str | None = option(
        None,
        help="vocabulary file or model directory, for records without a vocabulary beside them",
        group=_MODEL,
        metavar="FILE",
    )
    dropout: float | None = option(
        None,
        help="dropout rate of the encoder; default: the configuration's, or the checkpoint's",
        range=RATE,
        group=_MODEL,
        metavar="RATE",
    )
    batch_size: int = option(
        4096,
        help="examples of an update, over all replicas and hosts",
        range=COUNT,
        group=_TRAINING,
        original=("train_batch_size",),
    )
    steps: int = option(
        125_000, help="updates", range=COUNT, group=_TRAINING, original=("num_train_steps",)
    )
    warmup_steps: int = option(
        3125,
        help="updates over which the learning rate rises",
        range=NOT_NEGATIVE,
        group=_TRAINING,
        original=("num_warmup_steps",),
    )
    learning_rate: float = option(
        0.00176, help="peak learning rate", range=POSITIVE, group=_TRAINING, metavar="RATE"
    )
    power: float = option(
        1.0,
        help="power of the learning rate's decay; 1 is linear",
        range=POSITIVE,
        group=_TRAINING,
        original=("poly_power",),
    )
    schedule: Form = option(
        "original",
        help="start of the decay: step 0, as in the original, or the peak, as usual",
        group=_TRAINING,
    )
    seed: int = option(
        12345, help="seed of weights, order, masks and dropout", range=SEED, group=_TRAINING
    )
    optimizer: Literal["lamb", "adamw"] = option(
        "lamb",
        help="LAMB, for large batches, or Adam with decoupled weight decay",
        group=_OPTIMIZER,
    )
    weight_decay: float = option(
        0.01,
        help="weight decay of all but biases and layer norms",
        range=NOT_NEGATIVE,
        group=_OPTIMIZER,
        metavar="RATE",
    )
    beta_1: float = option(0.9, help="decay of the gradients' mean", range=RATE, group=_OPTIMIZER)
    beta_2: float = option(
        0.999, help="decay of the squared gradients' mean", range=RATE, group=_OPTIMIZER
    )
    bias_correction: bool = option(
        False, help="Adam's bias correction, which the original omits", group=_OPTIMIZER
    )
    clip_norm: float = option(
        1.0,
        help="largest global norm of the gradients; 0 turns clipping off",
        range=NOT_NEGATIVE,
        group=_OPTIMIZER,
    )
    ema: float | None = option(
        None,
        help="momentum of an average of the weights (0.999), which is evaluated and saved",
        range=Range(above=0, below=1),
        group=_OPTIMIZER,
        metavar="MOMENTUM",
    )
    eval_data: str | None = option(
        None, help="held-out records, scored at the end", group=_OUTPUTS, metavar="DIR"
    )
    eval_steps: int | None = option(
        None, help="updates between further evaluations", range=COUNT, group=_OUTPUTS
    )
    save_steps: int = option(
        1000,
        help="updates from one checkpoint to the next",
        range=COUNT,
        group=_OUTPUTS,
        original=("save_checkpoints_steps",),
    )
    save_minutes: float | None = option(
        None,
        help="minutes from one checkpoint to the next, if they pass first",
        range=POSITIVE,
        group=_OUTPUTS,
    )
    keep: int = option(
        3,
        help="newest checkpoints to retain during the run",
        range=COUNT,
        group=_OUTPUTS,
        original=("keep_checkpoint_max",),
    )
    force: bool = option(
        False,
        help="replacement of an earlier result or of an interrupted run",
        group=_OUTPUTS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.size is None) == (self.init_checkpoint is None):
            raise UserError(
                "A run begins with a size for random weights (--size base) or with weights "
                f"(--init-checkpoint NAME). Received: size={self.size}, "
                f"init_checkpoint={self.init_checkpoint}."
            )
        if self.weights and len(self.weights) != len(self.data):
            raise UserError(
                "There must be a weight for each of data. Received: "
                f"{len(self.data)} of data, weights={', '.join(map(str, self.weights))}."
            )
        if self.batch_size % self.micro_batches:
            raise UserError(
                "batch_size must be a multiple of the replicas times micro_batches. Received: "
                f"batch_size={self.batch_size}, micro_batches={self.micro_batches}."
            )
        if self.warmup_steps >= self.steps:
            raise UserError(
                "The warm-up must be shorter than the run. "
                f"Received: warmup_steps={self.warmup_steps}, steps={self.steps}."
            )

    def decisive(self) -> dict[str, Any]:
        """Returns the options that decide the run's weights: no paths, habits or devices."""
        rest = _PLACES | _HABITS
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if name not in rest}


_PLACES: Final = {"data", "weights", "output", "vocab", "size", "eval_data", "strategy"}
_HABITS: Final = {"eval_steps", "save_steps", "save_minutes", "keep", "force", "jit_compile"}
