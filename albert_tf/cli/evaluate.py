"""`albert-tf evaluate`"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.cli.text_options import aligned, check_model
from albert_tf.data.options import EvaluationOptions
from albert_tf.files import check_folder
from albert_tf.options import option

SUMMARY = "score a model on labeled data"
EXAMPLES = """examples:
  albert-tf evaluate --model my-model --task sst2 --data SST-2
  albert-tf evaluate --model my-model --task classify --data mails.tsv --report mistakes
  albert-tf evaluate --model my-model --task mnli --data MNLI --submission glue

Scores the dev file of a folder, or a single file. With --submission, predicts the test files
instead, which need no labels, and writes files for the task's official scorer or website.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(EvaluationOptions):
    """The options of `albert-tf evaluate`."""

    submission: Path | None = option(
        None,
        help="folder for predictions on the test files; its other files are kept",
        excludes=("predictions", "report", "json"),
    )
    json: bool = option(False, help="print the scores as one JSON object")


def check(options: OPTIONS) -> Sequence[Any] | None:
    """Reads the examples and checks their labels against the model's configuration.

    Returns:
        The examples, or None if the configuration is known only once the model is loaded.
    """
    from albert_tf.data.tasks.registry import read_split, task_of

    is_test = options.submission is not None
    for folder in filter(None, (options.predictions, options.report, options.submission)):
        check_folder(folder)
    config = check_model(options.model, task_of(options).model)
    task = task_of(options, config)
    examples = read_split(task, "test" if is_test else "dev", labelled=not is_test)
    if config is None:
        return None
    task.check(examples, config)
    return examples


def run(options: OPTIONS, examples: Sequence[Any] | None = None) -> int:
    """Prints the metrics or, with `submission`, the paths of the prediction files."""
    from albert_tf.training.evaluate import evaluate_on, predict_test_files

    if options.submission is not None:
        for path in predict_test_files(options, options.submission, examples):
            print(path)
        return 0
    scores = evaluate_on(options, examples)
    if options.json:
        print(json.dumps(scores))
        return 0
    print_scores(scores)
    return 0


def print_scores(scores: Mapping[str, Any]) -> None:
    """Prints the scores that `evaluate` returns."""
    from albert_tf.data.tasks.classification import ONE_CLASS
    from albert_tf.training.reports import CLASSES, class_table

    scores = dict(scores)
    if scores.pop(ONE_CLASS, None):
        print("Nearly all predictions are the same, but the labels are not.")
    count, by_class = scores.pop("examples"), scores.pop(CLASSES, None)
    rows = [(name, f"{value:.4f}") for name, value in scores.items() if isinstance(value, float)]
    print(aligned([*rows, ("examples", f"{count:,}")], numbers=True))
    if by_class:
        print()
        print(aligned(class_table(by_class), numbers=True))
