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

from albert_tf import bfloat16, models
from albert_tf.checkpoints import finder, weights
from albert_tf.config import AlbertConfig, is_size
from albert_tf.data.pipeline import Batches, Share, steps_per_epoch
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.classification import ONE_CLASS, Classification, baseline_scores
from albert_tf.data.tasks.registry import TrainingData
from albert_tf.data.tasks.rows import IGNORED, Rows
from albert_tf.errors import UserError
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.task import TaskModel
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.options import accepts_keywords, decisive
from albert_tf.outputs import BEST, CHECKPOINTS, LOGS
from albert_tf.recipes import DROPOUT_RATES, Recipe, size_config
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.training import distribution, reports
from albert_tf.training.callbacks import KeepBest
from albert_tf.training.checkpoints import (
    digest,
    publish,
    silent_about_new_weights,
    steps_in,
    versions,
)
from albert_tf.training.curve import Curve
from albert_tf.training.evaluate import predictions
from albert_tf.training.options import (
    BALANCED,
    FinetuningOptions,
    check_frozen,
    weights_by_label,
)
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
    bfloat16.suggest(bfloat16.STEP, options.dtype_policy)
    with distribution.on_devices(options) as strategy:
        report = _train(options, data, strategy)
    if report["best"].get(ONE_CLASS):
        logger.warning(
            "The model has not learned: nearly all its predictions on dev are alike. Try "
            "--learning-rate %g, a third of this run's, or another --seed.%s",
            report["settings"]["learning_rate"] / 3,
            " The classes are unbalanced: give --class-weights balanced."
            if reports.is_unbalanced(report["data"]["labels"])
            else "",
        )
    return report


def _train(options: FinetuningOptions, data: TrainingData, strategy: Any) -> dict[str, Any]:
    """Resumes or begins the run on this host, and returns its report."""
    task, training, dev, config = data
    recipe = options.recipe(task.recipe_name(training), len(training))
    if len(dev) < FEW:
        logger.warning(
            "dev has %d of the examples in %s: too few to choose the best version by. Give "
            "more, or a single file with a larger --dev-fraction.",
            *(len(dev), options.data),
        )
    summary = reports.summarize(task, training, dev)
    if options.baseline:
        assert isinstance(task, Classification), "one of TEXT_CLASSES"
        summary["baseline"] = baseline_scores(task, training, dev, config)

    keras.utils.set_random_seed(options.seed)
    with distribution.scope(strategy):
        model = _model(options, recipe, task, training)
        length = model.tokenizer.model_max_length
        rows, dev_rows = (
            task.encode(examples, model.tokenizer, model.config, length)
            for examples in (training, dev)
        )
        epoch = steps_per_epoch(len(rows), recipe.batch_size)
        steps = recipe.steps or recipe.epochs * epoch
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
    summary |= {"cut": rows.cut, "max_length": length}
    rows.weight_by_class(class_weights(options, model.config, rows))

    replicas, is_chief = distribution.replicas(strategy), distribution.is_chief(strategy)
    checkpoints = options.output / CHECKPOINTS
    held_out = _HeldOut(task, dev, dev_rows, model, replicas)
    settings = {
        **decisive(options),
        **recipe._asdict(),
        "steps": steps,
        "labels": list(model.config.labels),
        # Without their places in the files.
        "examples_sha256": digest([example[:-1] for example in (*training, *dev)]),
        "vocab_sha256": hashlib.sha256(model.tokenizer.model_bytes).hexdigest(),
    }
    curve = Curve(
        *(steps, epoch, schedule),
        folder=options.output / LOGS if is_chief else None,
        # Squared errors and weighted losses have other units than `DIVERGED`.
        stop_diverged=model.config.problem_type != "regression" and not options.class_weights,
    )
    keep = KeepBest(
        *(held_out.scores, checkpoints / BEST if is_chief else None, epoch),
        patience=options.patience,
        on_score=curve.note_scores,
    )
    if is_chief:
        print("\n".join(reports.in_lines(summary)), file=sys.stderr, flush=True)

    def from_number(start: int) -> Any:
        parts = replicas * options.micro_batches
        share = Share(parts, *distribution.hosts(strategy))
        own = Batches(
            *(rows, recipe.batch_size, options.seed),
            share=share,
            jit_compile=model.jit_compile,
        )
        return distribution.shared(own.endless(start), strategy, share.size(recipe.batch_size))

    resume = train(options, strategy, model, from_number, settings, curve, keep)

    epochs, more = divmod(resume.step, epoch)  # the last batch of an epoch may be smaller
    examples = epochs * len(rows) + more * recipe.batch_size
    assert keep.best is not None
    best = {name: value for name, value in keep.best.items() if name not in ("number", "step")}
    report = {
        "settings": {"data": str(options.data), **settings},
        "parameters": model.count_params(),
        "examples": {"train": len(training), "dev": len(dev)},
        "data": summary,
        "step": resume.step,
        "seconds": resume.seconds,
        # Evaluations and checkpoints included.
        "examples_per_second": examples / resume.seconds,
        # The first one chose the best version.
        "metrics": [name for name in best if name != ONE_CLASS],
        "history": [
            point | {f"val_{name}": value for name, value in scores.items() if name != "step"}
            for point, scores in zip(curve.history, keep.scores, strict=True)
        ],
        "best": {
            "epoch": keep.best["number"],
            "step": keep.best["step"],
            "score": next(iter(best.values())),
            **best,
        },
        "versions": versions(),
    }
    if is_chief:
        held_out.write_reports(checkpoints / BEST, options.output, report)
        publish(options.output, report)
    return report


