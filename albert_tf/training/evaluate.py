"""Scores a fine-tuned model on labelled examples."""

from collections.abc import Sequence
from typing import Any

from albert_tf import models
from albert_tf.data.options import EvaluationOptions
from albert_tf.data.pipeline import evaluation_order
from albert_tf.data.tasks.base import Outputs, Task
from albert_tf.data.tasks.named import task_of
from albert_tf.data.tasks.rows import Rows
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit


@accepts_keywords(EvaluationOptions)
def evaluate(options: EvaluationOptions) -> dict[str, float]:
    """Scores a model on the labelled data of its task.

    Returns:
        each of the task's metrics; `one_class` if all predictions are alike, but not all labels;
        then the number of `examples`.
    Raises:
        UserError: no such model or data, or labels that the model lacks.
    """
    task = task_of(options)
    examples = task.read(task.file("dev"))
    model = getattr(models, task.model).from_pretrained(options.model)
    tokenizer = AlbertTokenizer.from_pretrained(options.model)
    longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    check_fit(tokenizer, model.config, longest)
    rows = task.encode(examples, tokenizer, model.config, longest)
    found = predictions(task, examples, rows, model, options.batch_size)
    return {**task.scores(examples, found, model.config), "examples": len(examples)}


def predictions(
    task: Task[Any, Any],
    examples: Sequence[Any],
    rows: Rows,
    model: PreTrainedModel,
    batch_size: int = 64,
) -> list[Any]:
    """Returns a model's prediction for each example."""
    outputs: list[Outputs] = [{}] * len(rows)
    for batch in evaluation_order(rows.lengths, batch_size):
        found = model.predict_on_batch(rows.inputs(batch))
        for place, row in enumerate(batch):
            outputs[row] = {name: values[place] for name, values in found.items()}
    return task.predictions(examples, rows, outputs, model.config)
