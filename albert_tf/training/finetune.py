"""Fine-tunes a classifier or regressor on a task, from files to a model directory."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, Final

import keras

from albert_tf.data.labels import Labels, task_labels
from albert_tf.data.pipeline import EncodedExamples, steps_per_epoch
from albert_tf.data.readers import Example
from albert_tf.data.tasks import GLUE, train_and_dev
from albert_tf.errors import UserError
from albert_tf.evaluation.judge import own_metrics, score
from albert_tf.files import written_atomically
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.options import accepts_keywords, save_options
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.training.fresh import is_size, size_config
from albert_tf.training.optimizers import AlbertAdamW
from albert_tf.training.options import FinetuningOptions
from albert_tf.training.output import REPORT, check_output, versions
from albert_tf.training.recipes import Recipe
from albert_tf.training.run import BEST, STATE, Run
from albert_tf.training.schedules import WarmupPolynomialDecay

UNFINISHED: Final = ".training"  # the run's own folder in the output, until it is done


@accepts_keywords(FinetuningOptions)
def finetune(options: FinetuningOptions) -> dict[str, Any]:
    """Trains, keeps the best version on dev, and writes a model directory with a report.

    Calling it again with the same options after an interruption goes on exactly where it stopped.

    Returns:
        the report: settings, versions, scores after each epoch, the best ones.
    Raises:
        UserError: data, model or output are not as they must be.
        Interrupted: SIGINT or SIGTERM came; the same call goes on.
    """
    plan = options.plan()
    unfinished = options.output / UNFINISHED
    if options.force:
        for part in (unfinished, options.output / "logs"):
            shutil.rmtree(part, ignore_errors=True)
    else:
        check_output(options.output, unfinished)
    task = GLUE.get(options.task)
    train, dev = train_and_dev(
        options.data,
        options.task,
        options.columns,
        options.dev_fraction,
        options.seed,
        options.skip_bad_rows,
        options.regression,
    )
    labels = task_labels(options.task, train, options.regression)
    keras.utils.set_random_seed(options.seed)
    model, tokenizer = _model_and_tokenizer(options, plan, labels, train, unfinished)
    encoded, held_out = (
        EncodedExamples(part, tokenizer, tokenizer.model_max_length, labels.number)
        for part in (train, dev)
    )
    steps = plan.steps or plan.epochs * steps_per_epoch(len(train), plan.batch_size)
    warmup = int(plan.warmup if plan.warmup >= 1 else plan.warmup * steps)
    schedule = WarmupPolynomialDecay(
        plan.learning_rate, min(warmup, steps - 1), steps, form="usual"
    )
    # Short runs need the correction of the moments' bias, which the original leaves out.
    optimizer = AlbertAdamW(schedule, bias_correction=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")  # by name, it would trace twice
    model.compile(optimizer, metrics=[accuracy] if labels.numbers else None)
    metrics = task.metrics if task else own_metrics(labels)
    settings = _settings(options, plan, steps, [*train, *dev], labels)
    run = Run(
        unfinished,
        settings,
        lambda trained: score(trained, held_out, metrics),
        total_steps=steps,
        batch_size=plan.batch_size,
        seed=options.seed,
        save_steps=options.save_steps,
        patience=options.patience,
    )
    progress = run.train(model, encoded, [keras.callbacks.TensorBoard(options.output / "logs")])
    report = {
        "settings": settings,
        "parameters": model.count_params(),
        "examples": {"train": len(train), "dev": len(dev)},
        **progress,
        "versions": versions(),
    }
    save_options(options, options.output)
    _finish(options.output, report)
    return report


def _model_and_tokenizer(
    options: FinetuningOptions, plan: Recipe, labels: Labels, train: list[Example], unfinished: Path
) -> tuple[AlbertForSequenceClassification, BaseTokenizer]:
    """A model with the task's labels and its tokenizer, which an interrupted run has kept."""
    changes: dict[str, Any] = {
        "id2label": dict(enumerate(labels.names)),
        "problem_type": "single_label_classification" if labels.numbers else "regression",
        "hidden_dropout_prob": plan.dropout,
        "attention_probs_dropout_prob": plan.dropout,
    }
    kept = unfinished / "tokenizer"
    if is_size(options.model):
        goes_on = (unfinished / STATE).exists()
        tokenizer = AlbertTokenizer.from_pretrained(kept) if goes_on else _new(options, train)
        config = size_config(options.model, tokenizer, **changes)
        model = AlbertForSequenceClassification(config, dtype=options.dtype_policy)
    else:
        model = AlbertForSequenceClassification.from_pretrained(
            options.model,
            dtype=options.dtype_policy,
            ignore_mismatched_sizes=True,  # a model of another task gets a new classifier
            **changes,
        )
        tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.model)
    limit = min(plan.max_length, model.config.max_position_embeddings)
    tokenizer.model_max_length = options.max_length or limit  # predictions, exports cut there too
    check_fit(tokenizer, model.config, tokenizer.model_max_length)
    with written_atomically(kept, force=True) as path:
        path.mkdir()
        tokenizer.save_pretrained(path)
    return model, tokenizer


def _new(options: FinetuningOptions, train: list[Example]) -> BaseTokenizer:
    """The tokenizer of a new model: of the vocabulary file given, or made from the texts."""
    if options.vocab is not None:
        if not options.vocab.exists():
            raise UserError(
                "The vocabulary must be a file (spiece.model, vocab.txt) or a folder with one. "
                f"Received: {options.vocab}, which is not there."
            )
        return AlbertTokenizer.from_pretrained(options.vocab)
    texts = [text for example in train for text in (example.text, example.text_pair) if text]
    return AlbertTokenizer(train_vocabulary(texts, options.vocab_size))


def _settings(
    options: FinetuningOptions, plan: Recipe, steps: int, examples: list[Example], labels: Labels
) -> dict[str, Any]:
    """All that decides what the run computes, for the report and for going on."""
    return {
        "task": options.task,
        "data": str(options.data),
        "examples_sha256": _digest(examples),
        "labels": list(labels.names),
        "model": options.model,
        "vocab": None if options.vocab is None else str(options.vocab),
        "vocab_size": options.vocab_size,
        "seed": options.seed,
        "dtype_policy": options.dtype_policy,
        "patience": options.patience,
        **plan._asdict(),
        "steps": steps,
    }


def _digest(examples: list[Example]) -> str:
    """SHA-256 of what the examples say, in hexadecimal."""
    return hashlib.sha256(json.dumps(examples).encode()).hexdigest()


def _finish(output: Path, report: dict[str, Any]) -> None:
    """Makes a model directory of the unfinished run, which stays until that is whole."""
    unfinished = output / UNFINISHED
    for folder in (unfinished / BEST, unfinished / "tokenizer"):
        for path in folder.iterdir():
            with written_atomically(output / path.name, force=True) as target:
                shutil.copyfile(path, target)
    with written_atomically(output / REPORT, force=True) as path:
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(unfinished)
