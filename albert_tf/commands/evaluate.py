"""`albert-tf evaluate`"""

import argparse
import json

from albert_tf.commands.data_options import add_data_options, columns
from albert_tf.commands.model_options import add_model_option, load
from albert_tf.errors import UserError

SUMMARY = "score a model on labelled data"
EXAMPLES = """example:
  albert-tf evaluate --model my-model --task sst2 --data SST-2

Scores the folder's dev file, or a file as it is.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `evaluate`."""
    add_model_option(parser)
    add_data_options(parser)
    parser.add_argument("--batch-size", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Prints each metric."""
    from albert_tf.data.labels import model_labels
    from albert_tf.data.pipeline import EncodedExamples
    from albert_tf.data.readers import read_examples
    from albert_tf.data.tasks import GLUE, find_file
    from albert_tf.evaluation.judge import own_metrics, score

    if options.batch_size < 1:
        raise UserError(f"--batch-size must be 1 or more. Received: {options.batch_size}.")
    task = GLUE.get(options.task)
    path = options.data
    if not path.is_file():
        path = find_file(path, task.dev_file if task else "dev")
    examples = read_examples(
        path, task.columns if task else columns(options), options.skip_bad_rows
    )
    model, tokenizer = load(options.model)
    labels = model_labels(model.config.labels, options.task, options.regression)
    data = EncodedExamples(examples, tokenizer, tokenizer.model_max_length, labels.number)
    metrics = task.metrics if task else own_metrics(labels)
    scores = score(model, data, metrics, options.batch_size)
    if options.json:
        print(json.dumps({"examples": len(examples), **scores}))
    else:
        for name, value in scores.items():
            print(f"{name}\t{value:.4f}")
        print(f"examples\t{len(examples)}")
    return 0
