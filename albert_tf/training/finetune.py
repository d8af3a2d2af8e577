"""Fine-tunes a model on a task, from files to a model directory."""

import hashlib
import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np

from albert_tf import models
from albert_tf.checkpoints import finder, weights
from albert_tf.config import AlbertConfig, is_size
from albert_tf.data.pipeline import batches, filled_size, steps_per_epoch
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.classification import ONE_CLASS, Classification, baseline_scores
from albert_tf.data.tasks.registry import TrainingData
from albert_tf.data.tasks.rows import IGNORED, Rows
from albert_tf.errors import UserError
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.task import TaskModel
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.options import accepts_keywords, decisive
from albert_tf.recipes import DROPOUT_RATES, Recipe, size_config
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.training import distribution, reports
from albert_tf.training.callbacks import Curve, KeepBest, Resume
from albert_tf.training.checkpoints import (
    BEST,
    LOGS,
    digest,
    list_checkpoints,
    publish,
    silent_about_new_weights,
    versions,
)
from albert_tf.training.evaluate import predictions
from albert_tf.training.options import (
    BALANCED,
    CHECKPOINTS,
    FinetuningOptions,
    check_frozen,
    weights_by_label,
)
from albert_tf.training.reports import is_unbalanced
from albert_tf.training.run import train

FEW: Final = 10  # examples on dev
logger = logging.getLogger(__name__)


@accepts_keywords(FinetuningOptions)
def finetune(options: FinetuningOptions) -> dict[str, Any]:
    """Trains, keeps the best version on dev, and writes a model directory with a report.

    The same call after an interruption resumes at the newest checkpoint and ends with the same
    weights.

    Returns:
        the report: settings, versions, scores after each epoch, the best ones.
    Raises:
        UserError: data, model or output are not usable; the loss is not finite or rises.
        Interrupted: SIGINT or SIGTERM came; the same call resumes.
    """
    return finetune_on(options, options.read())


def finetune_on(options: FinetuningOptions, data: TrainingData) -> dict[str, Any]:
    """Does what `finetune` does, with examples that are already parsed."""
    with distribution.on_devices(options) as strategy:
        report = _train(options, data, strategy)
    if report["best"].get(ONE_CLASS):
        labels = report["data"]["labels"]
        logger.warning(
            "The model has not learned: nearly all its predictions on dev are alike. Try "
            "--learning-rate %g, a third of this run's, or another --seed.%s",
            report["settings"]["learning_rate"] / 3,
            " The classes are unbalanced: give --class-weights balanced."
            if is_unbalanced(labels)
            else "",
        )
    return report


def _train(options: FinetuningOptions, given: TrainingData, strategy: Any) -> dict[str, Any]:
    """Resumes or begins the run on this host, and returns its report."""
    task, training, dev, _ = given
    data = _summary(options, given)
    recipe = options.recipe(task.recipe_name(training), len(training))
    keras.utils.set_random_seed(options.seed)
    with distribution.scope(strategy):
        model, tokenizer = _model(options, recipe, task, training)
        length = tokenizer.model_max_length
        rows, dev_rows = (
            task.encode(examples, tokenizer, model.config, length) for examples in (training, dev)
        )
        epoch = steps_per_epoch(len(rows), recipe.batch_size)
        steps = recipe.steps or recipe.epochs * epoch
        schedule = _compile(model, options, recipe, task, steps)
    model.tokenizer = tokenizer
    data["cut"], data["max_length"] = rows.cut, length
    held_out = _HeldOut(task, dev, dev_rows, model, distribution.replicas(strategy))
    settings = {
        **decisive(options),
        **recipe._asdict(),
        "steps": steps,
        "labels": list(model.config.labels),
        # Without their places in the files.
        "examples_sha256": digest([example[:-1] for example in (*training, *dev)]),
        "vocab_sha256": hashlib.sha256(tokenizer.model_bytes).hexdigest(),
    }
    host, is_chief = distribution.hosts(strategy), distribution.is_chief(strategy)
    # Squared errors and weighted losses have other units than `DIVERGED`.
    stops = model.config.problem_type != "regression" and not options.class_weights
    folder = options.output / CHECKPOINTS
    curve = Curve(
        *(steps, epoch, schedule),
        folder=options.output / LOGS if is_chief else None,
        stop_diverged=stops,
    )
    keep = KeepBest(
        *(held_out.scores, folder / BEST if is_chief else None, epoch),
        patience=options.patience,
        on_score=curve.note_scores,
    )
    resume = Resume(
        folder,
        options.save_steps,
        settings=settings,
        others=(curve, keep),
        host=(host.index, host.count),
    )
    if is_chief:
        print("\n".join(reports.in_lines(data)), file=sys.stderr, flush=True)
    parts = distribution.replicas(strategy) * options.micro_batches
    weights = class_weights(options, model.config, rows)

    def from_number(start: int) -> Any:
        return batches(
            *(rows, recipe.batch_size, options.seed),
            start=start,
            endless=True,
            class_weight=weights,
            parts=parts,
            part=(host.index, host.count),
            jit_compile=model.jit_compile,
        )

    size = filled_size(recipe.batch_size, parts)
    train(options, strategy, model, from_number, size, curve, resume, keep)
    report = {
        "settings": {"data": str(options.data), **settings},
        "parameters": model.count_params(),
        "examples": {"train": len(training), "dev": len(dev)},
        "data": data,
        **_results(curve, keep, resume, len(rows), recipe.batch_size),
        "versions": versions(),
    }
    if is_chief:
        publish(options.output, report, partial(held_out.write_reports, options.output, report))
    return report


