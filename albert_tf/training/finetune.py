"""Fine-tunes a model on a task, from files to a model directory."""

import dataclasses
import hashlib
import logging
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import keras

from albert_tf import models
from albert_tf.checkpoints import finder, weights
from albert_tf.config import AlbertConfig
from albert_tf.data.pipeline import filled_size, steps_per_epoch, training_batches
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.classification import ONE_CLASS, baseline_scores
from albert_tf.data.tasks.registry import task_of
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError
from albert_tf.files import read_json, require_same, write_json
from albert_tf.models.base import PreTrainedModel
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.options import FILE, accepts_keywords, save_options
from albert_tf.recipes import DROPOUT_RATES, Recipe, is_size, size_config
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.training import distribution, reports
from albert_tf.training.checkpoints import (
    LOGS,
    REPORT,
    Checkpoints,
    copy_files,
    digest,
    list_checkpoints,
    remove_folder,
    settings_so_far,
    silent_about_new_weights,
    versions,
)
from albert_tf.training.distillation import Teacher
from albert_tf.training.evaluate import milliseconds_per_example, predictions
from albert_tf.training.loop import Loop, Plan
from albert_tf.training.loss import baseline_loss, finetuning_means, loss_options
from albert_tf.training.options import CHECKPOINTS, FinetuningOptions, check_depths, check_frozen

FEW: Final = 10  # examples on dev
# Settings that are paths; the content behind them is compared when a run is resumed.
_PATHS: Final = ("data", "vocab", "teacher", "unlabelled")
_SLOWER: Final = 3  # the learning rate of a second try is divided by this
logger = logging.getLogger(__name__)
Report = dict[str, Any]


@accepts_keywords(FinetuningOptions)
def finetune(options: FinetuningOptions) -> Report:
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
    with distribution.on_devices(options) as strategy:
        task = task_of(options)
        training, dev = task.train_and_dev(options.dev_fraction, options.seed)
        if len(dev) < FEW:
            logger.warning(
                "dev has %d of the examples in %s: too few to choose the best version by. Give "
                "more, or a single file with a larger --dev-fraction.",
                *(len(dev), options.data),
            )
        data = reports.summarize(task, training, dev)
        if options.baseline:
            config = AlbertConfig(**task.config_fields(training))
            data["baseline"] = baseline_scores(task, training, dev, config)
        recipe = options.recipe(len(training))
        teacher = None
        if options.teacher is not None:
            teacher = Teacher(options, recipe, task, training)
            data["unlabelled"] = len(teacher.unlabelled)
        train = partial(
            _train,
            task=task,
            training=training,
            dev=dev,
            data=data,
            strategy=strategy,
            teacher=teacher,
        )
        run = partial(_train_or_restart, train, recipe, strategy)
        if options.seeds == 1:
            return run(options, options.seed)
        return train_seeds(options, run, distribution.is_chief(strategy))


def train_seeds(
    options: FinetuningOptions, train: Callable[[FinetuningOptions, int], Report], is_chief: bool
) -> Report:
    """Trains a run for each seed, in a folder among the checkpoints, and publishes the best one.

    Args:
        train: trains with a seed to the options' output, or returns the report that is there.
    Returns:
        the best run's report; its `seeds` has each run's seed and best scores, then each score's
        median, lowest and highest.
    """
    folders = {
        # Each run's folder has the output's name, which the model's card shows.
        seed: options.output / CHECKPOINTS / f"seed-{seed}" / options.output.resolve().name
        for seed in range(options.seed, options.seed + options.seeds)
    }
    runs = {
        seed: train(dataclasses.replace(options, output=folder, force=False), seed)
        for seed, folder in folders.items()
    }
    best = max(runs, key=lambda seed: runs[seed]["best"]["score"])
    scores = {name: [run["best"][name] for run in runs.values()] for name in runs[best]["metrics"]}
    summary_of_seeds = {
        "runs": [
            {"seed": seed, **run["best"], "stopped": run["stopped"], "seconds": run["seconds"]}
            for seed, run in runs.items()
        ],
        **{
            measure.__name__: {name: measure(values) for name, values in scores.items()}
            for measure in (statistics.median, min, max)
        },
    }
    report = {**runs[best], "seeds": summary_of_seeds}
    if is_chief:
        copy_files(folders[best], options.output, but=(REPORT, FILE))
        for seed, folder in folders.items():
            logs = options.output / LOGS / f"seed-{seed}"
            shutil.copytree(folder / LOGS, logs, dirs_exist_ok=True)
        save_options(options, options.output)
        write_json(options.output / REPORT, report)
        remove_folder(options.output / CHECKPOINTS)
    return report


