"""Fine-tuning hyperparameters: the paper's table 14, and defaults for other tasks."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.checkpoints import finder
from albert_tf.config import SIZES, AlbertConfig, is_size
from albert_tf.data.options import SQUAD
from albert_tf.errors import UserError
from albert_tf.text.base_tokenizer import BaseTokenizer

DROPOUT_RATES: Final = ("hidden_dropout_prob", "attention_probs_dropout_prob")  # of the encoder


class Recipe(NamedTuple):
    """Hyperparameters of one task.

    Attributes:
        learning_rate: peak learning rate, after the warm-up.
        batch_size: number of examples per step.
        dropout: dropout rate of the encoder, for both hidden states and attention.
        steps: number of training steps, or None to use `epochs`.
        warmup: number of linear warm-up steps, or a fraction of all steps if below 1.
        max_length: maximum number of tokens in an example.
        epochs: number of passes over the data if `steps` is None.
    """

    learning_rate: float
    batch_size: int
    dropout: float
    steps: int | None
    warmup: float
    max_length: int = 512
    epochs: int = 3


# ALBERT, arXiv 1909.11942, table 14, for version 1 models (xxlarge).
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
    "squad": Recipe(5e-5, 48, 0.0, 3649, 365, 384),  # 1.1
    "squad2": Recipe(3e-5, 48, 0.0, 8144, 814),
    "race": Recipe(2e-5, 32, 0.1, 12000, 1000),
}
# Learning rate, dropout, and warm-up fraction of most tasks in the table; three epochs, as BERT's
# authors recommend (arXiv 1810.04805, A.3).
OWN_DATA: Final = Recipe(2e-5, 32, 0.0, None, 0.1, max_length=128)
# The learning rates in the table are too small for training from random weights. This recipe
# reaches 0.80 on SST-2 in minutes.
FROM_RANDOM_WEIGHTS: Final = Recipe(5e-4, 64, 0.1, None, 0.1, max_length=128)
# For models narrower than base. Tuned on the bundled model, which scores slightly lower at twice
# the learning rate on SST-2 and WNUT17 (benchmarks/NOTES.md).
SMALL: Final = Recipe(1e-4, 16, 0.1, None, 0.1, max_length=128, epochs=5)
# With many examples, a batch size of 64 allows enough steps, and trains better models.
MANY: Final = 10_000
SMALL_ON_MANY: Final = SMALL._replace(batch_size=64, epochs=3)


def recipe(task: str, model: str, examples: int) -> Recipe:
    """Returns the defaults for a task.

    Args:
        task: a key of `TABLE_14`, or any other name.
        model: the `model` option of `finetune`. Table 14 is for models of the published sizes;
            smaller models and training from scratch need larger learning rates.
        examples: number of training examples.
    Raises:
        UserError: if there is no such model.
    """
    if is_size(model):
        chosen = FROM_RANDOM_WEIGHTS
    else:
        chosen = recipe_of_width(finder.read_config(model).hidden_size)
        if chosen is OWN_DATA:
            return TABLE_14.get(task, OWN_DATA)
        if examples >= MANY:
            chosen = SMALL_ON_MANY
    # The windows of a question must have room for its context.
    windows = TABLE_14[SQUAD].max_length
    return chosen._replace(max_length=windows) if task.startswith(SQUAD) else chosen


def recipe_of_width(hidden_size: int) -> Recipe:
    """Returns the recipe for a pretrained model on data that isn't in the paper's table."""
    return SMALL if hidden_size < AlbertConfig.from_size("base").hidden_size else OWN_DATA


def size_config(size: str, tokenizer: BaseTokenizer, **changes: Any) -> AlbertConfig:
    """Returns the configuration in a JSON file, or of a named size with the tokenizer's vocabulary.

    Args:
        **changes: fields to override.
    Raises:
        UserError: if there is no such size or file, or if the file isn't an ALBERT configuration.
    """
    if size in SIZES:
        ids = {
            "vocab_size": tokenizer.vocab_size,
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.cls_token_id,
            "eos_token_id": tokenizer.sep_token_id,
        }
        return AlbertConfig.from_size(size, **{**ids, **changes})
    if not Path(size).is_file():
        raise UserError(
            f"size must be one of {', '.join(SIZES)}, or a configuration file (JSON). "
            f"Received: {size!r}."
        )
    return dataclasses.replace(AlbertConfig.from_json_file(size), **changes)
