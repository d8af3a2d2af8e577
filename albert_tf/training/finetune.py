"""Fine-tunes a model on a task's files and writes a model directory."""

import hashlib
import logging
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import keras
import numpy as np

from albert_tf import models
from albert_tf.config import AlbertConfig, is_size
from albert_tf.data.pipeline import Batches, Share, steps_per_epoch
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.classification import ONE_CLASS, Classification, baseline_scores
from albert_tf.data.tasks.labels import MULTI_LABEL
from albert_tf.data.tasks.registry import TrainingData
from albert_tf.data.tasks.rows import Rows
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.task import TaskModel
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.options import accepts_keywords
from albert_tf.outputs import CHECKPOINTS
from albert_tf.recipes import DROPOUT_RATES, Recipe, size_config
from albert_tf.tasks import IGNORED
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.training import reports
from albert_tf.training.callbacks import KeepBest
from albert_tf.training.checkpoints import steps_in
from albert_tf.training.curve import Curve
from albert_tf.training.evaluate import HeldOut
from albert_tf.training.options import BALANCED, FinetuningOptions, check_frozen, weights_by_label
from albert_tf.training.run import Run, digest, open_run, publish, silent_about_new_weights

FEW: Final = 10  # with fewer dev examples, a warning is logged
_RISEN: Final = 1.05  # ratio of losses above which the difference isn't noise
logger = logging.getLogger(__name__)


@accepts_keywords(FinetuningOptions)
def finetune(options: FinetuningOptions) -> dict[str, Any]:
    """Fine-tunes a model and writes the best version on dev to a directory with a report.

    To resume an interrupted run from its newest checkpoint, repeat the same call. Interruptions
    don't affect the final weights.

    A table's separator (comma, semicolon, tab, or bar) is detected from the header, regardless of
    the file's suffix. In `.tsv` files, quotation marks are part of the text, as in GLUE, unless the
    whole file quotes fields as pandas does. Whitespace around column names is ignored, and the
    names of the columns in use must be unique. A `.json` file contains a list of objects, an object
    with such a list as `data`, or one object per line. Its values can be strings, numbers, true, or
    false. Objects and NaN are rejected; lists are accepted only with `multi_label`.

    Returns:
        the report: settings, versions, the scores after each epoch, and the best scores; on the
        chief host, also `classes` and, if a test file was passed, `test` (see `evaluate`).
    Raises:
        UserError: if the data, model, or output can't be used, or the loss is not finite or
            diverges.
        Interrupted: if SIGINT or SIGTERM was received. To resume, repeat the same call.
    """
    return finetune_on(options, options.read())


def finetune_on(options: FinetuningOptions, data: TrainingData) -> dict[str, Any]:
    """Does the same as `finetune`, but with examples that were already read."""
    if len(data.dev) < FEW:
        logger.warning(
            "dev contains only %d examples of %s, too few to choose the best version reliably. "
            "Add examples, or use a single file with a larger --dev-fraction.",
            *(len(data.dev), options.data),
        )
    with open_run(options) as run:
        report = _train(options, data, run)
    if report["best"].get(ONE_CLASS):
        warn_not_learned(report, data.config.problem_type == MULTI_LABEL)
    return report


def warn_not_learned(report: Mapping[str, Any], is_binary: bool) -> None:
    """Warns that a model predicts the same for nearly all dev examples, and suggests what to try.

    A dev loss that has risen, or that is above chance level (the loss of equal probabilities),
    shows that the learning rate was too high. Otherwise, the weights haven't moved far enough from
    their start.

    Args:
        is_binary: whether the loss is a mean over labels, each of which is present or absent.
    """
    labels, rate = report["data"]["labels"], report["settings"]["learning_rate"]
    losses = [point["val_loss"] for point in report["history"]]
    # The number of choices isn't in the report; a model without a preference begins at chance.
    chance = math.log(2 if is_binary else len(labels)) if labels else losses[0]
    change, advice = "hardly moved", f"{3 * rate:g} (three times this run's), more --epochs,"
    if max(losses) > _RISEN * min(losses[0], chance):
        change, advice = "rose", f"{rate / 3:g} (a third of this run's)"
    logger.warning(
        "The model has not learned the task: nearly all its predictions on dev are the same. The "
        "loss on dev %s: it was %.3f after the first epoch, at most %.3f, and %.3f at the end. "
        "Equal probabilities have a loss of %.3f. Try --learning-rate %s or another --seed.%s",
        *(change, losses[0], max(losses), losses[-1], chance, advice),
        " The classes are unbalanced, so try --class-weights balanced as well."
        if reports.is_unbalanced(labels)
        else "",
    )


