"""Fine-tunes a model on a task, from files to a model directory."""

import dataclasses
import hashlib
import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import keras

from albert_tf.checkpoints import finder, weights
from albert_tf.config import AlbertConfig
from albert_tf.data.pipeline import filled_size, steps_per_epoch, training_batches
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.data.tasks.named import task_of
from albert_tf.data.tasks.rows import Rows
from albert_tf.data.tasks.summary import in_lines, summary
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.training import reports, runtime
from albert_tf.training.checkpoints import (
    LOGS,
    REPORT,
    Checkpoints,
    digest,
    found_checkpoints,
    settings_so_far,
    versions,
)
from albert_tf.training.depth import freeze, rate_factors
from albert_tf.training.evaluate import predictions
from albert_tf.training.loop import Loop
from albert_tf.training.objective import Objective, constant_loss, objective
from albert_tf.training.optimizers import AlbertAdamW
from albert_tf.training.options import FinetuningOptions
from albert_tf.training.plan import Plan
from albert_tf.training.recipes import Recipe
from albert_tf.training.run import on_devices, resume, train
from albert_tf.training.schedules import WarmupPolynomialDecay
from albert_tf.training.seeds import finished, train_seeds
from albert_tf.training.start import finetuning_model
from albert_tf.training.sums import finetuning_means

FEW: Final = 10  # examples on dev
# Settings that say where something lay; its content is compared when a run is resumed.
_PLACES: Final = ("data", "vocab")
_SLOWER: Final = 3  # by how much the rate of a second try is lower
logger = logging.getLogger(__name__)


@accepts_keywords(FinetuningOptions)
def finetune(options: FinetuningOptions) -> dict[str, Any]:
    """Trains, keeps the best version on dev, and writes a model directory with a report.

    With several seeds, the model is the best run's. A run at the default rate that has not learned
    is repeated once, at a third of it.

    The same call after an interruption resumes at the newest checkpoint and ends with the same
    weights.

    Returns:
        the report: settings, versions, scores after each epoch, the best ones; `stopped` says why
            a run ended early; `seeds` has the runs of several seeds, and their scores' median.
    Raises:
        UserError: data, model or output are not usable; the loss is not finite.
        Interrupted: SIGINT or SIGTERM came; the same call resumes.
    """

    def job(strategy: Any) -> dict[str, Any]:
        task = task_of(options)
        training, dev = task.train_and_dev(options.dev_fraction, options.seed)
        if len(dev) < FEW:
            logger.warning(
                "dev has %d of the examples in %s: too few to choose the best version by. Give "
                "more, or a single file with a larger --dev-fraction.",
                *(len(dev), options.data),
            )
        data = summary(task, training, dev)
        if options.baseline:
            config = AlbertConfig(**task.config_fields(training))
            data["baseline"] = task.baseline(training, dev, config)
        trained = partial(
            _trained, task=task, training=training, dev=dev, data=data, strategy=strategy
        )
        run = partial(_restarted, trained, strategy)
        if options.seeds == 1:
            return run(options, options.seed)
        return train_seeds(options, run, runtime.is_chief(strategy))

    return on_devices(options, job)


def _restarted(
    train: Callable[[FinetuningOptions, int], dict[str, Any]],
    strategy: Any,
    options: FinetuningOptions,
    seed: int,
) -> dict[str, Any]:
    """Trains; once more at a third of the default rate if the model has not learned.

    An interrupted second run resumes: its checkpoints have its rate, and so has its report, which
    counts where several seeds each have a folder.
    """
    if options.learning_rate is not None:
        return train(options, seed)
    rate = options.plan().learning_rate
    slower = dataclasses.replace(options, learning_rate=rate / _SLOWER)
    is_interrupted = options.seeds > 1 or bool(found_checkpoints(options.output))
    so_far = settings_so_far(options.output) if is_interrupted else {}
    if so_far.get("learning_rate") == slower.learning_rate:
        return train(slower, seed)
    report = train(options, seed)
    if not report["best"].get(ONE_CLASS):
        return report
    logger.warning(
        "At a rate of %g the model has not learned: nearly all its predictions on dev are alike. "
        "It is trained once more, at %g.",
        *(rate, slower.learning_rate),
    )
    if runtime.is_chief(strategy):
        shutil.rmtree(options.output / LOGS, ignore_errors=True)
        if options.seeds > 1:
            (options.output / REPORT).unlink(missing_ok=True)  # It would end the second run.
    return train(slower, seed)


