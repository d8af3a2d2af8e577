"""From files to batches: readers, fine-tuning tasks, pretraining data, and padded batches.

The functions below create datasets for `fit`. They are imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert_tf.data.datasets import classification_dataset as classification_dataset
    from albert_tf.data.datasets import multiple_choice_dataset as multiple_choice_dataset
    from albert_tf.data.datasets import question_answering_dataset as question_answering_dataset
    from albert_tf.data.datasets import token_classification_dataset as token_classification_dataset

__all__ = [
    "classification_dataset",
    "multiple_choice_dataset",
    "question_answering_dataset",
    "token_classification_dataset",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("albert_tf.data.datasets"), name)
