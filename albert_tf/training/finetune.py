"""Fine-tunes a model on a task, from files to a model directory."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras

from albert_tf.data.pipeline import steps_per_epoch, training_batches
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.data.tasks.named import task_of
from albert_tf.data.tasks.rows import Rows
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords, save_options
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training import reports, runtime, steps
from albert_tf.training.checkpoints import LOGS, Checkpoints, digest, prepared_output, versions
from albert_tf.training.evaluate import predictions
from albert_tf.training.loop import Loop, Plan
from albert_tf.training.optimizers import AlbertAdamW
from albert_tf.training.options import FinetuningOptions
from albert_tf.training.progress import Interval, ProgressLine
from albert_tf.training.recipes import Recipe
from albert_tf.training.scalars import Scalars
from albert_tf.training.schedules import WarmupPolynomialDecay
from albert_tf.training.start import finetuning_model
from albert_tf.training.sums import finetuning_means


@accepts_keywords(FinetuningOptions)
def finetune(options: FinetuningOptions) -> dict[str, Any]:
    """Trains, keeps the best version on dev, and writes a model directory with a report.

    The same call after an interruption resumes at the newest checkpoint and ends with the same
    weights.

    Returns:
        the report: settings, versions, scores after each epoch, the best ones.
    Raises:
        UserError: data, model or output are not usable; the loss is not finite.
        Interrupted: SIGINT or SIGTERM came; the same call resumes.
    """
    with prepared_output(options.output, options.force):
        return _trained(options, options.plan())


def _trained(options: FinetuningOptions, recipe: Recipe) -> dict[str, Any]:
    """Resumes or begins the run, and returns the report."""
    task = task_of(options)
    train, dev = task.train_and_dev(options.dev_fraction, options.seed)
    keras.utils.set_random_seed(options.seed)
    model, tokenizer = finetuning_model(options, recipe, task, train)
    rows = task.encode(train, tokenizer, model.config, tokenizer.model_max_length)
    plan = _plan(options, recipe, len(rows))
    schedule = _schedule(recipe, plan.steps)
    # Short runs need the correction of the moments' bias, which the original omits.
    model.compile(AlbertAdamW(schedule, bias_correction=True))
    settings = _settings(options, recipe, plan.steps, model, [*train, *dev])
    checkpoints = Checkpoints(options.output, tokenizer, settings, keep=1)
    means = partial(finetuning_means, has_accuracy=task.has_accuracy(model.config))
    evaluate = _evaluator(task, dev, model, tokenizer)
    loop = Loop(model, plan, schedule, means, checkpoints, evaluate)
    loop.progress.update(checkpoints.load(model))
    checkpoints.folder.mkdir(parents=True, exist_ok=True)  # marks a run that can be resumed
    save_options(options, options.output)
    loop.reporters = (
        ProgressLine("fine-tuning", plan.steps, Interval(means), loop.step),
        Scalars(options.output / LOGS, Interval(means), loop.step),
    )
    _train(loop, rows, recipe.batch_size, options.seed)
    report = {
        "settings": settings,
        "parameters": model.count_params(),
        "examples": {"train": len(train), "dev": len(dev)},
        **_results(loop.progress, recipe.batch_size),
        "versions": versions(),
    }
    checkpoints.publish(report, partial(_write_reports, options, task, dev, report, type(model)))
    return report


def _write_reports(
    options: FinetuningOptions,
    task: Task[Any, Any],
    dev: Sequence[Any],
    report: dict[str, Any],
    model_class: type[PreTrainedModel],
    folder: Path,
) -> None:
    """Writes the reports of the best version in `folder`."""
    model = model_class.from_pretrained(folder, dtype=options.dtype_policy)
    tokenizer = AlbertTokenizer.from_pretrained(folder)
    rows = task.encode(dev, tokenizer, model.config, tokenizer.model_max_length)
    found = predictions(task, dev, rows, model)
    reports.write_predictions(folder, task, dev, found, model.config)
    reports.write_finetuning(options.output, folder, report, model)


def _evaluator(
    task: Task[Any, Any], dev: Sequence[Any], model: PreTrainedModel, tokenizer: BaseTokenizer
) -> Callable[[], dict[str, float]]:
    """Returns a function that chooses thresholds on dev, and returns the scores there."""
    rows = task.encode(dev, tokenizer, model.config, tokenizer.model_max_length)

    def evaluate() -> dict[str, float]:
        found = predictions(task, dev, rows, model)
        model.config = model.config.replace(**task.tuned(dev, found))
        return task.scores(dev, found, model.config)

    return evaluate


def _plan(options: FinetuningOptions, recipe: Recipe, examples: int) -> Plan:
    """Evaluates after each epoch and saves the best version."""
    epoch = steps_per_epoch(examples, recipe.batch_size)
    return Plan(
        recipe.steps or recipe.epochs * epoch,
        options.save_steps,
        eval_steps=epoch,
        point_steps=epoch,
        keep_best=True,
        patience=options.patience,
    )


def _schedule(recipe: Recipe, steps: int) -> WarmupPolynomialDecay:
    warmup = int(recipe.warmup if recipe.warmup >= 1 else recipe.warmup * steps)
    return WarmupPolynomialDecay(recipe.learning_rate, min(warmup, steps - 1), steps, form="usual")


def _train(loop: Loop, data: Rows, batch_size: int, seed: int) -> None:
    strategy = runtime.strategy_for("none")
    batches = training_batches(data, batch_size, seed, start=loop.step)
    step = steps.TrainingStep(loop.model, strategy, signature=batches.element_spec)
    loop.run(step, steps.batches(batches, strategy, batch_size))


def _settings(
    options: FinetuningOptions,
    recipe: Recipe,
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
        "seed": options.seed,
        "dtype_policy": options.dtype_policy,
        "patience": options.patience,
        **recipe._asdict(),
        "steps": steps,
    }


def _results(progress: dict[str, Any], batch_size: int) -> dict[str, Any]:
    """Returns the best scores, and for each epoch the means of training and the scores on dev.

    `metrics` names the scores; the first chose the best version. The examples per second include
    evaluations and checkpoints.
    """
    history = [
        {**point, **{f"val_{name}": value for name, value in scores.items() if name != "step"}}
        for point, scores in zip(progress["history"], progress["evaluation"], strict=True)
    ]
    best = dict(progress["best"])
    epoch = best.pop("evaluation")
    return {
        "step": progress["step"],
        "seconds": progress["seconds"],
        "examples_per_second": progress["step"] * batch_size / progress["seconds"],
        "metrics": [name for name in best if name not in ("score", ONE_CLASS)],
        "history": history,
        "best": {"epoch": epoch, "step": history[epoch - 1]["step"], **best},
    }