def _train_or_restart(
    train: Callable[[FinetuningOptions, Recipe, int], dict[str, Any]],
    recipe: Recipe,
    strategy: Any,
    options: FinetuningOptions,
    seed: int,
) -> dict[str, Any]:
    """Trains; once more at a third of the default rate if the model has not learned.

    An interrupted second run resumes: its checkpoints have its rate, and so has its report, which
    counts where several seeds each have a folder.
    """
    if options.learning_rate is not None:
        return train(options, recipe, seed)
    rate = recipe.learning_rate / _SLOWER
    slower = dataclasses.replace(options, learning_rate=rate), recipe._replace(learning_rate=rate)
    is_interrupted = options.seeds > 1 or bool(list_checkpoints(options.output))
    so_far = settings_so_far(options.output) if is_interrupted else {}
    if so_far.get("learning_rate") == rate:
        return train(*slower, seed)
    report = train(options, recipe, seed)
    if not report["best"].get(ONE_CLASS):
        return report
    logger.warning(
        "At a rate of %g the model has not learned: nearly all its predictions on dev are alike. "
        "It is trained once more, at %g.",
        *(recipe.learning_rate, rate),
    )
    if distribution.is_chief(strategy):
        shutil.rmtree(options.output / LOGS, ignore_errors=True)
        if options.seeds > 1:
            (options.output / REPORT).unlink(missing_ok=True)  # It would end the second run.
    return train(*slower, seed)


def _train(
    options: FinetuningOptions,
    recipe: Recipe,
    seed: int,
    task: Task[Any, Any],
    training: Sequence[Any],
    dev: Sequence[Any],
    data: dict[str, Any],
    strategy: Any,
    teacher: Teacher | None,
) -> dict[str, Any]:
    """Resumes or begins a run on this host, and returns its report.

    Args:
        data: the summary of the examples.
        seed: of weights, order and dropout; `options.seed` splits a single file.
    """
    keras.utils.set_random_seed(seed)
    with distribution.scope(strategy):
        model, tokenizer = _model(options, recipe, task, training)
        encode = partial(
            task.encode,
            tokenizer=tokenizer,
            config=model.config,
            max_length=tokenizer.model_max_length,
        )
        rows = encode(training)
        if teacher is not None:
            unlabelled = encode(teacher.unlabelled) if teacher.unlabelled else None
            teacher.add_soft_labels(rows, unlabelled, options.soft_temperature)
        loss = loss_options(options, task, model.config, rows)
        baseline = baseline_loss(rows, model.config, loss)
        epoch = steps_per_epoch(len(rows), recipe.batch_size)
        steps = recipe.steps or recipe.epochs * epoch
        warmup = int(recipe.warmup if recipe.warmup >= 1 else recipe.warmup * steps)
        schedule = WarmupPolynomialDecay(
            recipe.learning_rate, min(warmup, steps - 1), steps, form="usual"
        )
        check_depths(options.depths, model.config)
        model.albert.encoder.depths = options.depths  # sampled ones change with each step
        if options.freeze is not None:
            freeze(model, options.frozen_layers)
        multipliers = None
        if options.layer_decay < 1:
            multipliers = learning_rate_multipliers(model, options.layer_decay)
        # Short runs need the correction of the moments' bias, which the original omits.
        model.compile(AlbertAdamW(schedule, bias_correction=True, rate_factors=multipliers))

    settings = _settings(options, recipe, seed, steps, model, [*training, *dev])
    settings["teacher_sha256"] = None if teacher is None else teacher.digest
    settings["vocab_sha256"] = hashlib.sha256(tokenizer.model_bytes).hexdigest()
    decisive = {name: value for name, value in settings.items() if name not in _PATHS}
    if options.seeds > 1 and (options.output / REPORT).is_file():  # this seed's run is complete
        report = read_json(options.output / REPORT)
        then = {name: value for name, value in report["settings"].items() if name not in _PATHS}
        require_same(options.output, then, decisive)
        return report

    checkpoints = Checkpoints(options.output, tokenizer, decisive, keep=1)
    dev_rows = encode(dev)
    replicas, is_chief = distribution.replicas(strategy), distribution.is_chief(strategy)
    # Each host predicts all of dev on one device; a model on several has a copy for it.
    on_one = model if replicas == 1 else type(model).from_config(model.get_config())
    shallow = [on_one.with_depth(depth) for depth in options.depths[:-1]]
    plan = Plan(
        steps,
        options.save_steps,
        eval_steps=epoch,
        point_steps=epoch,
        keep_best=True,
        patience=options.patience,
        stop_diverged=baseline is None,
        baseline_loss=baseline,
    )
    loop = Loop(
        model,
        plan,
        schedule,
        partial(finetuning_means, has_accuracy=task.has_accuracy(model.config)),
        checkpoints=checkpoints if is_chief else None,
        evaluate=partial(_evaluate, task, dev, dev_rows, model, on_one, shallow),
    )
    data["cut"], data["max_length"] = rows.cut, tokenizer.model_max_length
    if is_chief and seed == options.seed:
        print("\n".join(reports.in_lines(data)), file=sys.stderr, flush=True)
    speed = {"examples_per_second": len(rows) / epoch}
    name = "fine-tuning" if options.seeds == 1 else f"fine-tuning, seed {seed}"
    loop.resume(options, checkpoints, strategy, name, speed)

    host, slices = distribution.hosts(strategy), replicas * options.micro_batches
    batches = training_batches(
        rows,
        recipe.batch_size,
        seed,
        loop.step,
        slices,
        part=(host.index, host.count),
        jit_compile=options.jit_compile or model.jit_compile,
    )
    size = filled_size(recipe.batch_size, slices)
    sampled = options.depths if options.depth_sampling else ()
    loop.train(options, strategy, batches, size, batches.element_spec, loss, sampled, seed)

    report = {
        "settings": settings,
        "parameters": model.count_params(),
        "examples": {"train": len(training), "dev": len(dev)},
        "data": data,
        **_results(loop.progress, len(rows), recipe.batch_size),
        "versions": versions(),
    }
    if is_chief:
        finish = partial(_write_reports, options, task, dev, dev_rows, report, on_one, shallow)
        checkpoints.publish(report, finish)
    return report


