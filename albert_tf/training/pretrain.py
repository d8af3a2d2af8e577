"""Pretrains ALBERT on `build-data` records, from random weights or from a checkpoint."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
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
from albert_tf.options import accepts_keywords
from albert_tf.recipes import DROPOUT_RATES, size_config
from albert_tf.tasks import IGNORED
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.training import reports
from albert_tf.training.callbacks import KeepBest
from albert_tf.training.checkpoints import written_through
from albert_tf.training.curve import Curve
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.plots import plot_curves
from albert_tf.training.run import Run, digest, open_run, publish, silent_about_new_weights

# The model's outputs and their names in reports.
TARGETS: Final = {"prediction_logits": "masked_lm", "sop_logits": "sentence_order"}
EVALUATION_BATCH: Final = 64
POINTS: Final = 1000  # maximum length of the history
KEEP: Final = 3  # checkpoints
_LARGEST: Final = 700.0  # exp of a larger value overflows


@accepts_keywords(PretrainingOptions)
def pretrain(options: PretrainingOptions) -> dict[str, Any]:
    """Pretrains a model and writes a model directory with a report and learning curves.

    To resume an interrupted run from its newest checkpoint, repeat the same call. Interruptions
    don't affect the final weights.

    Returns:
        the report: settings, versions, and the history of training and evaluation.
    Raises:
        UserError: if the data, model, or output can't be used, or the loss is not finite or
            diverges.
        Interrupted: if SIGINT or SIGTERM was received. To resume, repeat the same call.
    """
    with open_run(options) as run:
        return _train(options, run)


def _train(options: PretrainingOptions, run: Run) -> dict[str, Any]:
    """Starts or resumes the run on this host and returns its report."""
    if options.batch_size % (run.replicas * options.micro_batches):
        raise UserError(
            "batch_size must be a multiple of the number of replicas times micro_batches. "
            f"Received: batch_size={options.batch_size}, {run.replicas} replicas, "
            f"micro_batches={options.micro_batches}."
        )
    sources = [find_records(folder) for folder in options.data]
    for files in sources:
        files.steps_per_epoch(options.batch_size)  # raises if there are too few records
    held_out = find_records(options.eval_data) if options.eval_data else None
    keras.utils.set_random_seed(options.seed)
    schedule = WarmupPolynomialDecay(
        options.learning_rate, options.warmup_steps, options.steps, options.power, options.schedule
    )
    with run.scope():
        model = pretraining_model(options, max(files.max_seq_length for files in sources))
        compile_with_metrics(
            *(model, _optimizer(options, schedule)),
            micro_batches=options.micro_batches,
            jit_compile=options.jit_compile or "auto",
        )
    sources = [_limit_ids(files, model.config.vocab_size) for files in sources]
    held_out = held_out and _limit_ids(held_out, model.config.vocab_size)
    run.settings |= {
        "config": model.config.to_dict(),
        "data": [_identity(files) for files in sources],
    }

    point_steps = -(-options.steps // POINTS)
    curve = Curve(options.steps, point_steps, schedule, named_means, folder=run.logs)
    keep = None
    if held_out is not None:
        score = _scorer(model, curve, held_out, run.host)
        steps = options.eval_steps or options.steps
        keep = KeepBest(score, None, steps, on_score=curve.note_scores)

    def batches(start: int) -> tf.data.Dataset:
        return mixed_batches(sources, options.batch_size, options.seed, start, run.host)

    with whole_records(*sources, *filter(None, [held_out])):
        run.train(model, batches, options.batch_size, curve, keep, KEEP)
    counts = zip(sources, batches_per_source(len(sources), run.step), strict=True)
    report = {
        "settings": run.settings,
        "parameters": model.count_params(),
        "steps": run.step,
        "tokens": options.batch_size * sum(files.max_seq_length * n for files, n in counts),
        "seconds": run.seconds,
        "history": curve.history,
        "evaluation": keep.scores if keep else [],
        "versions": reports.versions(),
    }
    if run.best is not None:
        curves = options.output / reports.CURVES
        plot_curves(curve.history, report["evaluation"], reports.PRETRAINING, curves)
        with averaged_weights(model), written_through(run.best) as folder:
            model.save_pretrained(folder)
        publish(options.output, report)
    return report


def _optimizer(options: PretrainingOptions, schedule: WarmupPolynomialDecay) -> Any:
    return {"lamb": Lamb, "adamw": AlbertAdamW}[options.optimizer](
        schedule,
        beta_2=options.beta_2,
        bias_correction=options.optimizer == "adamw",
        use_ema=options.ema is not None,
        ema_momentum=options.ema or 0.0,
    )


def pretraining_model(options: PretrainingOptions, length: int) -> AlbertForPreTraining:
    """Returns a model with the records' tokenizer, for examples of up to `length` tokens."""
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.data[0])
    if not options.vocab:
        for records in options.data[1:]:
            _check_same_vocabulary(options.data[0], records, tokenizer)
    rates: dict[str, Any] = {}
    if options.dropout is not None:
        rates = dict.fromkeys(DROPOUT_RATES, options.dropout)
    if options.init_checkpoint is None:
        assert options.size is not None  # the options require one of the two
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
    model.tokenizer = tokenizer
    model.gradient_checkpointing_enable(options.gradient_checkpointing)
    return model