def _trained(
    options: FinetuningOptions,
    seed: int,
    task: Task[Any, Any],
    training: Sequence[Any],
    dev: Sequence[Any],
    data: dict[str, Any],
    strategy: Any,
) -> dict[str, Any]:
    """Resumes or begins a run on this host, and returns its report.

    Args:
        data: the summary of the examples.
        seed: of weights, order and dropout; `options.seed` splits a single file.
    """
    recipe = options.plan()
    keras.utils.set_random_seed(seed)
    with runtime.scope(strategy):
        model, tokenizer = finetuning_model(options, recipe, task, training)
        rows = task.encode(training, tokenizer, model.config, tokenizer.model_max_length)
        loss = objective(options, task, model.config, rows)
        plan = _plan(options, recipe, rows, constant_loss(rows, model.config, loss))
        schedule = _schedule(recipe, plan.steps)
        model.compile(_optimizer(options, model, schedule))
    settings = _settings(options, recipe, seed, plan.steps, model, [*training, *dev])
    settings["vocab_sha256"] = hashlib.sha256(tokenizer.model_bytes).hexdigest()
    decisive = {name: value for name, value in settings.items() if name not in _PLACES}
    done = finished(options.output, decisive, _PLACES) if options.seeds > 1 else None
    if done:
        return done
    checkpoints = Checkpoints(options.output, tokenizer, decisive, keep=1)
    dev_rows = task.encode(dev, tokenizer, model.config, tokenizer.model_max_length)
    on_one = _on_one_device(model, strategy)
    is_chief = runtime.is_chief(strategy)
    loop = Loop(
        model,
        plan,
        schedule,
        partial(finetuning_means, has_accuracy=task.has_accuracy(model.config)),
        checkpoints=checkpoints if is_chief else None,
        evaluate=_evaluator(task, dev, dev_rows, model, on_one),
    )
    data["cut"], data["max_length"] = rows.cut, tokenizer.model_max_length
    if is_chief and seed == options.seed:
        print("\n".join(in_lines(data)), file=sys.stderr, flush=True)
    speed = {"examples_per_second": len(rows) / steps_per_epoch(len(rows), recipe.batch_size)}
    name = "fine-tuning" if options.seeds == 1 else f"fine-tuning, seed {seed}"
    resume(loop, checkpoints, options, strategy, name, speed)
    _train(loop, options, strategy, rows, recipe.batch_size, seed, loss)
    report = {
        "settings": settings,
        "parameters": model.count_params(),
        "examples": {"train": len(training), "dev": len(dev)},
        "data": data,
        **_results(loop.progress, len(rows), recipe.batch_size),
        "versions": versions(),
    }
    if is_chief:
        finish = partial(_write_reports, options, task, dev, dev_rows, report, on_one)
        checkpoints.publish(report, finish)
    return report


def _on_one_device(model: PreTrainedModel, strategy: Any) -> PreTrainedModel:
    """Returns the model, or a copy without its weights if it is on several devices."""
    if runtime.replicas(strategy) == 1:
        return model
    return type(model)(model.config, dtype=model.dtype_policy)


def _evaluator(
    task: Task[Any, Any],
    dev: Sequence[Any],
    rows: Rows,
    model: PreTrainedModel,
    on_one: PreTrainedModel,
) -> Callable[[], dict[str, float]]:
    """Returns a function that chooses thresholds on dev, and returns the scores there.

    Each host predicts all of dev on one device.
    """

    def evaluate() -> dict[str, float]:
        if on_one is not model:
            on_one.set_weights(model.get_weights())
        found = predictions(task, dev, rows, on_one)
        model.config = model.config.replace(**task.tuned(dev, found))
        return task.scores(dev, found, model.config)

    return evaluate


def _write_reports(
    options: FinetuningOptions,
    task: Task[Any, Any],
    dev: Sequence[Any],
    rows: Rows,
    report: dict[str, Any],
    model: PreTrainedModel,
    folder: Path,
) -> None:
    """Gives the model the weights of the best version, in `folder`, and writes reports there."""
    best = finder.find(folder).read()
    weights.assign(model, best.tensors, best.origin)
    model.config = best.config
    found = predictions(task, dev, rows, model)
    reports.write_predictions(folder, task, dev, found, model.config)
    reports.write_finetuning(options.output, folder, report, model)