def _summary(options: FinetuningOptions, given: TrainingData) -> dict[str, Any]:
    """Returns the report's summary of the examples; warns if dev has few."""
    task, training, dev, config = given
    if len(dev) < FEW:
        logger.warning(
            "dev has %d of the examples in %s: too few to choose the best version by. Give "
            "more, or a single file with a larger --dev-fraction.",
            *(len(dev), options.data),
        )
    data = reports.summarize(task, training, dev)
    if options.baseline:
        assert isinstance(task, Classification), "one of TEXT_CLASSES"
        data["baseline"] = baseline_scores(task, training, dev, config)
    return data


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


def _model(
    options: FinetuningOptions, recipe: Recipe, task: Task[Any, Any], train: Sequence[Any]
) -> tuple[PreTrainedModel, BaseTokenizer]:
    """Returns a model with the task's labels and head, and its tokenizer."""
    changes = {
        **task.config_fields(train),
        **dict.fromkeys(DROPOUT_RATES, recipe.dropout),
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


def _compile(
    model: TaskModel,
    options: FinetuningOptions,
    recipe: Recipe,
    task: Task[Any, Any],
    steps: int,
) -> WarmupPolynomialDecay:
    """Freezes layers, gives the model an optimizer, and returns the learning rate schedule."""
    warmup = int(recipe.warmup if recipe.warmup >= 1 else recipe.warmup * steps)
    schedule = WarmupPolynomialDecay(
        recipe.learning_rate, min(warmup, steps - 1), steps, form="usual"
    )
    if options.freeze is not None:
        freeze(model, options.frozen_layers)
    # Short runs need the correction of the moments' bias, which the original omits.
    model.compile(
        AlbertAdamW(schedule, bias_correction=True),
        weighted_metrics=["accuracy"] if task.has_accuracy(model.config) else None,
        micro_batches=options.micro_batches,
    )
    return schedule


def class_weights(
    options: FinetuningOptions, config: AlbertConfig, rows: Rows
) -> list[float] | None:
    """Returns the weight of each class's loss; None without weights.

    As in Keras, the mean divides by the examples, not by the sum of their weights.

    Args:
        config: the model's.
        rows: of training, whose classes are counted for balanced weights.
    """
    if tuple(options.class_weights) != (BALANCED,):
        return weights_by_label(options.class_weights, config.labels)
    classes = np.concatenate([np.ravel(label) for label in rows.labels["labels"]])
    counts = np.bincount(classes[classes != IGNORED], minlength=config.num_labels)
    present = np.count_nonzero(counts)
    return np.where(counts, counts.sum() / (present * np.maximum(counts, 1)), 1.0).tolist()


class _HeldOut:
    """The examples of dev, which each host predicts on one device.

    Args:
        rows: the encoded examples.
        model: the one that trains, which a copy predicts for if it is on several devices.
    """

    def __init__(
        self,
        task: Task[Any, Any],
        examples: Sequence[Any],
        rows: Rows,
        model: PreTrainedModel,
        replicas: int,
    ):
        self.task, self.examples, self.rows, self.model = task, examples, rows, model
        self.on_one = model if replicas == 1 else type(model).from_config(model.get_config())

    def scores(self) -> dict[str, float]:
        """Chooses thresholds on dev, and returns the scores there."""
        if self.on_one is not self.model:
            self.on_one.set_weights(self.model.get_weights())
        predicted = predictions(self.task, self.examples, self.rows, self.on_one)
        thresholds = self.task.fit_thresholds(self.examples, predicted)
        self.model.config = self.model.config.replace(**thresholds)
        return self.task.scores(self.examples, predicted, self.model.config)

    def write_reports(self, output: Path, report: dict[str, Any], folder: Path) -> None:
        """Predicts with the best version, which is in `folder`, and writes reports there."""
        best = finder.find(folder).read()
        weights.assign(self.on_one, best.tensors, best.origin)
        self.on_one.config = best.config
        predicted = predictions(self.task, self.examples, self.rows, self.on_one)
        reports.write_predictions(folder, self.task, self.examples, predicted, best.config)
        reports.write_finetuning(output, folder, report, self.on_one)


def _results(
    curve: Curve, keep: KeepBest, resume: Resume, rows: int, batch_size: int
) -> dict[str, Any]:
    """Returns the best scores, and for each epoch the means of training and the scores on dev.

    `metrics` names the scores; the first chose the best version. The examples per second include
    evaluations and checkpoints.

    Args:
        rows: examples of an epoch, whose last batch may be smaller than `batch_size`.
    """
    assert keep.best is not None
    epochs, steps = divmod(resume.step, steps_per_epoch(rows, batch_size))
    examples = epochs * rows + steps * batch_size
    history = [
        {**point, **{f"val_{name}": value for name, value in scores.items() if name != "step"}}
        for point, scores in zip(curve.history, keep.scores, strict=True)
    ]
    best = {name: value for name, value in keep.best.items() if name not in ("number", "step")}
    return {
        "step": resume.step,
        "seconds": resume.seconds,
        "examples_per_second": examples / resume.seconds,
        "metrics": [name for name in best if name != ONE_CLASS],
        "history": history,
        "best": {
            "epoch": int(keep.best["number"]),
            "step": int(keep.best["step"]),
            "score": next(iter(best.values())),
            **best,
        },
    }
