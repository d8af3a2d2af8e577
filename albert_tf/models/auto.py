"""Loads a model of the class that a checkpoint was saved from."""

import os
from typing import Any

from albert_tf import models
from albert_tf.checkpoints import finder, hugging_face
from albert_tf.errors import UserError
from albert_tf.models.base import PreTrainedModel, require_config
from albert_tf.tasks import BY_MODEL, TASKS


def model_class(task: str) -> type[PreTrainedModel]:
    """Returns the model class of a task, a key of `tasks.TASKS`."""
    found: type[PreTrainedModel] = getattr(models, TASKS[task].model)
    return found


def load_pretrained(
    name_or_path: str | os.PathLike[str], task: str | None = None, **options: Any
) -> PreTrainedModel:
    """Returns a model of the class that a checkpoint was saved from, with its weights.

    Args:
        name_or_path: as `from_pretrained` takes it.
        task: a key of `tasks.TASKS`. Default: the task of the class that `config.json` names under
            "architectures", transformers' TensorFlow and Flax classes included; else the one that
            has the checkpoint's heads.
        **options: those of `from_pretrained`.
    Raises:
        UserError: an unknown task, another model's class in `config.json`, and what
            `from_pretrained` raises.

    Example:
        >>> from albert_tf import load_pretrained
        >>> type(load_pretrained("small")).__name__
        'AlbertForPreTraining'
    """
    if task is not None and task not in TASKS:
        raise UserError(f"The task must be one of {', '.join(TASKS)}. Received: {task!r}.")
    hub_options, options = finder.split_hub_options(options)
    found = finder.find(name_or_path, **hub_options)
    if (config := options.pop("config", None)) is not None:
        require_config(PreTrainedModel, config)
    checkpoint = found.read(config)
    if task is not None:
        return model_class(task).from_checkpoint(checkpoint, **options)
    names = found.architectures()
    names = names or [hugging_face.architecture(checkpoint.config, checkpoint.tensors)]
    for name in names:
        if name in BY_MODEL:
            return model_class(BY_MODEL[name].name).from_checkpoint(checkpoint, **options)
    raise UserError(
        f"A model's {hugging_face.CONFIG} must name its class under 'architectures', one of "
        f"{', '.join(BY_MODEL)}. Received: {', '.join(names)}, in {found.folder}. "
        f"Name the task (task=…, or --task on the command line): {', '.join(TASKS)}."
    )
