"""What a fine-tuning run is asked for, checked, and completed by the task's recipe."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from albert_tf.data.readers import Columns
from albert_tf.errors import UserError
from albert_tf.training.recipes import Recipe, recipe

Form = Literal["original", "usual"]  # of a schedule's decay
VOCABULARY_SIZE: Final = 8000  # of a vocabulary made from the training texts
# What a number must be, where it is given.
RULES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "batch_size": ("above 0", lambda value: value > 0),
    "beta_1": ("in [0, 1)", lambda value: 0 <= value < 1),
    "beta_2": ("in [0, 1)", lambda value: 0 <= value < 1),
    "clip_norm": ("0 or more", lambda value: 0 <= value < math.inf),
    "dev_fraction": ("between 0 and 1", lambda value: 0 < value < 1),
    "dropout": ("in [0, 1)", lambda value: 0 <= value < 1),
    "ema": ("in (0, 1)", lambda value: 0 < value < 1),
    "epochs": ("above 0", lambda value: value > 0),
    "eval_steps": ("above 0", lambda value: value > 0),
    "keep": ("above 0", lambda value: value > 0),
    "learning_rate": ("above 0", lambda value: 0 < value < math.inf),
    "max_length": ("3 or more, for the special tokens of a pair", lambda value: value >= 3),
    "micro_batches": ("above 0", lambda value: value > 0),
    "patience": ("above 0", lambda value: value > 0),
    "power": ("above 0", lambda value: 0 < value < math.inf),
    "save_minutes": ("above 0", lambda value: value > 0),
    "save_steps": ("above 0", lambda value: value > 0),
    "seed": ("in [0, 2**32)", lambda value: 0 <= value < 2**32),
    "steps": ("above 0", lambda value: value > 0),
    "vocab_size": ("above 0", lambda value: value > 0),
    "warmup_steps": ("0 or more", lambda value: value >= 0),
    "warmup": ("0 or more", lambda value: 0 <= value < math.inf),
    "weight_decay": ("0 or more", lambda value: 0 <= value < math.inf),
}


def check_ranges(options: Any) -> None:
    """Refuses a number that breaks its rule.

    Args:
        options: a dataclass, whose fields `RULES` may know.
    Raises:
        UserError: with the rule.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value is not None and field.name in RULES:
            rule, holds = RULES[field.name]
            if not holds(value):
                raise UserError(f"{field.name} must be {rule}. Received: {value}.")


@dataclasses.dataclass(frozen=True)
class Options:
    """What `finetune` is asked for; None leaves a value to the task's recipe.

    Attributes:
        task: a key of `data.tasks.GLUE`, or "classify".
        data: folder with train and dev files, or one file, of which `dev_fraction` is held out.
        model: a model directory, a hub name, or "small"; for random weights a size or a
            configuration file.
        output: the model directory to make.
        columns: of the files, for "classify"; "text" and "label" if None.
        regression: labels are numbers to come near to, for "classify".
        skip_bad_rows: leave out rows that can't be read, see `data.readers.read_examples`.
        vocab: vocabulary file, with a size; without it one is trained on the training texts.
        steps, epochs: length of the run; steps win.
        warmup: steps, or the share of all steps if below 1.
        dropout: of the encoder.
        patience: epochs without a better score before the run ends early.
        force: replace an earlier result, or an interrupted run.
    """

    task: str
    data: Path
    model: str
    output: Path
    columns: Columns | None = None
    regression: bool = False
    dev_fraction: float = 0.1
    skip_bad_rows: bool = False
    vocab: Path | None = None
    vocab_size: int = VOCABULARY_SIZE
    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    warmup: float | None = None
    max_length: int | None = None
    dropout: float | None = None
    seed: int = 12345
    dtype_policy: str = "float32"
    patience: int | None = None
    save_steps: int = 500
    force: bool = False

    def plan(self) -> Recipe:
        """The task's recipe with what these options set otherwise.

        Raises:
            UserError: a number is out of its range.
        """
        check_ranges(self)
        base = recipe(self.task, self.model)
        if self.epochs is not None and self.steps is None:
            base = base._replace(steps=None)
        asked = {name: getattr(self, name) for name in Recipe._fields}
        return base._replace(**{name: value for name, value in asked.items() if value is not None})
