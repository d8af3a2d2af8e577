"""`albert-tf evaluate`"""

import json
from dataclasses import dataclass

from albert_tf.commands.text_options import aligned, check_folder, check_model
from albert_tf.data.options import EvaluationOptions
from albert_tf.options import option

SUMMARY = "score a model on labelled data"
EXAMPLES = """examples:
  albert-tf evaluate --model my-model --task sst2 --data SST-2
  albert-tf evaluate --model my-model --task classify --data mails.tsv --report mistakes

Scores the dev file of a folder, or a single file.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(EvaluationOptions):
    """The options of `albert-tf evaluate`."""

    json: bool = option(False, help="output as one JSON object")


def check(options: OPTIONS) -> None:
    """Reads the examples, and compares their labels with those of the model's configuration."""
    from albert_tf.data.tasks.registry import task_of

    check_folder(options.predictions)
    check_folder(options.report)
    config = check_model(options.model, task_of(options).model)
    task = task_of(options, config)
    examples = task.examples("dev")
    if config:
        task.check(examples, config)


def run(options: OPTIONS) -> int:
    """Prints each metric."""
    from albert_tf.data.tasks.classification import ONE_CLASS
    from albert_tf.training.evaluate import evaluate

    scores = evaluate(options)
    if options.json:
        print(json.dumps(scores))
        return 0
    if scores.pop(ONE_CLASS, None):
        print("Nearly all predictions are alike, the labels are not.")
    examples = scores.pop("examples")
    rows = [(name, f"{value:.4f}") for name, value in scores.items()]
    print(aligned([*rows, ("examples", f"{examples:,}")], numbers=True))
    return 0
