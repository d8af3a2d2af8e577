"""The options by which commands are told of a corpus."""

import argparse
from typing import Any

from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.corpus.sentences import DEFAULT


def add_option(parser: Any, name: str, **settings: Any) -> None:
    """Declares an option, and its spelling with underscores, which the help leaves out.

    The original's options are spelled so.

    Args:
        parser: a parser, or a group of one.
        name: with its dashes; what has some inside mustn't be required.
    """
    parser.add_argument(name, **settings)
    underscores = "--" + name[2:].replace("-", "_")
    if underscores != name:
        silent = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        parser.add_argument(underscores, **{**settings, **silent})


def add_corpus_options(parser: argparse.ArgumentParser) -> None:
    """Declares `--input` and how its text is read."""
    parser.add_argument(
        "--input",
        required=True,
        nargs="+",
        action="extend",
        metavar="GLOB",
        help="files, folders or globs of text in UTF-8 (.jsonl, anything else is plain text; both "
        "also .gz), here or at gs://, s3://, hdfs://; may be repeated",
    )
    corpus = parser.add_argument_group(
        "corpus", "In plain text blank lines separate documents; in .jsonl a line is one."
    )
    add_option(
        corpus,
        "--lines",
        choices=("paragraphs", "sentences"),
        default=CorpusOptions.lines,
        help="what a line of text is; paragraphs get split into sentences. Default: %(default)s",
    )
    add_option(
        corpus,
        "--text-field",
        default=CorpusOptions.text_field,
        metavar="NAME",
        help="field of .jsonl that holds the text. Default: %(default)s",
    )
    add_option(
        corpus,
        "--bad-lines",
        choices=("stop", "skip"),
        default=CorpusOptions.bad_lines,
        help="lines that can't be read: stop and name the first, or skip and count them. "
        "Default: %(default)s",
    )
    add_option(
        corpus,
        "--language",
        default=CorpusOptions.language,
        metavar="CODE",
        help="of the text, for the sentence splitter. Default: %(default)s",
    )
    add_option(
        corpus,
        "--sentence-splitter",
        default=DEFAULT,
        metavar="MODULE:FUNCTION",
        help="a function of yours from a paragraph to its sentences. Default: %(default)s",
    )


def corpus_options(options: argparse.Namespace) -> CorpusOptions:
    """How the text is read, as the options say; the splitter is `options.sentence_splitter`."""
    return CorpusOptions(
        lines=options.lines,
        text_field=options.text_field,
        bad_lines=options.bad_lines,
        language=options.language,
    )
