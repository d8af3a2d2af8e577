"""The model and the tokenizer that a run starts with."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from albert_tf import models
from albert_tf.checkpoints import weights
from albert_tf.config import SIZES, AlbertConfig
from albert_tf.data.tasks.base import Task
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.training.checkpoints import found_checkpoints
from albert_tf.training.options import FinetuningOptions
from albert_tf.training.pretraining_options import PretrainingOptions
from albert_tf.training.recipes import Recipe, is_size


def size_config(size: str, tokenizer: BaseTokenizer, **changes: Any) -> AlbertConfig:
    """Returns the configuration of a named size for a vocabulary, or of a JSON file.

    Args:
        **changes: fields to override.
    Raises:
        UserError: there is no such size or file, or the file isn't an ALBERT configuration.
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
            f"A size must be one of {', '.join(SIZES)}, or a configuration file (JSON). "
            f"Received: {size!r}."
        )
    return dataclasses.replace(AlbertConfig.from_json_file(size), **changes)


def pretraining_model(
    options: PretrainingOptions, length: int
) -> tuple[AlbertForPreTraining, BaseTokenizer]:
    """Returns the model to pretrain, and the tokenizer of its records.

    Args:
        length: positions of the records' rows.
    """
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.data[0])
    if not options.vocab:
        for records in options.data[1:]:
            _check_same_pieces(options.data[0], records, tokenizer)
    rates = {} if options.dropout is None else _dropout(options.dropout)
    if options.init_checkpoint is None:
        assert options.size is not None  # one of the two is given
        config = size_config(options.size, tokenizer, **rates)
        model = AlbertForPreTraining(config, dtype=options.dtype_policy)
    else:
        with _silent_on_new_parts(options.output):
            model = AlbertForPreTraining.from_pretrained(
                options.init_checkpoint, dtype=options.dtype_policy, **rates
            )
        _check_same_pieces(options.data[0], options.init_checkpoint, tokenizer)
    check_fit(tokenizer, model.config, length)
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.gradient_checkpointing_enable(options.gradient_checkpointing)
    return model, tokenizer


def finetuning_model(
    options: FinetuningOptions, plan: Recipe, task: Task[Any, Any], train: Sequence[Any]
) -> tuple[PreTrainedModel, BaseTokenizer]:
    """Returns a model with the task's labels and head, and its tokenizer."""
    changes = {
        **task.config_fields(train),
        **_dropout(plan.dropout),
        "classifier_dropout_prob": plan.classifier_dropout,
    }
    model_class = getattr(models, task.model)
    if is_size(options.model):
        tokenizer = _tokenizer_of_new_model(options, task, train)
        config = size_config(options.model, tokenizer, **changes)
        model = model_class(config, dtype=options.dtype_policy)
    else:
        with _silent_on_new_parts(options.output):
            model = model_class.from_pretrained(
                options.model,
                dtype=options.dtype_policy,
                ignore_mismatched_sizes=True,  # a model of another task gets a new head
                **changes,
            )
        tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.model)
    limit = min(plan.max_length, model.config.max_position_embeddings)
    tokenizer.model_max_length = options.max_length or limit  # predictions, exports truncate there
    check_fit(tokenizer, model.config, tokenizer.model_max_length)
    model.gradient_checkpointing_enable(options.gradient_checkpointing)
    return model, tokenizer


@contextlib.contextmanager
def _silent_on_new_parts(output: Path) -> Iterator[None]:
    """Hides the warning of new weights where a run resumes, which replaces them."""
    before = weights.logger.level
    if found_checkpoints(output):
        weights.logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        weights.logger.setLevel(before)


def _dropout(rate: float) -> dict[str, Any]:
    return {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}


def _check_same_pieces(data: str, checkpoint: str, tokenizer: BaseTokenizer) -> None:
    """Refuses records whose ids stand for other pieces than the weights were trained with."""
    try:
        own = AlbertTokenizer.from_pretrained(checkpoint)
    except UserError:  # weights without a vocabulary, such as the original's checkpoints
        return
    if own.get_vocab() != tokenizer.get_vocab():
        raise UserError(
            "A run must have one vocabulary, of its records and its weights. Received: "
            f"{data} and {checkpoint}, whose pieces differ. Build the data again with --vocab "
            f"{checkpoint}."
        )


def _tokenizer_of_new_model(
    options: FinetuningOptions, task: Task[Any, Any], train: Sequence[Any]
) -> BaseTokenizer:
    """Returns the tokenizer of an interrupted run, of a vocabulary file, or made from the texts."""
    found = [] if options.force else found_checkpoints(options.output)
    if found:
        return AlbertTokenizer.from_pretrained(found[-1])
    if options.vocab is not None:
        if not options.vocab.exists():
            raise UserError(
                "The vocabulary must be a file (spiece.model, vocab.txt) or a folder with one. "
                f"Received: {options.vocab}, which is not there."
            )
        return AlbertTokenizer.from_pretrained(options.vocab)
    texts = [text for example in train for text in task.texts(example)]
    return AlbertTokenizer(train_vocabulary(texts, options.vocab_size))