def _train(options: FinetuningOptions, data: TrainingData, run: Run) -> dict[str, Any]:
    """Starts or resumes the run on this host and returns its report."""
    recipe = options.recipe(data.recipe, len(data.train))
    keras.utils.set_random_seed(options.seed)
    with run.scope():
        model = _model(options, recipe, data)
    length = model.tokenizer.model_max_length
    rows = data.task.encode(data.train, model.tokenizer, model.config, length)
    rows.weight_by_class(class_weights(options, model.config, rows))
    plan = Plan.of(recipe, len(rows))
    are_classes = all(target.kind == "class" for target in model.targets.values())
    with run.scope():
        model.compile(
            # Short runs need bias correction, which the original optimizer omits.
            AlbertAdamW(plan.schedule, bias_correction=True),
            weighted_metrics=["accuracy"] if are_classes else None,
            micro_batches=options.micro_batches,
        )
    share = Share(run.replicas * options.micro_batches, *run.host)
    # The number of rows in a micro-batch on one device during training.
    compared = share.size(recipe.batch_size) // share.parts
    held_out = HeldOut(data.task, data.dev, model, run.replicas, compared)
    run.settings |= {
        **recipe._asdict(),
        "steps": plan.steps,
        "labels": list(model.config.labels),
        # Excludes the last field, because the location in a file doesn't matter.
        "examples_sha256": digest([example[:-1] for example in (*data.train, *data.dev)]),
        "vocab_sha256": hashlib.sha256(model.tokenizer.model_bytes).hexdigest(),
    }
    summary = reports.summarize(data.task, data.train, data.dev)
    summary |= {"cut": rows.cut, "max_length": length}
    if options.baseline:
        assert isinstance(data.task, Classification), "one of TEXT_CLASSES"
        summary["baseline"] = baseline_scores(data.task, data.train, data.dev, data.config)
    if run.is_chief:
        print("\n".join(reports.in_lines(summary)), file=sys.stderr, flush=True)

    curve = Curve(
        *(plan.steps, plan.epoch_steps, plan.schedule),
        folder=run.logs,
        # `DIVERGED` is in nats, but squared errors and weighted losses aren't.
        stop_diverged=model.config.problem_type != "regression" and not options.class_weights,
    )
    keep = KeepBest(
        *(held_out.scores, run.best, plan.epoch_steps),
        patience=options.patience,
        on_score=curve.note_scores,
    )
    batches = Batches(
        *(rows, recipe.batch_size, options.seed), share=share, jit_compile=model.jit_compile
    )
    run.train(model, batches.endless, share.size(recipe.batch_size), curve, keep)

    assert keep.best is not None
    report = {
        "settings": {"data": str(options.data), **run.settings},
        "parameters": model.count_params(),
        "examples": summary["rows"],
        "data": summary,
        "step": run.step,
        "seconds": run.seconds,
        "examples_per_second": plan.examples_until(run.step) / run.seconds,
        **reports.results(curve.history, keep.scores, keep.best),
        "versions": reports.versions(),
    }
    if run.best is not None:
        if options.test is not None:
            known = {tuple(data.task.texts(each)) for each in (*data.train, *data.dev)}
            both = reports.overlap(data.task, data.test, known)
            report[reports.TEST] = {"file": options.test.name, "in_train_or_dev": both}
            if both:
                logger.warning(
                    "%d of the %d test rows also occur in train or dev, which inflates the scores.",
                    *(both, len(data.test)),
                )
        held_out.write_reports(run.best, options.output, report, data.test)
        publish(options.output, report)
    return report


