"""The options by which a command is told what a pretraining example is."""

import argparse
from typing import Any, Final, get_args

from albert_tf.commands.corpus_options import add_option
from albert_tf.data.pretraining.options import ExampleOptions, Mode, PairTask
from albert_tf.errors import UserError

_TRUTHS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def add_example_options(parser: argparse.ArgumentParser) -> None:
    """Declares the original's options, which may also be written as there: `--max_seq_length`."""
    options = parser.add_argument_group(
        "examples",
        "Names and defaults are those of the original's create_pretraining_data.py, where it has "
        "them; --max_seq_length is read as --max-seq-length, and so on.",
    )
    _add(options, "--mode", "mask when the files are read, or now", choices=get_args(Mode))
    add_option(
        options,
        "--dupe-factor",
        type=int,
        help=f"differently masked copies, if static; default: {ExampleOptions.dupe_factor}",
    )
    _add(options, "--max-seq-length", "pieces of an example", type=int)
    _add(
        options,
        "--max-predictions-per-seq",
        "most pieces to predict; default: masked-lm-prob of max-seq-length",
        type=int,
    )
    _add(options, "--masked-lm-prob", "share of pieces to predict", type=float)
    _add(options, "--short-seq-prob", "share of documents with shorter examples", type=float)
    _add(options, "--ngram", "longest n-gram to mask, in words", type=int)
    _add_boolean(options, "--favor-shorter-ngram", "n with a probability of 1/n")
    _add_boolean(options, "--do-whole-word-mask", "mask words, not pieces")
    _add_boolean(options, "--do-permutation", "more n-grams change places")
    _add_boolean(options, "--span-masking", "mask SpanBERT's spans, not n-grams")
    options.add_argument(
        "--pair-task",
        "--pair_task",
        choices=get_args(PairTask),
        help=f"what the label of a pair tells; default: {ExampleOptions.pair_task}",
    )
    _add_boolean(options, "--random-next-sentence", "the same as --pair-task nsp", None)
    options.add_argument(
        "--seed",
        "--random-seed",
        "--random_seed",
        dest="random_seed",
        type=int,
        default=ExampleOptions.random_seed,
        help="of all that is drawn; default: %(default)s",
    )
    _add_boolean(options, "--do-lower-case", "of the text; default: as the vocabulary says", None)


def example_options(options: argparse.Namespace) -> ExampleOptions:
    """What the options say.

    Raises:
        UserError: a value out of its range, or two that contradict each other.
    """
    values = vars(options)
    given = {name: values[name] for name in ExampleOptions.__dataclass_fields__}
    if options.random_next_sentence and options.pair_task not in ("nsp", None):
        raise UserError(
            "--random-next-sentence is --pair-task nsp. Received: --random-next-sentence and "
            f"--pair-task {options.pair_task}. Give one of them."
        )
    if options.dupe_factor is not None and options.mode != "static":
        raise UserError(
            "--dupe-factor goes with --mode static, which masks ahead as the original does. "
            f"Received: --dupe-factor {options.dupe_factor} --mode {options.mode}, whose every "
            "epoch is masked anew. Leave it out, or add --mode static."
        )
    if options.random_next_sentence:
        given["pair_task"] = "nsp"
    return ExampleOptions(**{name: value for name, value in given.items() if value is not None})


def _add(group: Any, name: str, help: str, **more: Any) -> None:
    """Declares an option with the default of `ExampleOptions`."""
    default = getattr(ExampleOptions, _place(name))
    if default is not None:
        help = f"{help}; default: %(default)s"
    add_option(group, name, default=default, help=help, **more)


def _add_boolean(group: Any, name: str, help: str, default: Any = ...) -> None:
    """Declares `--name`, `--name=false`, `--no-name`, and the original's `--noname`."""
    if default is ...:
        default = getattr(ExampleOptions, _place(name))
        help = f"{help}; default: {str(default).lower()}"
    add_option(
        group,
        name,
        nargs="?",
        const=True,
        type=_truth,
        default=default,
        metavar="true|false",
        help=help,
    )
    group.add_argument(
        f"--no-{name.removeprefix('--')}",
        f"--no{_place(name)}",
        dest=_place(name),
        action="store_false",
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


def _place(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")


def _truth(text: str) -> bool:
    if text.lower() not in _TRUTHS:
        raise argparse.ArgumentTypeError(f"true or false, not {text!r}")
    return _TRUTHS[text.lower()]
