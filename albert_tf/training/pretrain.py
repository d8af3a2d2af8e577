"""Pretrains ALBERT on the records of `build-data`, from random weights or from a checkpoint."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
import tensorflow as tf

from albert_tf import bfloat16
from albert_tf.data.pretraining.batches import (
    batches_per_source,
    evaluation_batches,
    mixed_batches,
    whole_records,
)
from albert_tf.data.pretraining.options import NO_LABEL
from albert_tf.data.pretraining.sources import RecordFiles, find_records
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining
from albert_tf.optimizers import AlbertAdamW, Lamb, WarmupPolynomialDecay, averaged_weights
from albert_tf.options import accepts_keywords, decisive
from albert_tf.outputs import BEST, LOGS
from albert_tf.recipes import DROPOUT_RATES, size_config
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf.training import distribution, reports
from albert_tf.training.callbacks import KeepBest
from albert_tf.training.checkpoints import (
    digest,
    publish,
    silent_about_new_weights,
    versions,
    written_through,
)
from albert_tf.training.curve import Curve
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.run import train

# The outputs of the model, and what they are called in reports.
TARGETS: Final = {"prediction_logits": "masked_lm", "sop_logits": "sentence_order"}
EVALUATION_BATCH: Final = 64
POINTS: Final = 1000  # of the history, at most
KEEP: Final = 3  # checkpoints
_LARGEST: Final = 700.0  # its exponential is still a float


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
    bfloat16.suggest(bfloat16.STEP, options.dtype_policy)
    with distribution.on_devices(options) as strategy:
        return _train(options, strategy)


def _train(options: PretrainingOptions, strategy: Any) -> dict[str, Any]:
    """Resumes or begins the run on this host, and returns the report."""
    sources = [find_records(folder) for folder in options.data]
    for files in sources:
        files.steps_per_epoch(options.batch_size)  # refuses fewer records than a batch
    replicas = distribution.replicas(strategy)
    if options.batch_size % (replicas * options.micro_batches):
        raise UserError(
            "batch_size must be a multiple of the replicas times micro_batches. Received: "
            f"batch_size={options.batch_size}, {replicas} replicas, "
            f"micro_batches={options.micro_batches}."
        )
    held_out = find_records(options.eval_data) if options.eval_data else None
    keras.utils.set_random_seed(options.seed)
    schedule = WarmupPolynomialDecay(
        options.learning_rate, options.warmup_steps, options.steps, options.power, options.schedule
    )
    with distribution.scope(strategy):
        length = max(files.max_seq_length for files in sources)
        model = pretraining_model(options, length)
        optimizer = {"lamb": Lamb, "adamw": AlbertAdamW}[options.optimizer](
            schedule,
            beta_2=options.beta_2,
            bias_correction=options.optimizer == "adamw",
            use_ema=options.ema is not None,
            ema_momentum=options.ema or 0.0,
        )
        compile_with_metrics(
            *(model, optimizer),
            micro_batches=options.micro_batches,
            jit_compile=options.jit_compile or "auto",
        )
    sources = [_within(files, model.config.vocab_size) for files in sources]
    held_out = held_out and _within(held_out, model.config.vocab_size)

    settings = {
        **decisive(options),
        "config": model.config.to_dict(),
        "data": [_identity(files) for files in sources],
    }
    host, is_chief = distribution.hosts(strategy), distribution.is_chief(strategy)
    curve = Curve(
        *(options.steps, -(-options.steps // POINTS), schedule, named_means),
        folder=options.output / LOGS if is_chief else None,
    )
    keep = None
    if held_out is not None:
        score = _scorer(model, curve, held_out, host)
        steps = options.eval_steps or options.steps
        keep = KeepBest(score, None, steps, on_score=curve.note_scores)

    def from_number(start: int) -> Any:
        own = mixed_batches(sources, options.batch_size, options.seed, start, host)
        return distribution.shared(own, strategy, options.batch_size)

    with whole_records(*sources, *([held_out] if held_out else [])):
        resume = train(options, strategy, model, from_number, settings, curve, keep, KEEP)
    counts = zip(sources, batches_per_source(len(sources), resume.step), strict=True)
    report = {
        "settings": settings,
        "parameters": model.count_params(),
        "steps": resume.step,
        "tokens": options.batch_size * sum(files.max_seq_length * n for files, n in counts),
        "seconds": resume.seconds,
        "history": curve.history,
        "evaluation": keep.scores if keep else [],
        "versions": versions(),
    }
    if is_chief:
        curves = options.output / reports.CURVES
        reports.plot_curves(curve.history, report["evaluation"], reports.PRETRAINING, curves)
        with averaged_weights(model), written_through(resume.folder / BEST) as folder:
            model.save_pretrained(folder)
        publish(options.output, report)
    return report


def pretraining_model(options: PretrainingOptions, length: int) -> AlbertForPreTraining:
    """Returns the model to pretrain, with the tokenizer of its records.

    Args:
        length: positions of the records' examples.
    """
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.data[0])
    if not options.vocab:
        for records in options.data[1:]:
            _check_same_vocabulary(options.data[0], records, tokenizer)
    rates: dict[str, Any] = {}
    if options.dropout is not None:
        rates = dict.fromkeys(DROPOUT_RATES, options.dropout)
    if options.init_checkpoint is None:
        assert options.size is not None  # one of the two is given
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
    """Refuses records whose ids mean other tokens than the checkpoint's."""
    try:
        own = AlbertTokenizer.from_pretrained(checkpoint)
    except UserError:  # weights without a vocabulary, such as the original's checkpoints
        return
    if own.get_vocab() != tokenizer.get_vocab():
        raise UserError(
            "A run must have one vocabulary, of its records and its weights. Received: "
            f"{data} and {checkpoint}, whose tokens differ. Build the data again with --vocab "
            f"{checkpoint}."
        )