def freeze(model: PreTrainedModel, layers: int) -> None:
    """Stops the training of the embeddings and of the first layers; call it before `compile`.

    No gradient passes the first `layers` layers. Weights that a later layer uses too, as all
    layers of a published ALBERT do, train by that layer's gradient alone; the others stay as they
    are, without weight decay too. The embeddings are the tables and their projection.

    Args:
        layers: 0 for the embeddings alone.
    Raises:
        UserError: the model has fewer layers.
    """
    encoder, count = model._backbone().encoder, model.config.num_hidden_layers
    check_frozen(layers, count)
    model._backbone().embedding.trainable = False
    encoder.frozen_layers = layers
    parts = [
        [part for block in encoder.group(group) for part in (block.attention, block.ffn)]
        for group in encoder.schedule
    ]
    used_later = {id(part) for layer in parts[layers:] for part in layer}
    for layer in parts[:layers]:
        for part in layer:
            part.trainable = id(part) in used_later


def learning_rate_multipliers(model: PreTrainedModel, decay: float) -> Mapping[str, float]:
    """Returns learning rate multipliers, by the paths of the encoder's trainable weights.

    Layers that share weights have one rate, so depth counts the groups of layers: `decay` for the
    last group, its square for the one before, and so on down to the embeddings. Weights that
    several groups share have the factor of the last one. The pooler and the head keep the rate.
    """
    backbone, groups = model._backbone(), model.config.stored_groups
    layers = [[backbone.embedding], *map(backbone.encoder.group, range(groups))]
    return {
        variable.path: decay ** (groups + 1 - depth)
        for depth, parts in enumerate(layers)
        for part in parts
        for variable in part.trainable_variables
    }


