"""Pretrains ALBERT on the records of `build-data`, from random weights or from a checkpoint."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from albert_tf.data.pretraining.batches import evaluation_batches
from albert_tf.data.pretraining.mixing import mixed_batches, taken
from albert_tf.data.pretraining.parsing import whole_records
from albert_tf.data.pretraining.sources import RecordFiles, find_records
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining
from albert_tf.options import accepts_keywords
from albert_tf.training import runtime, steps
from albert_tf.training.checkpoints import Checkpoints, digest, versions
from albert_tf.training.curves import CURVES, plot_pretraining
from albert_tf.training.loop import Loop
from albert_tf.training.optimizers import AlbertAdamW, Lamb, averaged_weights
from albert_tf.training.plan import Plan
from albert_tf.training.pretraining_options import PretrainingOptions
from albert_tf.training.run import on_devices, resume, train
from albert_tf.training.schedules import WarmupPolynomialDecay
from albert_tf.training.start import pretraining_model
from albert_tf.training.sums import pretraining_means

EVALUATION_BATCH: Final = 64
POINTS: Final = 1000  # of the history, at most


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
    return on_devices(options, lambda strategy: _trained(options, strategy))


@whole_records()
def _trained(options: PretrainingOptions, strategy: Any) -> dict[str, Any]:
    """Resumes or begins the run on this host, and returns the report."""
    sources = [find_records(each) for each in options.data]
    weights = options.weights or (1,) * len(sources)
    _check_batch(options, sources, runtime.replicas(strategy))
    held_out = find_records(options.eval_data) if options.eval_data else None
    keras.utils.set_random_seed(options.seed)
    schedule = WarmupPolynomialDecay(
        options.learning_rate, options.warmup_steps, options.steps, options.power, options.schedule
    )
    with runtime.scope(strategy):
        model, tokenizer = pretraining_model(options, max(each.max_seq_length for each in sources))
        model.compile(_optimizer(options, schedule))
    size = model.config.vocab_size
    for files in (*sources, *([held_out] if held_out else [])):
        if files.table and len(files.table.starts) > size:
            raise UserError(
                f"Records must fit the model's vocabulary, {size:,} pieces. Received: those of "
                f"{os.path.dirname(files.paths[0])}, for {len(files.table.starts):,}. Build the "
                "data again with --vocab."
            )
    sources = [dataclasses.replace(each, vocab_size=size) for each in sources]
    held_out = held_out and dataclasses.replace(held_out, vocab_size=size)
    data = _identity_of_all(sources, weights)
    settings = {**options.decisive(), "config": model.config.to_dict(), "data": data}
    checkpoints = Checkpoints(options.output, tokenizer, settings, options.keep)
    loop = Loop(
        model,
        _plan(options),
        schedule,
        pretraining_means,
        checkpoints=checkpoints if runtime.is_chief(strategy) else None,
        evaluate=_evaluator(model, strategy, held_out) if held_out else None,
    )

    def tokens(steps: int) -> int:
        batches = zip(sources, taken(weights, steps), strict=True)
        return options.batch_size * sum(each.max_seq_length * count for each, count in batches)

    mean = tokens(sum(weights)) / sum(weights)
    resume(loop, checkpoints, options, strategy, "pretraining", {"tokens_per_second": mean})
    here = runtime.hosts(strategy)
    part = (here.index, here.count)
    batches = mixed_batches(sources, weights, options.batch_size, options.seed, loop.step, part)
    train(loop, options, strategy, batches, options.batch_size)
    report = _report(settings, loop, tokens(loop.step))
    if runtime.is_chief(strategy):
        _publish(checkpoints, report, model)
    return report


def _check_batch(
    options: PretrainingOptions, sources: Sequence[RecordFiles], replicas: int
) -> None:
    for files in sources:
        files.steps_per_epoch(options.batch_size)
    if options.batch_size % (replicas * options.micro_batches):
        raise UserError(
            "batch_size must be a multiple of the replicas times micro_batches. Received: "
            f"batch_size={options.batch_size}, {replicas} replicas, "
            f"micro_batches={options.micro_batches}."
        )


def _optimizer(options: PretrainingOptions, schedule: WarmupPolynomialDecay) -> AlbertAdamW:
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


def _plan(options: PretrainingOptions) -> Plan:
    return Plan(
        options.steps,
        options.save_steps,
        options.save_minutes,
        options.eval_steps,
        point_steps=-(-options.steps // POINTS),
        stop_diverged=True,
    )


def _identity_of_all(sources: Sequence[RecordFiles], weights: Sequence[int]) -> Any:
    """Identifies what a run reads; one set of records has no weight."""
    if len(sources) == 1:
        return _identity(sources[0])
    return [
        {**_identity(files), "weight": weight}
        for files, weight in zip(sources, weights, strict=True)
    ]


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


def _report(settings: Mapping[str, Any], loop: Loop, tokens: int) -> dict[str, Any]:
    progress = loop.progress
    return {
        "settings": settings,
        "parameters": loop.model.count_params(),
        "steps": loop.step,
        "tokens": tokens,
        "seconds": progress["seconds"],
        "history": progress["history"],
        "evaluation": progress["evaluation"],
        "versions": versions(),
    }


def _publish(
    checkpoints: Checkpoints, report: Mapping[str, Any], model: AlbertForPreTraining
) -> None:
    """Writes the curves, and a model directory with the last weights or their average."""
    plot_pretraining(report["history"], report["evaluation"], checkpoints.output / CURVES)
    with averaged_weights(model):
        checkpoints.save_best(model)
    checkpoints.publish(report)
