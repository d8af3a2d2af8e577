"""`pipeline(task, model)`: the tasks by name, and their models from files."""

import os
from typing import Any, Final

from albert_tf.checkpoints.finder import Found, find, split_hub_options
from albert_tf.errors import UserError
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)
from albert_tf.models.base import PreTrainedModel
from albert_tf.pipelines.base import Pipeline
from albert_tf.pipelines.feature_extraction import FeatureExtractionPipeline
from albert_tf.pipelines.fill_mask import FillMaskPipeline
from albert_tf.pipelines.question_answering import QuestionAnsweringPipeline
from albert_tf.pipelines.sentence_order import SentenceOrderPipeline
from albert_tf.pipelines.text_classification import TextClassificationPipeline
from albert_tf.pipelines.token_classification import TokenClassificationPipeline
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer

# What each task runs, and what it loads from files.
TASKS: Final[dict[str, tuple[type[Pipeline], type[PreTrainedModel]]]] = {
    "fill-mask": (FillMaskPipeline, AlbertForMaskedLM),
    "text-classification": (TextClassificationPipeline, AlbertForSequenceClassification),
    "token-classification": (TokenClassificationPipeline, AlbertForTokenClassification),
    "question-answering": (QuestionAnsweringPipeline, AlbertForQuestionAnswering),
    "feature-extraction": (FeatureExtractionPipeline, AlbertModel),
    "sentence-order": (SentenceOrderPipeline, AlbertForPreTraining),
}
ALIASES: Final = {"sentiment-analysis": "text-classification", "ner": "token-classification"}
# Models whose heads have one name, "classifier", in checkpoints.
_CLASSIFIERS: Final = (
    AlbertForMultipleChoice,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
)
_OPTIONAL: Final = {"pooler": (AlbertModel,)}  # parts that these models may do without


def pipeline(
    task: str,
    model: str | os.PathLike[str] | PreTrainedModel,
    tokenizer: str | os.PathLike[str] | BaseTokenizer | None = None,
    *,
    batch_size: int = 8,
    **options: Any,
) -> Pipeline:
    """A task from raw text to results, with the calls and results of Hugging Face's `pipeline`.

    ```python
    fill = pipeline("fill-mask", model="albert/albert-base-v2")
    fill("The [MASK] is open.")  # [{"score": …, "token": …, "token_str": …, "sequence": …}, …]
    ```

    Args:
        task: "fill-mask", "text-classification" ("sentiment-analysis"), "token-classification"
            ("ner"), "question-answering", "feature-extraction" or "sentence-order".
        model: a directory, a name on the hub, or whatever `from_pretrained` takes; or a model.
        tokenizer: a directory or a tokenizer. Default: the one beside the model.
        batch_size: rows that go through the model at once.
        **options: of the task, see its class in `albert_tf.pipelines`; and `revision`, `token`,
            `cache_dir`, `local_files_only` for the hub.
    Raises:
        UserError: no such task; no such model, or one for another task, whose head would be random;
            or a tokenizer that isn't the model's.
        TypeError: an option that the task doesn't have.
    """
    name = ALIASES.get(task, task)
    if name not in TASKS:
        raise UserError(f"A task is one of {', '.join([*TASKS, *ALIASES])}. Received: {task!r}.")
    hub_options, options = split_hub_options(options)
    kind, model_class = TASKS[name]
    if isinstance(model, str | os.PathLike):
        tokenizer = model if tokenizer is None else tokenizer
        found = find(model, **hub_options)
        _refuse_other_tasks(name, model_class, found)
        model = model_class.from_checkpoint(found.read())
    if tokenizer is None or model is None:
        raise UserError(
            "A pipeline needs a model, and a tokenizer where the model isn't read from files. "
            f"Received: model={type(model).__name__}, tokenizer={tokenizer!r}."
        )
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = AlbertTokenizer.from_pretrained(tokenizer, **hub_options)
    made = kind(model, tokenizer, batch_size, **options)
    _refuse_fresh_heads(name, model)
    return made


def _refuse_other_tasks(task: str, model_class: type[PreTrainedModel], found: Found) -> None:
    """Raises an error for a checkpoint whose configuration names another kind of classifier."""
    names = {name.removeprefix("TF").removeprefix("Flax") for name in found.architectures()}
    known = names & {each.__name__ for each in _CLASSIFIERS}
    if model_class in _CLASSIFIERS and known and model_class.__name__ not in known:
        raise UserError(
            f"The checkpoint of {task!r} must be of {model_class.__name__}. "
            f"Received: {found.folder}, of {', '.join(sorted(known))}."
        )


def _refuse_fresh_heads(task: str, model: PreTrainedModel) -> None:
    """Refuses a model whose answers would be random, unless it was trained since."""
    fresh = [part for part in model.fresh_parts if not isinstance(model, _OPTIONAL.get(part, ()))]
    optimizer = getattr(model, "optimizer", None)
    if fresh and not (optimizer is not None and int(optimizer.iterations) > 0):
        raise UserError(
            f"The model of {task!r} must have been trained for it. Received: a checkpoint without "
            f"{', '.join(fresh)}, so that its answers would be random. Fine-tune it first, or take "
            "another checkpoint."
        )