def _check_same_vocabulary(data: str, checkpoint: str, tokenizer: BaseTokenizer) -> None:
    """Rejects records whose vocabulary differs from a checkpoint's or other records'."""
    try:
        own = AlbertTokenizer.from_pretrained(checkpoint)
    except UserError:  # weights without a vocabulary, such as original checkpoints
        return
    if own.get_vocab() != tokenizer.get_vocab():
        raise UserError(
            f"{data} and {checkpoint} have different vocabularies. Build the data again with "
            f"--vocab {checkpoint}."
        )


def _limit_ids(files: RecordFiles, size: int) -> RecordFiles:
    """Returns records that raise an error for ids outside a model's vocabulary."""
    if files.table and len(files.table.starts) > size:
        raise UserError(
            f"The model's vocabulary has {size:,} tokens, but the records in "
            f"{os.path.dirname(files.paths[0])} were built with {len(files.table.starts):,}. Build "
            "the data again with the model's vocabulary (--vocab)."
        )
    return dataclasses.replace(files, vocab_size=size)


def _identity(files: RecordFiles) -> dict[str, Any]:
    """Returns the number of examples and a digest of the files' names and sizes."""
    sizes = [
        [os.path.basename(path), count, tf.io.gfile.stat(path).length]
        for path, count in zip(files.paths, files.counts, strict=True)
    ]
    how = dataclasses.asdict(files.dynamic) if files.dynamic else None
    return {"examples": sum(files.counts), "sha256_of_sizes": digest([sizes, how])}


def _scorer(
    model: AlbertForPreTraining, curve: Curve, files: RecordFiles, host: tuple[int, int]
) -> Callable[[], dict[str, float]]:
    """Returns a function that scores the model on held-out records, divided among all hosts."""
    index, count = host

    def host_part(values: tf.Tensor, fill: int) -> tf.Tensor:
        """Pads a batch to `EVALUATION_BATCH` examples. On JAX, returns this host's part of it."""
        missing = EVALUATION_BATCH - tf.shape(values)[0]
        paddings = [[0, missing], *[[0, 0]] * (values.shape.rank - 1)]
        filled = tf.pad(values, paddings, constant_values=fill)
        return filled[index::count] if keras.backend.backend() == "jax" else filled

    batches = evaluation_batches(files, EVALUATION_BATCH).map(
        lambda features, labels: (
            {name: host_part(values, 0) for name, values in features.items()},
            {name: host_part(values, IGNORED) for name, values in labels.items()},
        )
    )

    def score() -> dict[str, float]:
        curve.before_save()  # evaluation uses the same metrics
        with averaged_weights(model):
            means = scores(model, batches)
        model.reset_metrics()
        return means

    return score


def compile_with_metrics(
    model: AlbertForPreTraining, optimizer: Any = "auto", **options: Any
) -> None:
    """Compiles a model with the losses and metrics that `named_means` expects."""
    model.shows_losses = True
    accuracy = {output: ["accuracy"] for output in TARGETS}
    model.compile(optimizer, weighted_metrics=accuracy, **options)


def scores(model: AlbertForPreTraining, batches: Any) -> dict[str, float]:
    """Returns the `named_means` over batches, such as those from `evaluation_batches`."""
    model.evaluate(batches, verbose=0)
    return named_means({name: float(v) for name, v in model.get_metrics_result().items()})


def named_means(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns `loss`, each target's loss and accuracy, and the `perplexity` of masked tokens.

    Targets without labels are skipped.

    Source: google-research/albert, run_pretraining.py, `metric_fn`.
    """
    means: dict[str, float] = {}
    for output, target in TARGETS.items():
        found = {each: metrics[f"{output}_{each}"] for each in ("loss", "accuracy")}
        if any(found.values()) or target == "masked_lm":
            means |= {f"{target}_{each}": value for each, value in found.items()}
    loss = sum(value for name, value in means.items() if name.endswith("_loss"))
    perplexity = math.exp(min(means["masked_lm_loss"], _LARGEST))
    return {"loss": loss, **means, "perplexity": perplexity}
