"""The model of whatever task a checkpoint is for."""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from albert_tf.checkpoints import directory, formats, hugging_face
from albert_tf.errors import UserError
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.masked_lm import AlbertForMaskedLM
from albert_tf.models.multiple_choice import AlbertForMultipleChoice
from albert_tf.models.pretraining import AlbertForPreTraining
from albert_tf.models.question_answering import AlbertForQuestionAnswering
from albert_tf.models.sequence_classification import AlbertForSequenceClassification
from albert_tf.models.token_classification import AlbertForTokenClassification

TASKS: Final[dict[str, type[PreTrainedModel]]] = {
    "encoder": AlbertModel,
    "pretraining": AlbertForPreTraining,
    "masked-lm": AlbertForMaskedLM,
    "sequence-classification": AlbertForSequenceClassification,
    "token-classification": AlbertForTokenClassification,
    "question-answering": AlbertForQuestionAnswering,
    "multiple-choice": AlbertForMultipleChoice,
}
_CLASSES: Final = {each.__name__: each for each in TASKS.values()}


def load_pretrained(
    name_or_path: str | os.PathLike[str], task: str | None = None, **options: Any
) -> PreTrainedModel:
    """The model that a checkpoint was saved from, with its weights.

    Args:
        name_or_path: as `from_pretrained` takes it.
        task: a key of `TASKS`. Default: the task of the class that `config.json` names under
            "architectures", transformers' TensorFlow and Flax classes included; of other formats
            the one that has the checkpoint's heads.
        **options: those of `from_pretrained`.
    Raises:
        UserError: an unknown task, no class or one of another model in `config.json`, and what
            `from_pretrained` raises.
    """
    if task is not None:
        if task not in TASKS:
            raise UserError(f"The task must be one of {', '.join(TASKS)}. Received: {task!r}.")
        return TASKS[task].from_pretrained(name_or_path, **options)
    hub_options, _ = directory.split_hub_options(options)
    path = formats.locate(name_or_path, **hub_options)
    names = _architectures(path / directory.CONFIG) or [_by_heads(path)]
    for name in names:
        plain = re.sub(r"^(TF|Flax)(?=Albert)", "", name)
        if plain in _CLASSES:
            return _CLASSES[plain].from_pretrained(name_or_path, **options)
    raise UserError(
        f"A model's {directory.CONFIG} must name its class under 'architectures', one of "
        f"{', '.join(_CLASSES)}. Received: {', '.join(names)}, in {path}. "
        f"Name the task (task=…, or --task on the command line): {', '.join(TASKS)}."
    )


def _by_heads(path: Path) -> str:
    """The class whose heads a checkpoint has, where nothing names it."""
    checkpoint = formats.load(path)[0]
    return hugging_face.architecture(checkpoint.config, checkpoint.tensors)


def _architectures(file: Path) -> list[str]:
    """The classes that a configuration names; none where there is no such file."""
    if not file.is_file():
        return []
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} must be JSON. Received: {error}.") from error
    names = values.get("architectures") if isinstance(values, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []
