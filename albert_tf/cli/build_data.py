"""`albert-tf build-data`"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from albert_tf.data.pretraining.options import BuildDataOptions
from albert_tf.errors import Interrupted

SUMMARY = "turn text into pretraining examples"
EXAMPLES = """examples:
  albert-tf build-data --input 'books/*.txt.gz' --vocab spiece.model --output examples
  albert-tf build-data --input corpus.jsonl --vocab my-model --output examples \\
      --max-seq-length 128 --workers 8

Writes a folder of TFRecord files with manifest.json and the vocabulary. The files depend on the
text, the vocabulary, the options, and the seed, but not on the number of workers or the engine. To
resume after Ctrl-C or a crash, run the same command again. On a finished folder, the command checks
every file and rebuilds damaged ones. --input and --output may be URLs (gs://, s3://, hdfs://).
"""
OPTIONS = BuildDataOptions


def run(options: BuildDataOptions) -> int:
    """Builds the examples and prints their counts."""
    from albert_tf.data.jobs.run import build_data

    started = time.monotonic()
    try:
        with _sigterm_as_interrupt():
            outcome = build_data(options)
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted; finished shards are in {options.output}.") from None
    _print_summary(outcome, options.output, time.monotonic() - started)
    return 0


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Handles SIGTERM like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_summary(outcome: Any, output: str, seconds: float) -> None:
    totals, shards = dict(outcome.manifest.totals), outcome.manifest.shards
    size = sum(shard.bytes for shard in shards)
    text = totals.pop("bytes")
    main = ", ".join(f"{totals.pop(name, 0):,} {name}" for name in _MAIN)
    print(f"{main}, {len(shards):,} files of {size / 1e6:,.1f} MB: {output}")
    if totals:
        print("; ".join(f"{_COUNTS.get(name, name)}: {n:,}" for name, n in totals.items()))
    if not outcome.made:
        print(f"Nothing to do: all files are complete and intact. {seconds:.1f} s.")
        return
    if len(outcome.made) < len(shards):
        print(f"{len(outcome.made):,} of these files were built by this run. {seconds:.1f} s.")
        return
    print(f"{seconds:.1f} s for {text / 1e6:,.1f} MB of text: {text / 1e6 / seconds:.2f} MB/s.")


_MAIN: Final = ("documents", "tokens", "examples")
_COUNTS: Final = {
    "bad_lines": "invalid lines skipped",
    "documents_cut": "documents split because they were too long",
    "empty_documents": "documents without text",
    "long_sentences": "sentences split because they were longer than an example",
    "single_words": "single words dropped at the end of a document",
}
