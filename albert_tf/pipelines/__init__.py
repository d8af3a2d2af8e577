"""Pipelines that take raw text and return results, as in transformers."""

import os
import warnings
from typing import TYPE_CHECKING, Any, Final

from albert_tf.checkpoints.finder import find, split_hub_options
from albert_tf.errors import UserError
from albert_tf.files import is_exported
from albert_tf.pipelines.base import Pipeline
from albert_tf.pipelines.feature_extraction import FeatureExtractionPipeline
from albert_tf.pipelines.fill_mask import FillMaskPipeline
from albert_tf.pipelines.question_answering import QuestionAnsweringPipeline
from albert_tf.pipelines.text_classification import (
    SentenceOrderPipeline,
    TextClassificationPipeline,
)
from albert_tf.pipelines.token_classification import TokenClassificationPipeline
from albert_tf.pipelines.zero_shot_classification import ZeroShotClassificationPipeline
from albert_tf.quiet import hidden_stderr
from albert_tf.runtimes.exported import ExportedModel
from albert_tf.tasks import BY_PIPELINE
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.transformers_api import TransformersTokenizer

if TYPE_CHECKING:
    from albert_tf.models.base import PreTrainedModel

__all__ = [
    "FeatureExtractionPipeline",
    "FillMaskPipeline",
    "Pipeline",
    "QuestionAnsweringPipeline",
    "SentenceOrderPipeline",
    "TextClassificationPipeline",
    "TokenClassificationPipeline",
    "ZeroShotClassificationPipeline",
    "pipeline",
]
PIPELINES: Final[dict[str, type[Pipeline]]] = {
    each.task: each
    for each in (
        FillMaskPipeline,
        TextClassificationPipeline,
        TokenClassificationPipeline,
        QuestionAnsweringPipeline,
        FeatureExtractionPipeline,
        SentenceOrderPipeline,
        ZeroShotClassificationPipeline,
    )
}
ALIASES: Final = {"sentiment-analysis": "text-classification", "ner": "token-classification"}


def pipeline(
    task: str,
    model: "str | os.PathLike[str] | PreTrainedModel | ExportedModel",
    tokenizer: str | os.PathLike[str] | TransformersTokenizer | None = None,
    *,
    batch_size: int = 8,
    **options: Any,
) -> Pipeline:
    """Returns a pipeline that takes raw text and returns results, as in transformers.

    Example:

    >>> from albert_tf import pipeline
    >>> fill = pipeline("fill-mask", "small")  # or a directory, or "albert/albert-base-v2"
    >>> list(fill("The [MASK] is open.")[0])
    ['score', 'token', 'token_str', 'sequence']

    Args:
        task: "fill-mask", "text-classification" (alias "sentiment-analysis"),
            "token-classification" (alias "ner"), "question-answering", "feature-extraction",
            "sentence-order", or "zero-shot-classification".
        model: a model object, a name or path that `from_pretrained` accepts, or an exported .tflite
            or .onnx file (these run without TensorFlow).
        tokenizer: a tokenizer, or a directory or Hub model ID from which to load it. Default: the
            model's own tokenizer, from the same directory or the exported file.
        batch_size: number of sequences in a batch.
        **options: options of the task (see its class in `albert_tf.pipelines`), and the Hub options
            `revision`, `token`, `cache_dir`, and `local_files_only`. The older transformers names
            `return_all_scores`, `grouped_entities`, `ignore_subwords`, and `topk` are also
            accepted. `use_fast`, `num_workers`, and `padding` are ignored.
    Returns:
        A `Pipeline`.
    Raises:
        UserError: if the task or model doesn't exist, if the checkpoint has no trained head for the
            task (for a model object, there is only a warning), or if the tokenizer doesn't match
            the model. Also raised for `device`, `framework`, `torch_dtype`, and `model_kwargs`; the
            message explains what to do instead.
        TypeError: if the task doesn't support an option.
    """
    name = ALIASES.get(task, task)
    if name not in PIPELINES:
        raise UserError(
            f"task must be one of {', '.join([*PIPELINES, *ALIASES])}. Received: {task!r}."
        )
    hub_options, options = split_hub_options(options)
    is_read = isinstance(model, str | os.PathLike)
    if isinstance(model, str | os.PathLike) and is_exported(model):
        model = ExportedModel(model)
    if isinstance(model, str | os.PathLike):
        with hidden_stderr():  # TensorFlow prints messages when it is imported.
            from albert_tf.models import CLASSES

        tokenizer = model if tokenizer is None else tokenizer
        found = find(model, tokenizer=True, **hub_options)
        task_of_model = BY_PIPELINE[name]
        found.check_head(task_of_model.model)
        model = CLASSES[task_of_model.name].from_checkpoint(found.read())
    tokenizer = getattr(model, "tokenizer", None) if tokenizer is None else tokenizer
    if tokenizer is None or model is None:
        raise UserError(
            "A pipeline requires a model, and a tokenizer unless the model has one. "
            f"Received: model={type(model).__name__}, tokenizer={tokenizer!r}."
        )
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = AlbertTokenizer.from_pretrained(tokenizer, **hub_options)
    result = PIPELINES[name](model, tokenizer, batch_size, **options)
    _check_head(name, model, is_read)
    return result


def _check_head(task: str, model: "PreTrainedModel | ExportedModel", is_read: bool) -> None:
    """Rejects a checkpoint without a trained head, and warns if a model object has none."""
    if task == "feature-extraction" or not (fresh := model.untrained_parts()):
        return
    if is_read:
        raise UserError(
            f"The checkpoint has no weights for {', '.join(fresh)}, so the results of {task!r} "
            "would be random. Fine-tune it first, or use a different checkpoint."
        )
    warnings.warn(
        f"The results of {task!r} are random, because these parts of the model are untrained: "
        f"{', '.join(fresh)}. If you have trained them in your own loop or loaded their weights, "
        "call model.newly_initialized.clear().",
        stacklevel=3,
    )