def _model(
    options: FinetuningOptions, recipe: Recipe, task: Task[Any, Any], train: Sequence[Any]
) -> tuple[PreTrainedModel, BaseTokenizer]:
    """Returns a model with the task's labels and head, and its tokenizer."""
    changes = {
        **task.config_fields(train),
        **dict.fromkeys(DROPOUT_RATES, recipe.dropout),
        "classifier_dropout_prob": recipe.classifier_dropout,
    }
    model_class = getattr(models, task.model)
    if is_size(options.model):
        tokenizer = _tokenizer_of_new_model(options, task, train)
        config = size_config(options.model, tokenizer, **changes)
        model = model_class(config, dtype=options.dtype_policy)
    else:
        with silent_about_new_weights(options.output):
            model = model_class.from_pretrained(
                options.model,
                dtype=options.dtype_policy,
                ignore_mismatched_sizes=True,  # a model of another task gets a new head
                **changes,
            )
        tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.model)
    limit = min(recipe.max_length, model.config.max_position_embeddings)
    tokenizer.model_max_length = options.max_length or limit  # predictions, exports truncate there
    check_fit(tokenizer, model.config, tokenizer.model_max_length)
    model.gradient_checkpointing_enable(options.gradient_checkpointing)
    return model, tokenizer


def _tokenizer_of_new_model(
    options: FinetuningOptions, task: Task[Any, Any], train: Sequence[Any]
) -> BaseTokenizer:
    """Returns the tokenizer of an interrupted run, of a vocabulary file, or made from the texts."""
    interrupted = [] if options.force else list_checkpoints(options.output)
    if interrupted:
        return AlbertTokenizer.from_pretrained(interrupted[-1])
    if options.vocab is not None:
        if not options.vocab.exists():
            raise UserError(
                "The vocabulary must be a file (spiece.model, vocab.txt) or a folder with one. "
                f"Received: {options.vocab}, which is not there."
            )
        return AlbertTokenizer.from_pretrained(options.vocab)
    texts = [text for example in train for text in task.texts(example)]
    return AlbertTokenizer(train_vocabulary(texts, options.vocab_size))


def _evaluate(
    task: Task[Any, Any],
    dev: Sequence[Any],
    rows: Rows,
    model: PreTrainedModel,
    on_one: PreTrainedModel,
    shallow: Sequence[PreTrainedModel],
) -> dict[str, float]:
    """Chooses thresholds on dev, and returns the scores there.

    With other depths, the mean of the leading score over all depths comes first, and the scores at
    each of the others last.
    """
    if on_one is not model:
        on_one.set_weights(model.get_weights())
    predicted = predictions(task, dev, rows, on_one)
    model.config = model.config.replace(**task.fit_thresholds(dev, predicted))
    scores = task.scores(dev, predicted, model.config)
    if not shallow:
        return scores
    leading = next(iter(scores))
    at_depths: dict[str, float] = {}
    for other in shallow:
        found = task.scores(dev, predictions(task, dev, rows, other), model.config)
        depth = other.config.num_hidden_layers
        at_depths |= {f"{name}_at_{depth}": found[name] for name in found if name != ONE_CLASS}
    own = [at_depths[f"{leading}_at_{other.config.num_hidden_layers}"] for other in shallow]
    mean = statistics.mean([*own, scores[leading]])
    return {f"{leading}_over_depths": mean, **scores, **at_depths}


def _write_reports(
    options: FinetuningOptions,
    task: Task[Any, Any],
    dev: Sequence[Any],
    rows: Rows,
    report: dict[str, Any],
    model: PreTrainedModel,
    shallow: Sequence[PreTrainedModel],
    folder: Path,
) -> None:
    """Gives the model the weights of the best version, in `folder`, and writes reports there.

    With several depths, `depths` of the report has the scores of each, and its time.
    """
    best = finder.find(folder).read()
    weights.assign(model, best.tensors, best.origin)
    model.config = best.config
    predicted = predictions(task, dev, rows, model)
    reports.write_predictions(folder, task, dev, predicted, model.config)
    if shallow:
        scores = report["best"]
        names = [name for name in scores if f"{name}_at_{options.depths[0]}" in scores]
        report["depths"] = [
            {
                "layers": layers,
                **{name: scores.get(f"{name}_at_{layers}", scores[name]) for name in names},
                "milliseconds": milliseconds_per_example(rows, at_depth),
            }
            for layers, at_depth in zip(options.depths, (*shallow, model), strict=True)
        ]
    reports.write_finetuning(options.output, folder, report, model)


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
        "teacher": options.teacher,
        "unlabelled": None if options.unlabelled is None else str(options.unlabelled),
        "teacher_dtype_policy": options.teacher_dtype_policy,
        "distill_weight": options.distill_weight,
        "temperature": options.soft_temperature,
        "depths": list(options.depths),
        "depth_sampling": options.depth_sampling,
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
