"""Scores a classifier or regressor on encoded examples."""

from collections.abc import Sequence

import keras
import numpy as np

from albert_tf.data.labels import ONE_CLASS, Labels, model_labels
from albert_tf.data.options import EvaluationOptions
from albert_tf.data.pipeline import EncodedExamples, evaluation_batches, evaluation_order
from albert_tf.data.readers import read_examples
from albert_tf.data.tasks import GLUE, dev_file
from albert_tf.evaluation import metrics as known
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.options import accepts_keywords
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit


@accepts_keywords(EvaluationOptions)
def evaluate(options: EvaluationOptions) -> dict[str, float]:
    """Scores a classifier or regressor on labelled data.

    Returns:
        each of the task's metrics; `one_class` if all predictions are alike, but not all labels;
        then the number of `examples`.
    Raises:
        UserError: no such model or data, or labels that the model lacks.
    """
    task = GLUE.get(options.task)
    path = dev_file(options.data, options.task)
    examples = read_examples(path, options.columns, options.skip_bad_rows)
    model = AlbertForSequenceClassification.from_pretrained(options.model)
    tokenizer = AlbertTokenizer.from_pretrained(options.model)
    longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    check_fit(tokenizer, model.config, longest)
    labels = model_labels(model.config.labels, options.task, options.regression)
    data = EncodedExamples(examples, tokenizer, longest, labels.number)
    metrics = task.metrics if task else own_metrics(labels)
    return {**score(model, data, metrics, options.batch_size), "examples": len(examples)}


def score(
    model: keras.Model, data: EncodedExamples, metrics: Sequence[str], batch_size: int = 64
) -> dict[str, float]:
    """Returns each named metric of a model's predictions; and `ONE_CLASS` if they are all alike.

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
    scores = known.evaluate(metrics, data.labels, predictions)
    if not is_score and np.ptp(predictions) == 0 < np.ptp(data.labels):
        scores[ONE_CLASS] = 1.0
    return scores


def own_metrics(labels: Labels) -> tuple[str, ...]:
    """Returns the metrics of a task without official ones."""
    return ("accuracy", "macro_f1") if labels.numbers else ("pearson", "spearman")