def _within(files: RecordFiles, size: int) -> RecordFiles:
    """Returns records that refuse ids beyond a model's vocabulary."""
    if files.table and len(files.table.starts) > size:
        raise UserError(
            f"Records must fit the model's vocabulary, {size:,} tokens. Received: those of "
            f"{os.path.dirname(files.paths[0])}, for {len(files.table.starts):,}. Build the "
            "data again with --vocab."
        )
    return dataclasses.replace(files, vocab_size=size)


def _identity(files: RecordFiles) -> dict[str, Any]:
    """Identifies records by their number, and a digest of their files' names and sizes."""
    sizes = [
        [os.path.basename(path), count, tf.io.gfile.stat(path).length]
        for path, count in zip(files.paths, files.counts, strict=True)
    ]
    how = dataclasses.asdict(files.dynamic) if files.dynamic else None
    return {"examples": sum(files.counts), "sha256_of_sizes": digest([sizes, how])}


def _scorer(
    model: AlbertForPreTraining, curve: Curve, files: RecordFiles, host: tuple[int, int]
) -> Callable[[], dict[str, float]]:
    """Returns a function that scores the model on held-out records, all hosts together."""
    index, count = host

    def own(values: tf.Tensor, fill: int) -> tf.Tensor:
        """Gives each batch the same size, which devices can share, and takes this host's part."""
        missing = EVALUATION_BATCH - tf.shape(values)[0]
        paddings = [[0, missing], *[[0, 0]] * (values.shape.rank - 1)]
        filled = tf.pad(values, paddings, constant_values=fill)
        return filled[index::count] if keras.backend.backend() == "jax" else filled

    batches = evaluation_batches(files, EVALUATION_BATCH).map(
        lambda features, labels: (
            {name: own(values, 0) for name, values in features.items()},
            {name: own(values, NO_LABEL) for name, values in labels.items()},
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
    """Compiles a model such that `fit` and `evaluate` give what `named_means` reads."""
    model.shows_losses = True
    accuracy = {output: ["accuracy"] for output in TARGETS}
    model.compile(optimizer, weighted_metrics=accuracy, **options)


def scores(model: AlbertForPreTraining, batches: Any) -> dict[str, float]:
    """Returns `named_means` of batches such as those of `evaluation_batches`."""
    model.evaluate(batches, verbose=0)
    return named_means({name: float(v) for name, v in model.get_metrics_result().items()})


def named_means(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns `loss`, each target's loss and accuracy, and the masked tokens' `perplexity`.

    A target without labels is left out.

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
