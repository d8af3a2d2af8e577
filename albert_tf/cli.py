"""`albert-tf`: the commands, and what happens around each."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import albert_tf
from albert_tf.commands import (
    answer,
    build_data,
    build_vocab,
    convert,
    embed,
    evaluate,
    export,
    fill_mask,
    finetune,
    inspect_data,
    predict,
    pretrain,
    sizes,
    tag,
)
from albert_tf.commands.parsing import add_options, parsed_options
from albert_tf.errors import UserError

COMMANDS: Final[dict[str, Any]] = {
    "build-vocab": build_vocab,
    "build-data": build_data,
    "inspect-data": inspect_data,
    "pretrain": pretrain,
    "finetune": finetune,
    "predict": predict,
    "fill-mask": fill_mask,
    "answer": answer,
    "tag": tag,
    "embed": embed,
    "evaluate": evaluate,
    "export": export,
    "convert": convert,
    "sizes": sizes,
}
# Commands that leave memory to their processes and don't import TensorFlow.
LIGHT: Final = (build_vocab, build_data, inspect_data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0, 2 for a user's mistake, 130 for Ctrl-C."""
    try:
        command, options = _parsed(arguments)
        if command in LIGHT:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # A vocab.txt loads TensorFlow.
        else:
            _import_tensorflow_quietly()
        return int(command.run(options))
    except BrokenPipeError:  # The reader of our output closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UserError, OSError) as error:
        print(f"albert-tf: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nalbert-tf: stopped.", file=sys.stderr)
        return 130


def _import_tensorflow_quietly() -> None:
    """Hides what TensorFlow's libraries print as they load, unless a log level is set."""
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import tensorflow as tf

        tf.config.list_physical_devices()  # Loads the GPU libraries, which print too.
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def _parsed(arguments: Sequence[str] | None) -> tuple[Any, Any]:
    """Returns the module of a command, and its options."""
    given = _parser().parse_args(arguments)
    command = COMMANDS[given.command]
    return command, parsed_options(given.parser, command.OPTIONS, given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="albert-tf", description=albert_tf.__doc__.split("\n")[0])
    parser.add_argument("--version", action="version", version=albert_tf.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=command.SUMMARY.capitalize() + ".",
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_options(one, command.OPTIONS)
        one.set_defaults(parser=one)
    return parser


if __name__ == "__main__":
    sys.exit(main())
