"""`albert-tf build-data`"""

import argparse
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from albert_tf.commands.corpus_options import add_corpus_options, corpus_options
from albert_tf.commands.example_options import add_example_options, example_options
from albert_tf.errors import UserError

SUMMARY = "turn text into examples for pretraining"
EXAMPLES = """examples:
  albert-tf build-data --input 'books/*.txt.gz' --vocab spiece.model --output examples
  albert-tf build-data --input corpus.jsonl --vocab my-model --output examples \\
      --mode static --dupe_factor 5 --max_seq_length 128 --workers 8

The output is a folder of TFRecord files, with manifest.json and the vocabulary beside. It depends
on text, vocabulary, options and seed alone: not on workers, nor on the engine. Stopped by Ctrl-C or
killed, the same command again goes on from there; given once more, it checks every file, and makes
again what is damaged. Needs as much room on the disk as the text and the examples take together.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `build-data`."""
    add_corpus_options(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--vocab",
        required=True,
        metavar="FILE",
        help="vocabulary file (spiece.model), or a model's folder or name on the hub",
    )
    add_example_options(parser)
    running = parser.add_argument_group("the run", "The result depends on --buckets alone.")
    running.add_argument("--workers", type=int, metavar="N", help="processes; default: all cores")
    running.add_argument(
        "--buckets",
        type=int,
        metavar="N",
        help="files for each copy; default: one for 8 MB of text, more if the corpus is small",
    )
    running.add_argument("--force", action="store_true", help="start anew in the output")
    running.add_argument(
        "--engine", choices=("local", "spark", "beam"), default="local", help="default: %(default)s"
    )
    running.add_argument("--master", metavar="URL", help="of Spark; default: as Spark is set up")
    running.add_argument("--runner", metavar="NAME", help="of Beam; default: its local one")
    running.add_argument(
        "--engine-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="of Spark (NAME=VALUE) or Beam (=--NAME=VALUE); may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Makes the examples; 130 if interrupted."""
    from albert_tf.data.jobs.job import make_job

    started = time.monotonic()
    _check(options)
    job = make_job(
        options.input,
        options.output,
        options.vocab,
        example_options(options),
        corpus_options(options),
        options.sentence_splitter,
        options.buckets,
        options.do_lower_case,
    )
    try:
        with _terminated_as_interrupted():
            outcome = _made(job, options)
    except KeyboardInterrupt:
        command = "The same command without --force" if options.force else "The same command"
        print(f"\nStopped; what is finished is in {options.output}. {command} goes on from there.")
        return 130
    _print_summary(outcome, options.output, time.monotonic() - started)
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.workers is not None and options.workers < 1:
        raise UserError(f"--workers must be 1 or more. Received: {options.workers}.")
    elsewhere = ("spark", "beam")
    for name, engines in (
        ("workers", ("local",)),
        ("master", ("spark",)),
        ("runner", ("beam",)),
        ("engine_option", elsewhere),
    ):
        if getattr(options, name) not in (None, []) and options.engine not in engines:
            raise UserError(
                f"--{name.replace('_', '-')} goes with --engine {' or '.join(engines)}. "
                f"Received: --engine {options.engine}."
            )
    if options.engine == "spark" and not all("=" in each for each in options.engine_option):
        raise UserError(
            "--engine-option must be NAME=VALUE for Spark. "
            f"Received: {' '.join(options.engine_option)}."
        )


def _made(job: Any, options: argparse.Namespace) -> Any:
    """What came of the job, by its engine; packages of the others aren't needed."""
    if options.engine == "spark":
        from albert_tf.data.jobs.spark import run_spark

        settings = dict(each.split("=", 1) for each in options.engine_option)
        return run_spark(job, options.master, settings, options.force)
    if options.engine == "beam":
        from albert_tf.data.jobs.beam import run_beam

        return run_beam(job, options.runner, options.engine_option, options.force)
    from albert_tf.data.jobs.local import run_local

    return run_local(job, options.workers, force=options.force)


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Takes SIGTERM for Ctrl-C, so that a run ends in order by either."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print_summary(outcome: Any, output: str, seconds: float) -> None:
    totals, shards = dict(outcome.manifest.totals), outcome.manifest.shards
    size = sum(shard.bytes for shard in shards)
    text = totals.pop("bytes")
    main = ", ".join(f"{totals.pop(name, 0):,} {name}" for name in _MAIN)
    print(f"{main}, {len(shards):,} files of {size / 1e6:,.1f} MB: {output}")
    if totals:
        print("; ".join(f"{_COUNTS.get(name, name)}: {n:,}" for name, n in totals.items()))
    if not outcome.made:
        print(f"Already there, every file as it should be. {seconds:.1f} s.")
        return
    if len(outcome.made) < len(shards):
        print(f"{len(outcome.made):,} of these files were made now. {seconds:.1f} s.")
        return
    print(f"{seconds:.1f} s for {text / 1e6:,.1f} MB of text: {text / 1e6 / seconds:.2f} MB/s.")


_MAIN: Final = ("documents", "tokens", "examples")
_COUNTS: Final = {
    "bad_lines": "lines skipped, which can't be read",
    "documents_cut": "documents cut, being too long",
    "empty_documents": "documents without text",
    "long_sentences": "sentences cut, being longer than an example",
    "masked": "tokens masked",
    "single_words": "documents' rests left out, being a single word",
}
