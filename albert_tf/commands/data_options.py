"""The options by which commands are told of labelled data."""

import argparse
from pathlib import Path

from albert_tf.data.readers import Columns
from albert_tf.data.tasks import TASKS


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Declares `--task`, `--data` and the columns of one's own files."""
    parser.add_argument(
        "--task", required=True, choices=TASKS, help="a GLUE task, or classify for data of your own"
    )
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        help="folder with train and dev files (GLUE's TSV; .tsv, .csv or .jsonl for classify), "
        "or one file for classify",
    )
    parser.add_argument(
        "--skip-bad-rows", action="store_true", help="leave out rows that can't be read"
    )
    own = parser.add_argument_group("columns of your own files (classify)")
    own.add_argument("--text-column", default="text", help="default: %(default)s")
    own.add_argument("--text-pair-column", help="second text, for pairs")
    own.add_argument("--label-column", default="label", help="default: %(default)s")
    own.add_argument("--regression", action="store_true", help="labels are numbers to come near to")


def columns(options: argparse.Namespace) -> Columns:
    """The columns that the options name."""
    return Columns(options.text_column, options.label_column, options.text_pair_column)