def _train(
    loop: Loop,
    options: FinetuningOptions,
    strategy: Any,
    rows: Rows,
    batch_size: int,
    seed: int,
    loss: Objective,
) -> None:
    here, parts = runtime.hosts(strategy), runtime.replicas(strategy) * options.micro_batches
    batches = training_batches(
        rows,
        batch_size,
        seed,
        loop.step,
        parts,
        part=(here.index, here.count),
        jit_compile=options.jit_compile or loop.model.jit_compile,
    )
    details = {"signature": batches.element_spec, "objective": loss}
    train(loop, options, strategy, batches, filled_size(batch_size, parts), **details)


def _plan(
    options: FinetuningOptions, recipe: Recipe, rows: Rows, constant_loss: float | None
) -> Plan:
    """Evaluates after each epoch and saves the best version."""
    epoch = steps_per_epoch(len(rows), recipe.batch_size)
    return Plan(
        recipe.steps or recipe.epochs * epoch,
        options.save_steps,
        eval_steps=epoch,
        point_steps=epoch,
        keep_best=True,
        patience=options.patience,
        stop_diverged=constant_loss is None,
        constant_loss=constant_loss,
    )


def _optimizer(
    options: FinetuningOptions, model: PreTrainedModel, schedule: WarmupPolynomialDecay
) -> AlbertAdamW:
    """Freezes what doesn't train, and returns the optimizer of the rest."""
    if options.freeze is not None:
        freeze(model, options.frozen_layers)
    factors = rate_factors(model, options.layer_decay) if options.layer_decay < 1 else None
    # Short runs need the correction of the moments' bias, which the original omits.
    return AlbertAdamW(schedule, bias_correction=True, rate_factors=factors)


def _schedule(recipe: Recipe, steps: int) -> WarmupPolynomialDecay:
    warmup = int(recipe.warmup if recipe.warmup >= 1 else recipe.warmup * steps)
    return WarmupPolynomialDecay(recipe.learning_rate, min(warmup, steps - 1), steps, form="usual")


def _settings(
    options: FinetuningOptions,
    recipe: Recipe,
    seed: int,
    steps: int,
    model: PreTrainedModel,
    examples: Sequence[Any],
) -> dict[str, Any]:
    """Returns all that decides what the run computes."""
    return {
        "task": options.task,
        "data": str(options.data),
        "examples_sha256": digest([example[:-1] for example in examples]),  # without their places
        "labels": list(model.config.labels),
        "model": options.model,
        "vocab": None if options.vocab is None else str(options.vocab),
        "vocab_size": options.vocab_size,
        "seed": seed,
        "split_seed": options.seed,
        "dtype_policy": options.dtype_policy,
        "micro_batches": options.micro_batches,
        "gradient_checkpointing": options.gradient_checkpointing,
        "freeze": options.freeze,
        "layer_decay": options.layer_decay,
        "class_weights": list(options.class_weights),
        "label_smoothing": options.label_smoothing,
        "patience": options.patience,
        **recipe._asdict(),
        "steps": steps,
    }


def _results(progress: dict[str, Any], rows: int, batch_size: int) -> dict[str, Any]:
    """Returns the best scores, and for each epoch the means of training and the scores on dev.

    `metrics` names the scores; the first chose the best version. The examples per second include
    evaluations and checkpoints.

    Args:
        rows: examples of an epoch, whose last batch may be smaller than `batch_size`.
    """
    epochs, steps = divmod(progress["step"], steps_per_epoch(rows, batch_size))
    examples = epochs * rows + steps * batch_size
    history = [
        {**point, **{f"val_{name}": value for name, value in scores.items() if name != "step"}}
        for point, scores in zip(progress["history"], progress["evaluation"], strict=True)
    ]
    best = dict(progress["best"])
    epoch = best.pop("evaluation")
    return {
        "step": progress["step"],
        "seconds": progress["seconds"],
        "stopped": progress["stopped"],
        "examples_per_second": examples / progress["seconds"],
        "metrics": [name for name in best if name not in ("score", ONE_CLASS)],
        "history": history,
        "best": {"epoch": epoch, "step": history[epoch - 1]["step"], **best},
    }