class Plan(NamedTuple):
    """The length of a run and its learning rates.

    Attributes:
        rows: number of rows in an epoch.
        batch_size: number of rows in a batch; the last one of an epoch may be smaller.
        epoch_steps: number of steps in an epoch.
        steps: number of steps in the run.
        schedule: learning rate by step.
    """

    rows: int
    batch_size: int
    epoch_steps: int
    steps: int
    schedule: WarmupPolynomialDecay

    @classmethod
    def of(cls, recipe: Recipe, rows: int) -> "Plan":
        """Returns the plan for a recipe and a number of rows."""
        epoch_steps = steps_per_epoch(rows, recipe.batch_size)
        steps = recipe.steps or recipe.epochs * epoch_steps
        warmup = int(recipe.warmup if recipe.warmup >= 1 else recipe.warmup * steps)
        schedule = WarmupPolynomialDecay(
            recipe.learning_rate, min(warmup, steps - 1), steps, form="usual"
        )
        return cls(rows, recipe.batch_size, epoch_steps, steps, schedule)

    def examples_until(self, step: int) -> int:
        """Returns the number of rows in the first `step` batches."""
        epochs, more = divmod(step, self.epoch_steps)
        return epochs * self.rows + more * self.batch_size


def _model(options: FinetuningOptions, recipe: Recipe, data: TrainingData) -> TaskModel:
    """Returns a model with the task's labels, head, and tokenizer."""
    changes = {**data.config_fields, **dict.fromkeys(DROPOUT_RATES, recipe.dropout)}
    model_class = getattr(models, data.task.model)
    if is_size(options.model):
        tokenizer = _tokenizer_of_new_model(options, data.task, data.train)
        config = size_config(options.model, tokenizer, **changes)
        model = model_class(config, dtype=options.dtype_policy)
    else:
        with silent_about_new_weights(options.output):
            model = model_class.from_pretrained(
                options.model,
                dtype=options.dtype_policy,
                ignore_mismatched_sizes=True,  # replaces the head of another task
                **changes,
            )
        tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.model)
    limit = min(recipe.max_length, model.config.max_position_embeddings)
    # Predictions and exported models also truncate at this length.
    tokenizer.model_max_length = options.max_length or limit
    check_fit(tokenizer, model.config, tokenizer.model_max_length)
    model.tokenizer = tokenizer
    model.gradient_checkpointing_enable(options.gradient_checkpointing)
    if options.freeze is not None:
        freeze(model, options.frozen_layers)
    return model


def _tokenizer_of_new_model(
    options: FinetuningOptions, task: Task[Any, Any], train: Sequence[Any]
) -> BaseTokenizer:
    """Returns the tokenizer of an interrupted run or a vocabulary file, or trains a new one."""
    interrupted = [] if options.force else steps_in(options.output / CHECKPOINTS)
    if interrupted:
        return AlbertTokenizer.from_pretrained(interrupted[-1])
    if options.vocab is not None:
        return AlbertTokenizer.from_pretrained(options.vocab)
    texts = [text for example in train for text in task.texts(example)]
    return AlbertTokenizer(train_vocabulary(texts, options.vocab_size))


def freeze(model: PreTrainedModel, layers: int) -> None:
    """Freezes the embeddings and the first layers. Call it before `compile`.

    No gradient flows through the first `layers` layers. Weights shared with a later layer, as in
    every published ALBERT model, are still updated by that layer's gradient. Other frozen weights
    don't change, not even through weight decay. The embeddings include their projection.

    Args:
        layers: number of layers to freeze; 0 freezes only the embeddings.
    Raises:
        UserError: if the model has fewer layers.
    """
    encoder = model._backbone().encoder
    check_frozen(layers, model.config.num_hidden_layers)
    model._backbone().embedding.trainable = False
    encoder.frozen_layers = layers
    for number, group in enumerate(encoder.schedule):  # if shared, the last layer decides
        for block in encoder.group(group):
            block.attention.trainable = block.ffn.trainable = number >= layers


def class_weights(
    options: FinetuningOptions, config: AlbertConfig, rows: Rows
) -> list[float] | None:
    """Returns a loss weight per class, or None if no weights were set.

    As in Keras, the mean loss divides by the number of examples, not the sum of their weights.
    Balanced class weights are the inverse class frequencies in the training rows.
    """
    if tuple(options.class_weights) != (BALANCED,):
        return weights_by_label(options.class_weights, config.labels)
    from sklearn.utils.class_weight import compute_class_weight

    classes = np.concatenate([np.ravel(label) for label in rows.labels["labels"]])
    classes = classes[classes != IGNORED]
    present, weights = np.unique(classes), np.ones(config.num_labels)
    weights[present] = compute_class_weight("balanced", classes=present, y=classes)
    return weights.tolist()
