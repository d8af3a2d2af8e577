"""The ALBERT encoder, the task models, and `load_pretrained`, which picks one of the classes."""

import os
from typing import Any, Final

from albert_tf.checkpoints import finder, hugging_face
from albert_tf.errors import UserError
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel, require_config
from albert_tf.models.masked_lm import AlbertForMaskedLM
from albert_tf.models.multiple_choice import AlbertForMultipleChoice
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.pretraining import AlbertForPreTraining
from albert_tf.models.question_answering import AlbertForQuestionAnswering
from albert_tf.models.sequence_classification import AlbertForSequenceClassification
from albert_tf.models.similarity import AlbertForSimilarity
from albert_tf.models.surgery import unshare
from albert_tf.models.token_classification import AlbertForTokenClassification
from albert_tf.tasks import BY_MODEL, TASKS

__all__ = [
    "AlbertForMaskedLM",
    "AlbertForMultipleChoice",
    "AlbertForPreTraining",
    "AlbertForQuestionAnswering",
    "AlbertForSequenceClassification",
    "AlbertForSimilarity",
    "AlbertForTokenClassification",
    "AlbertModel",
    "ModelOutput",
    "load_pretrained",
    "unshare",
]
CLASSES: Final[dict[str, type[PreTrainedModel]]] = {
    name: globals()[task.model] for name, task in TASKS.items()
}


def load_pretrained(
    name_or_path: str | os.PathLike[str], task: str | None = None, **options: Any
) -> PreTrainedModel:
    """Loads a checkpoint into the model class that it was saved from.

    Args:
        name_or_path: see `from_pretrained`.
        task: a key of `tasks.TASKS`. Default: the task of the class under "architectures" in
            `config.json`. The class can also be a transformers class for TensorFlow or Flax. If the
            file contains no class name, the heads in the checkpoint determine the task.
        **options: see `from_pretrained`.
    Raises:
        UserError: if the task is unknown, `config.json` contains only unknown classes, or the
            checkpoint can't be loaded (see `from_pretrained`).

    Example:
        >>> from albert_tf import load_pretrained
        >>> type(load_pretrained("small")).__name__
        'AlbertForPreTraining'
    """
    if task is not None and task not in TASKS:
        raise UserError(f"task must be one of {', '.join(TASKS)}. Received: {task!r}.")
    hub_options, options = finder.split_hub_options(options)
    location = finder.find(name_or_path, tokenizer=True, **hub_options)
    if (config := options.pop("config", None)) is not None:
        require_config(PreTrainedModel, config)
    checkpoint = location.read(config)
    if task is not None:
        return CLASSES[task].from_checkpoint(checkpoint, **options)
    names = location.architectures()
    names = names or [hugging_face.architecture(checkpoint.config, checkpoint.tensors)]
    for name in names:
        if name in BY_MODEL:
            return CLASSES[BY_MODEL[name].name].from_checkpoint(checkpoint, **options)
    raise UserError(
        f"'architectures' in {location.folder / hugging_face.CONFIG} must contain one of "
        f"{', '.join(BY_MODEL)}. Received: {', '.join(names)}. "
        f"Set task (--task on the command line) to one of {', '.join(TASKS)}."
    )
