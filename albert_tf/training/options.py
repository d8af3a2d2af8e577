"""The options of `finetune`, which the task's recipe completes."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from albert_tf.data.options import LabelledData, check_labelled_data
from albert_tf.data.tasks.named import task_of
from albert_tf.errors import UserError
from albert_tf.locks import LOCK
from albert_tf.options import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    SEED,
    VOCABULARY,
    Range,
    option,
)
from albert_tf.sizes import SIZES

if TYPE_CHECKING:
    from albert_tf.training.recipes import Recipe

CHECKPOINTS: Final = "checkpoints"  # folder within the output of an unfinished run
REMOVED: Final = ".{}.removed"  # a folder while it is removed
Form = Literal["original", "usual"]  # of a schedule's decay
_TRAINING: Final = (
    "training (defaults: for GLUE the paper's table 14; for your own data a rate of 2e-5, batches "
    "of 32, 3 epochs; from random weights 5e-4, 64, 3)"
)


@dataclass(frozen=True, kw_only=True)
class FinetuningOptions(LabelledData):
    """The options of `finetune`; None leaves a value to the task's recipe."""

    model: str = option(
        help="model directory, name on the hub, or small, which is part of the package; for random "
        f"weights a configuration file or one of {', '.join(SIZES)}",
        metavar="NAME",
    )
    output: Path = option(help="model directory to write")
    force: bool = option(False, help="replacement of an earlier result or of an interrupted run")
    dev_fraction: float = option(
        0.1, help="share of a single file to hold out for dev", range=Range(above=0, below=1)
    )
    vocab: Path | None = option(
        None, help="vocabulary (spiece.model or vocab.txt) for random weights"
    )
    vocab_size: int = option(
        8000, help="pieces of the vocabulary trained on the training texts", range=VOCABULARY
    )
    epochs: int | None = option(None, help="passes over the data", range=COUNT, group=_TRAINING)
    steps: int | None = option(
        None, help="training steps, instead of --epochs", range=COUNT, group=_TRAINING
    )
    batch_size: int | None = option(None, help="examples of a step", range=COUNT, group=_TRAINING)
    learning_rate: float | None = option(
        None, help="peak learning rate, after warm-up", range=POSITIVE, group=_TRAINING
    )
    warmup: float | None = option(
        None,
        help="steps of warm-up, or the share of all steps if below 1",
        range=NOT_NEGATIVE,
        group=_TRAINING,
    )
    max_length: int | None = option(
        None,
        help="most pieces of an example, special tokens included",
        range=Range(minimum=3),
        group=_TRAINING,
    )
    dropout: float | None = option(
        None, help="dropout rate of the encoder", range=RATE, group=_TRAINING
    )
    classifier_dropout: float | None = option(
        None, help="dropout rate of the classifier's input", range=RATE, group=_TRAINING
    )
    scale_steps: bool = option(
        False,
        help="the recipe's steps and warm-up times its batch size over --batch-size, so that "
        "as many examples are seen",
        group=_TRAINING,
    )
    seed: int = option(
        12345, help="seed of weights, order and dropout", range=SEED, group=_TRAINING
    )
    dtype_policy: Literal["float32", "mixed_bfloat16", "mixed_float16"] = option(
        "float32", help="precision of the computation", group=_TRAINING
    )
    patience: int | None = option(
        None,
        help="epochs without a better score on dev before the run ends",
        range=COUNT,
        group=_TRAINING,
        original=("early_stopping",),
    )
    save_steps: int = option(
        500, help="steps from one checkpoint to the next", range=COUNT, group=_TRAINING
    )

    def __post_init__(self) -> None:
        check_labelled_data(self)

    def plan(self) -> "Recipe":
        """Returns the task's recipe with the values that these options override."""
        from albert_tf.training.recipes import Recipe, recipe  # Imports all readers of checkpoints.

        base = recipe(task_of(self).recipe(), self.model)
        if self.scale_steps and self.batch_size is not None:
            base = base.scaled(self.batch_size)
        if self.epochs is not None and self.steps is None:
            base = base._replace(steps=None)
        asked = {name: getattr(self, name) for name in Recipe._fields}
        return base._replace(**{name: value for name, value in asked.items() if value is not None})


def check_output(output: Path, force: bool) -> None:
    """Refuses a file, and a folder that is neither empty nor an interrupted run's.

    Args:
        force: allow any folder.
    """
    if output.exists() and not output.is_dir():
        raise UserError(f"The output must be a folder. Received: {output}, a file.")
    names = {path.name for path in output.iterdir()} if output.is_dir() else set()
    names -= {LOCK, REMOVED.format(CHECKPOINTS)}
    if names and CHECKPOINTS not in names and not force:
        raise UserError(
            "The output must be new, or hold an interrupted run. Received: "
            f"{output}, which holds something else. Choose another folder, or give --force to "
            "replace its model."
        )