def _model(
    options: FinetuningOptions, recipe: Recipe, task: Task[Any, Any], train: Sequence[Any]
) -> TaskModel:
    """Returns a model with the task's labels and head, and with its tokenizer."""
    changes = {**task.config_fields(train), **dict.fromkeys(DROPOUT_RATES, recipe.dropout)}
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
    model.tokenizer = tokenizer
    model.gradient_checkpointing_enable(options.gradient_checkpointing)
    return model


def _tokenizer_of_new_model(
    options: FinetuningOptions, task: Task[Any, Any], train: Sequence[Any]
) -> BaseTokenizer:
    """Returns the tokenizer of an interrupted run, of a vocabulary file, or made from the texts."""
    interrupted = [] if options.force else steps_in(options.output / CHECKPOINTS)
    if interrupted:
        return AlbertTokenizer.from_pretrained(interrupted[-1])
    if options.vocab is not None:
        if not options.vocab.exists():
            raise UserError(
                "The vocabulary must be a file (spiece.model, vocab.txt) or a folder with one. "
                f"Received: {options.vocab}, which doesn't exist."
            )
        return AlbertTokenizer.from_pretrained(options.vocab)
    texts = [text for example in train for text in task.texts(example)]
    return AlbertTokenizer(train_vocabulary(texts, options.vocab_size))


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
    encoder = model._backbone().encoder
    check_frozen(layers, model.config.num_hidden_layers)
    model._backbone().embedding.trainable = False
    encoder.frozen_layers = layers
    for number, group in enumerate(encoder.schedule):  # the last layer with a weight decides
        for block in encoder.group(group):
            block.attention.trainable = block.ffn.trainable = number >= layers


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
    from sklearn.utils.class_weight import compute_class_weight

    classes = np.concatenate([np.ravel(label) for label in rows.labels["labels"]])
    classes = classes[classes != IGNORED]
    present, weights = np.unique(classes), np.ones(config.num_labels)
    weights[present] = compute_class_weight("balanced", classes=present, y=classes)
    return weights.tolist()


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
        self.task, self.examples, self.model = task, examples, model
        self.on_one = model if replicas == 1 else type(model).from_config(model.get_config())
        self.predicted = partial(predictions, task, examples, rows, self.on_one)

    def scores(self) -> dict[str, float]:
        """Chooses thresholds on dev, and returns the scores there."""
        if self.on_one is not self.model:
            self.on_one.set_weights(self.model.get_weights())
        predicted = self.predicted()
        thresholds = self.task.fit_thresholds(self.examples, predicted)
        self.model.config = self.model.config.replace(**thresholds)
        return self.task.scores(self.examples, predicted, self.model.config)

    def write_reports(self, folder: Path, output: Path, report: dict[str, Any]) -> None:
        """Predicts with the best version, which is in `folder`, and writes reports there."""
        best = finder.find(folder).read()
        weights.assign(self.on_one, best.tensors, best.origin)
        self.on_one.config = best.config
        reports.write_predictions(folder, self.task, self.examples, self.predicted(), best.config)
        reports.write_finetuning(output, folder, report, self.on_one)
