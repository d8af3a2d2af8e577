"""Pretrains ALBERT on the records of `build-data`, from random weights or from a checkpoint."""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import keras
import tensorflow as tf

from albert_tf.data.pretraining.batches import evaluation_batches, pretraining_batches
from albert_tf.data.pretraining.sources import RecordFiles, find_records
from albert_tf.errors import UserError
from albert_tf.files import written_atomically
from albert_tf.models import AlbertForPreTraining
from albert_tf.options import accepts_keywords, save_options
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.training import runtime
from albert_tf.training.fresh import size_config
from albert_tf.training.optimizers import AlbertAdamW, Lamb
from albert_tf.training.output import REPORT, check_output, versions
from albert_tf.training.pretraining import fit
from albert_tf.training.pretraining.checkpoints import STATE, Checkpoints
from albert_tf.training.pretraining.curves import plot
from albert_tf.training.pretraining.loop import Loop, Reporter
from albert_tf.training.pretraining.metrics import Sums, added, reported
from albert_tf.training.pretraining.options import PretrainingOptions
from albert_tf.training.pretraining.progress import ProgressLine
from albert_tf.training.pretraining.scalars import Scalars
from albert_tf.training.pretraining.step import EvaluationStep, TrainingStep
from albert_tf.training.schedules import WarmupPolynomialDecay

CHECKPOINTS: Final = "checkpoints"
LOGS: Final = "logs"
CURVES: Final = "curves.png"
EVALUATION_BATCH: Final = 64


@accepts_keywords(PretrainingOptions)
def pretrain(options: PretrainingOptions) -> dict[str, Any]:
    """Trains, and writes a model directory with a report and its curves.

    Calling it again with the same options after an interruption goes on exactly where it stopped.

    Returns:
        the report: settings, versions, the history of training and of evaluations.
    Raises:
        UserError: data, model or output are not as they must be; the loss is no number or diverges.
        Interrupted: SIGINT or SIGTERM came; the same call goes on.
    """
    runtime.check_dtype_policy(options.dtype_policy)
    strategy = runtime.strategy_for(options.strategy)
    output = options.output
    if options.force and runtime.is_chief(strategy):
        for part in (CHECKPOINTS, LOGS):
            shutil.rmtree(output / part, ignore_errors=True)
    elif not options.force:
        check_output(output, output / CHECKPOINTS)
    files = find_records(options.data)
    _check_batch(options, files, runtime.replicas(strategy))
    held_out = find_records(options.eval_data) if options.eval_data else None
    keras.utils.set_random_seed(options.seed)
    schedule = WarmupPolynomialDecay(
        options.learning_rate, options.warmup_steps, options.steps, options.power, options.schedule
    )
    with runtime.scope(strategy):
        model, tokenizer = _model_and_tokenizer(options, files)
        model.compile(_optimizer(options, schedule))
    settings = {**options.decisive(), "config": model.config.to_dict(), "data": _identity(files)}
    checkpoints = Checkpoints(output / CHECKPOINTS, tokenizer, settings, options.keep)
    loop = Loop(
        model,
        options,
        schedule,
        tokens=options.batch_size * files.max_seq_length,
        checkpoints=checkpoints if runtime.is_chief(strategy) else None,
        evaluate=_evaluator(model, strategy, held_out) if held_out else None,
    )
    with runtime.scope(strategy):
        loop.progress.update(checkpoints.load(model) or {})
        runtime.check_same_step(strategy, loop.step)
    if runtime.is_chief(strategy):  # the mark of a run that may go on, before its first checkpoint
        checkpoints.folder.mkdir(parents=True, exist_ok=True)
        save_options(options, output)
    loop.reporters = _reporters(options, loop) if runtime.is_chief(strategy) else ()
    try:
        with runtime.together(strategy):
            _train(loop, strategy, files)
    finally:
        for reporter in loop.reporters:
            reporter.close()
    report = _report(settings, model, loop)
    if runtime.is_chief(strategy):
        _write(output, checkpoints, report, model if options.ema else None)
    return report


def _check_batch(options: PretrainingOptions, files: RecordFiles, replicas: int) -> None:
    files.steps_per_epoch(options.batch_size)
    if options.batch_size % (replicas * options.micro_batches):
        raise UserError(
            "batch_size must be a multiple of the replicas times micro_batches. Received: "
            f"batch_size={options.batch_size}, {replicas} replicas, "
            f"micro_batches={options.micro_batches}."
        )


def _model_and_tokenizer(
    options: PretrainingOptions, files: RecordFiles
) -> tuple[AlbertForPreTraining, BaseTokenizer]:
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.data)
    rates: dict[str, Any] = dict.fromkeys(_DROPOUTS, options.dropout)
    if options.dropout is None:
        rates = {}
    if options.init_checkpoint is None:
        assert options.size is not None  # one of the two is given
        config = size_config(options.size, tokenizer, **rates)
        model = AlbertForPreTraining(config, dtype=options.dtype_policy)
    else:
        model = AlbertForPreTraining.from_pretrained(
            options.init_checkpoint, dtype=options.dtype_policy, **rates
        )
        _check_same_pieces(options, tokenizer)
    check_fit(tokenizer, model.config, files.max_seq_length)
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.gradient_checkpointing_enable(options.gradient_checkpointing)
    return model, tokenizer


