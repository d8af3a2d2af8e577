"""How long and how fast to fine-tune: the paper's table 14, and defaults where it has none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from albert_tf.checkpoints import finder
from albert_tf.sizes import SIZES


class Recipe(NamedTuple):
    """Hyperparameters of one task.

    Attributes:
        learning_rate: the peak, after warm-up.
        batch_size: examples in a step.
        dropout: of the encoder, hidden and attention alike; the classifier's stays the model's.
        steps: training steps, or None where `epochs` counts.
        warmup: steps of linear warm-up, or the share of all steps if below 1.
        max_length: pieces in a row.
        epochs: passes over the data, where `steps` is None.
    """

    learning_rate: float
    batch_size: int
    dropout: float
    steps: int | None
    warmup: float
    max_length: int = 512
    epochs: int = 3


# ALBERT, arXiv 1909.11942, table 14.
TABLE_14: Final[Mapping[str, Recipe]] = {
    "cola": Recipe(1e-5, 16, 0.0, 5336, 320),
    "stsb": Recipe(2e-5, 16, 0.0, 3598, 214),
    "sst2": Recipe(1e-5, 32, 0.0, 20935, 1256),
    "mnli": Recipe(3e-5, 128, 0.0, 10000, 1000),
    "qnli": Recipe(1e-5, 32, 0.0, 33112, 1986),
    "qqp": Recipe(5e-5, 128, 0.1, 14000, 1000),
    "rte": Recipe(3e-5, 32, 0.1, 800, 200),
    "mrpc": Recipe(2e-5, 32, 0.0, 800, 200),
    "wnli": Recipe(2e-5, 16, 0.1, 2000, 250),
}
# Data of one's own: rates and dropout as most tasks of the table, three passes as BERT's authors
# advise (arXiv 1810.04805, A.3), and a warm-up of the share that the table's runs have.
OWN_DATA: Final = Recipe(2e-5, 32, 0.0, None, 0.1, max_length=128)
# From random weights the table's rates are too small to leave the start: 0.80 on SST-2 in minutes
# comes with these (README).
FROM_RANDOM_WEIGHTS: Final = Recipe(5e-4, 64, 0.1, None, 0.1, max_length=128)
# Of 3e-4, 6e-4 and 1e-3 the best for "small" on the bundled reviews (its card).
BUNDLED: Final = Recipe(6e-4, 64, 0.1, None, 0.1, max_length=128)


def recipe(task: str, model: str) -> Recipe:
    """The defaults for a task.

    Args:
        task: a key of `TABLE_14`, or another.
        model: as `finetune` takes it. Table 14 is for the published ones; larger rates are for
            random weights and for the models that come with the package.
    """
    if is_size(model):
        return FROM_RANDOM_WEIGHTS
    return BUNDLED if finder.is_bundled(model) else TABLE_14.get(task, OWN_DATA)


def is_size(model: str) -> bool:
    """Whether `model` names random weights: a size or a configuration file."""
    return model in SIZES or (model.endswith(".json") and not Path(model).is_dir())
