"""Scores a classifier or regressor on encoded examples."""

from collections.abc import Sequence

import keras
import numpy as np

from albert_tf.data.labels import Labels
from albert_tf.data.pipeline import EncodedExamples, evaluation_batches, evaluation_order
from albert_tf.evaluation.metrics import evaluate


def score(
    model: keras.Model, data: EncodedExamples, metrics: Sequence[str], batch_size: int = 64
) -> dict[str, float]:
    """Each named metric of a model's predictions.

    Args:
        model: gives `logits` `[B, C]`; the best class counts, or the value where C is 1.
        data: labelled examples.
        metrics: keys of `metrics.METRICS`.
        batch_size: examples predicted at once.
    """
    logits = np.empty((len(data), model.config.num_labels), "float32")
    predicted = model.predict(evaluation_batches(data, batch_size), verbose=0)["logits"]
    logits[evaluation_order(data)] = predicted
    is_score = model.config.num_labels == 1
    predictions = logits[:, 0] if is_score else logits.argmax(axis=-1)
    return evaluate(metrics, data.labels, predictions)


def own_metrics(labels: Labels) -> tuple[str, ...]:
    """What a task without official metrics is judged by."""
    return ("accuracy", "macro_f1") if labels.numbers else ("pearson", "spearman")