def _check_same_pieces(options: PretrainingOptions, tokenizer: BaseTokenizer) -> None:
    """Refuses records whose ids mean other pieces than the weights were trained with."""
    assert options.init_checkpoint is not None
    try:
        own = AlbertTokenizer.from_pretrained(options.init_checkpoint)
    except UserError:  # weights without a vocabulary: the original's checkpoints, for one
        return
    if own.get_vocab() != tokenizer.get_vocab():
        raise UserError(
            "Records must be made with the vocabulary of the weights. Received: "
            f"{options.data} and {options.init_checkpoint}, whose pieces differ. Build the data "
            f"again with --vocab {options.init_checkpoint}."
        )


_DROPOUTS: Final = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def _optimizer(options: PretrainingOptions, schedule: WarmupPolynomialDecay) -> Any:
    kind = {"lamb": Lamb, "adamw": AlbertAdamW}[options.optimizer]
    average: dict[str, Any] = {}
    if options.ema is not None:
        average = {"use_ema": True, "ema_momentum": options.ema}
    return kind(
        schedule,
        weight_decay=options.weight_decay,
        beta_1=options.beta_1,
        beta_2=options.beta_2,
        bias_correction=options.bias_correction,
        global_clipnorm=options.clip_norm or None,
        **average,
    )


def _identity(files: RecordFiles) -> dict[str, Any]:
    """Tells records apart: their number, and a digest of their files' names and sizes."""
    sizes = [
        [os.path.basename(path), count, tf.io.gfile.stat(path).length]
        for path, count in zip(files.paths, files.counts, strict=True)
    ]
    how = dataclasses.asdict(files.dynamic) if files.dynamic else None
    digest = hashlib.sha256(json.dumps([sizes, how]).encode()).hexdigest()
    return {"examples": sum(files.counts), "sha256_of_sizes": digest}


def _evaluator(model: AlbertForPreTraining, strategy: Any, files: RecordFiles) -> Any:
    batches = evaluation_batches(files, EVALUATION_BATCH)
    if keras.backend.backend() == "tensorflow":
        step = EvaluationStep(model, strategy)
        distributed = strategy.experimental_distribute_dataset(batches)

        def evaluate() -> Sums:
            return added(map(step, distributed))
    else:
        evaluation = fit.Evaluation(model)

        def evaluate() -> Sums:
            return evaluation(batches)

    def scores() -> dict[str, float]:
        with averaged_weights(model):
            return reported(evaluate())

    return scores


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Within the block the model has its optimizer's average of the weights, if that keeps one."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not optimizer.use_ema:
        yield
        return
    own = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_variables]
    optimizer.finalize_variable_values(model.trainable_variables)
    try:
        yield
    finally:
        for weight, value in zip(model.trainable_variables, own, strict=True):
            weight.assign(value)


def _reporters(options: PretrainingOptions, loop: Loop) -> Sequence[Reporter]:
    return (
        ProgressLine(options.steps, loop.tokens, loop.step),
        Scalars(options.output / LOGS, loop.tokens, loop.step),
    )


def _train(loop: Loop, strategy: Any, files: RecordFiles) -> None:
    options, here = loop.options, runtime.hosts(strategy)
    batches = pretraining_batches(
        files, options.batch_size, options.seed, start=loop.step, part=(here.index, here.count)
    )
    if keras.backend.backend() != "tensorflow":
        with loop.started(), runtime.scope(strategy):
            steps = options.steps - loop.step
            fit.fit(loop.model, batches, steps, loop.after, options.micro_batches)
        return
    replicas = runtime.replicas(strategy)
    if replicas > 1:
        per_replica = batches.rebatch(options.batch_size // replicas, drop_remainder=True)
        batches = strategy.distribute_datasets_from_function(lambda context: per_replica)
    loop.run(
        TrainingStep(loop.model, strategy, options.micro_batches, options.jit_compile),
        iter(batches),
    )


def _report(settings: Mapping[str, Any], model: keras.Model, loop: Loop) -> dict[str, Any]:
    progress = loop.progress
    return {
        "settings": settings,
        "parameters": model.count_params(),
        "steps": loop.step,
        "tokens": loop.step * loop.tokens,
        "seconds": progress["seconds"],
        "history": progress["history"],
        "evaluation": progress["evaluation"],
        "versions": versions(),
    }


def _write(
    output: Path,
    checkpoints: Checkpoints,
    report: Mapping[str, Any],
    averaged: AlbertForPreTraining | None,
) -> None:
    """Makes a model directory of the last checkpoint, which stays until that is whole."""
    with written_atomically(output / CURVES, force=True) as path:
        plot(report["history"], report["evaluation"], path)
    last = checkpoints.found()[-1]
    if averaged is not None:
        with averaged_weights(averaged):
            averaged.save_pretrained(last)
    for source in last.iterdir():
        if source.name != STATE:
            with written_atomically(output / source.name, force=True) as target:
                shutil.copyfile(source, target)
    with written_atomically(output / REPORT, force=True) as path:
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(output / CHECKPOINTS)
