"""Pretrains ALBERT on the records of `build-data`, from random weights or from a checkpoint."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any, Final

import keras
import tensorflow as tf

from albert_tf.data.pretraining.batches import (
    batches_per_source,
    evaluation_batches,
    mixed_batches,
    whole_records,
)
from albert_tf.data.pretraining.sources import RecordFiles, find_records
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining
from albert_tf.optimizers import AlbertAdamW, Lamb, WarmupPolynomialDecay, averaged_weights
from albert_tf.options import accepts_keywords, decisive
from albert_tf.recipes import DROPOUT_RATES, size_config
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.training import distribution, reports, steps
from albert_tf.training.checkpoints import Checkpoints, digest, silent_about_new_weights, versions
from albert_tf.training.loop import Loop, Plan
from albert_tf.training.loss import pretraining_means
from albert_tf.training.options import PretrainingOptions

EVALUATION_BATCH: Final = 64
POINTS: Final = 1000  # of the history, at most
KEEP: Final = 3  # checkpoints


@accepts_keywords(PretrainingOptions)
def pretrain(options: PretrainingOptions) -> dict[str, Any]:
    """Trains, and writes a model directory with a report and its curves.

    The same call after an interruption resumes at the newest checkpoint and ends with the same
    weights.

    Returns:
        the report: settings, versions, the history of training and of evaluations.
    Raises:
        UserError: data, model or output are not usable; the loss is not finite or diverges.
        Interrupted: SIGINT or SIGTERM came; the same call resumes.
    """
    with whole_records(), distribution.on_devices(options) as strategy:
        return _train(options, strategy)


def _train(options: PretrainingOptions, strategy: Any) -> dict[str, Any]:
    """Resumes or begins the run on this host, and returns the report."""
    sources = [find_records(folder) for folder in options.data]
    for files in sources:
        files.steps_per_epoch(options.batch_size)  # refuses fewer records than a batch
    replicas = distribution.replicas(strategy)
    if options.batch_size % (replicas * options.micro_batches):
        raise UserError(
            "batch_size must be a multiple of the replicas times micro_batches. Received: "
            f"batch_size={options.batch_size}, {replicas} replicas, "
            f"micro_batches={options.micro_batches}."
        )
    held_out = find_records(options.eval_data) if options.eval_data else None
    keras.utils.set_random_seed(options.seed)
    schedule = WarmupPolynomialDecay(
        options.learning_rate, options.warmup_steps, options.steps, options.power, options.schedule
    )
    with distribution.scope(strategy):
        length = max(files.max_seq_length for files in sources)
        model, tokenizer = pretraining_model(options, length)
        optimizer = {"lamb": Lamb, "adamw": AlbertAdamW}[options.optimizer]
        average: dict[str, Any] = {}
        if options.ema is not None:
            average = {"use_ema": True, "ema_momentum": options.ema}
        model.compile(
            optimizer(
                schedule,
                beta_2=options.beta_2,
                bias_correction=options.optimizer == "adamw",
                global_clipnorm=1.0,
                **average,
            )
        )
    size = model.config.vocab_size
    for files in (*sources, *([held_out] if held_out else [])):
        if files.table and len(files.table.starts) > size:
            raise UserError(
                f"Records must fit the model's vocabulary, {size:,} tokens. Received: those of "
                f"{os.path.dirname(files.paths[0])}, for {len(files.table.starts):,}. Build the "
                "data again with --vocab."
            )
    sources = [dataclasses.replace(files, vocab_size=size) for files in sources]
    held_out = held_out and dataclasses.replace(held_out, vocab_size=size)
    data = [_identity(files) for files in sources]
    settings = {**decisive(options), "config": model.config.to_dict(), "data": data}
    checkpoints = Checkpoints(options.output, tokenizer, settings, KEEP)
    is_chief = distribution.is_chief(strategy)
    plan = Plan(
        options.steps,
        options.save_steps,
        options.eval_steps,
        point_steps=-(-options.steps // POINTS),
        stop_diverged=True,
    )
    loop = Loop(
        model,
        plan,
        schedule,
        pretraining_means,
        checkpoints=checkpoints if is_chief else None,
        evaluate=_evaluator(model, strategy, held_out) if held_out else None,
    )

    def tokens(steps: int) -> int:
        batches = zip(sources, batches_per_source(len(sources), steps), strict=True)
        return options.batch_size * sum(files.max_seq_length * count for files, count in batches)

    mean = tokens(len(sources)) / len(sources)
    loop.resume(options, checkpoints, strategy, "pretraining", {"tokens_per_second": mean})
    host = distribution.hosts(strategy)
    batches = mixed_batches(
        sources, options.batch_size, options.seed, loop.step, (host.index, host.count)
    )
    loop.train(options, strategy, batches, options.batch_size, jit_compile=options.jit_compile)
    report = {
        "settings": settings,
        "parameters": model.count_params(),
        "steps": loop.step,
        "tokens": tokens(loop.step),
        "seconds": loop.progress["seconds"],
        "history": loop.progress["history"],
        "evaluation": loop.progress["evaluation"],
        "versions": versions(),
    }
    if is_chief:
        reports.plot_curves(
            report["history"],
            report["evaluation"],
            reports.PRETRAINING,
            options.output / reports.CURVES,
        )
        with averaged_weights(model):
            checkpoints.save_best(model)
        checkpoints.publish(report)
    return report


def pretraining_model(
    options: PretrainingOptions, length: int
) -> tuple[AlbertForPreTraining, BaseTokenizer]:
    """Returns the model to pretrain, and the tokenizer of its records.

    Args:
        length: positions of the records' examples.
    """
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.data[0])
    if not options.vocab:
        for records in options.data[1:]:
            _check_same_vocabulary(options.data[0], records, tokenizer)
    rates: dict[str, Any] = {}
    if options.dropout is not None:
        rates = dict.fromkeys(DROPOUT_RATES, options.dropout)
    if options.init_checkpoint is None:
        assert options.size is not None  # one of the two is given
        config = size_config(options.size, tokenizer, **rates)
        model = AlbertForPreTraining(config, dtype=options.dtype_policy)
    else:
        with silent_about_new_weights(options.output):
            model = AlbertForPreTraining.from_pretrained(
                options.init_checkpoint, dtype=options.dtype_policy, **rates
            )
        _check_same_vocabulary(options.data[0], options.init_checkpoint, tokenizer)
    check_fit(tokenizer, model.config, length)
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.gradient_checkpointing_enable(options.gradient_checkpointing)
    return model, tokenizer


def _check_same_vocabulary(data: str, checkpoint: str, tokenizer: BaseTokenizer) -> None:
    """Refuses records whose ids mean other tokens than the checkpoint's."""
    try:
        own = AlbertTokenizer.from_pretrained(checkpoint)
    except UserError:  # weights without a vocabulary, such as the original's checkpoints
        return
    if own.get_vocab() != tokenizer.get_vocab():
        raise UserError(
            "A run must have one vocabulary, of its records and its weights. Received: "
            f"{data} and {checkpoint}, whose tokens differ. Build the data again with --vocab "
            f"{checkpoint}."
        )


def _identity(files: RecordFiles) -> dict[str, Any]:
    """Identifies records by their number, and a digest of their files' names and sizes."""
    sizes = [
        [os.path.basename(path), count, tf.io.gfile.stat(path).length]
        for path, count in zip(files.paths, files.counts, strict=True)
    ]
    how = dataclasses.asdict(files.dynamic) if files.dynamic else None
    return {"examples": sum(files.counts), "sha256_of_sizes": digest([sizes, how])}


def _evaluator(
    model: AlbertForPreTraining, strategy: Any, files: RecordFiles
) -> Callable[[], dict[str, float]]:
    evaluation = steps.Evaluation(model, strategy)
    batches = evaluation_batches(files, EVALUATION_BATCH)
    return lambda: pretraining_means(keras.ops.convert_to_numpy(evaluation(batches)))
