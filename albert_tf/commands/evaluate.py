"""`albert-tf evaluate`"""

import json
from dataclasses import dataclass
from pathlib import Path

from albert_tf.commands.text_options import aligned, check_folder, check_model
from albert_tf.data.options import EvaluationOptions
from albert_tf.options import option, part

SUMMARY = "score a model on labelled data"
EXAMPLES = """examples:
  albert-tf evaluate --model my-model --task sst2 --data SST-2
  albert-tf evaluate --model my-model --task classify --data mails.tsv --report mistakes
  albert-tf evaluate --model my-model --task mnli --data MNLI --submission glue

Scores the dev file of a folder, or a single file. With --submission it predicts the test files
instead, which need no labels, and writes what the task's official scorer or site takes.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(EvaluationOptions):
    """The options of `albert-tf evaluate`."""

    submission: Path | None = option(
        None,
        help="folder for predictions of the test files, whose other files stay",
        excludes=("predictions", "report", "json"),
    )
    json: bool = option(False, help="print one JSON object")


def check(options: OPTIONS) -> None:
    """Reads the examples, and compares their labels with those of the model's configuration."""
    from albert_tf.data.tasks.registry import task_of

    is_test = options.submission is not None
    for folder in (options.predictions, options.report, options.submission):
        check_folder(folder)
    config = check_model(options.model, task_of(options).model)
    task = task_of(options, config)
    examples = task.examples("test" if is_test else "dev", labelled=not is_test)
    if config:
        task.check(examples, config)


def run(options: OPTIONS) -> int:
    """Prints each metric, or the files of predictions."""
    from albert_tf.data.tasks.classification import ONE_CLASS
    from albert_tf.training.evaluate import evaluate, predict_test_files

    if options.submission is not None:
        given = part(EvaluationOptions, options, predictions=options.submission)
        for path in predict_test_files(given):
            print(path)
        return 0
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
