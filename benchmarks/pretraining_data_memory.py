"""Measures the peak memory of all processes of `albert-tf build-data` on a corpus of any size.

    python -m benchmarks.pretraining_data_memory --input books/ --vocab spiece.model \\
        [--gigabytes 2] [--workers 2]

The corpus consists of many links to the files. Memory is Linux's proportional set size, which
counts memory that processes share only once.
"""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from albert_tf.data.corpus.files import find_inputs, text_bytes
from benchmarks import harness

EVERY = 0.25  # seconds


def repeated(inputs, folder, size):
    """Fills `folder` with links to the files and returns the estimated bytes of text."""
    files, total, turn = find_inputs(inputs), 0, 0
    while total < size:
        (folder / f"{turn:03d}").mkdir()
        for file in files:
            (folder / f"{turn:03d}" / Path(file.path).name).symlink_to(file.path)
            total += text_bytes(file)
        turn += 1
    return total


def group_memory(group):
    """Returns the MB of all processes in a group."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == group:
                rollup = (folder / "smaps_rollup").read_text()
                total += int(rollup.split("Pss:")[1].split()[0])
        except (OSError, IndexError):  # The process has ended.
            continue
    return total / 1024


def measure(inputs, vocab, size, workers):
    """Returns the GB of text, the seconds, and the peak MB of all processes."""
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch, "corpus")
        corpus.mkdir()
        size = repeated(inputs, corpus, size)
        command = [sys.executable, "-m", "albert_tf.cli", "build-data", "--input", str(corpus)]
        command += ["--vocab", vocab, "--output", f"{scratch}/examples"]
        command += ["--workers", str(workers)]
        start, peak = time.perf_counter(), 0.0
        process = subprocess.Popen(command, start_new_session=True)
        while process.poll() is None:
            peak = max(peak, group_memory(process.pid))
            time.sleep(EVERY)
        if process.returncode:
            raise harness.Failure(f"status {process.returncode}")
        return {"GB": size / 1e9, "seconds": time.perf_counter() - start, "MB": peak}


def main():
    parser = harness.parser(__doc__, rounds=1)
    parser.add_argument("--input", nargs="+", required=True, help="text: files or folders")
    parser.add_argument("--vocab", required=True, help="spiece.model")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    given = (options.input, options.vocab, options.gigabytes * 1e9, options.workers)
    name = f"{options.workers} workers"
    rounds = harness.take_turns({name: partial(measure, *given)}, options.rounds)

    def cells(figures):
        return [f"{figures['GB']:.2f}", f"{figures['seconds']:.0f}", f"{figures['MB']:.0f}"]

    table = harness.table(["", "GB of text", "s", "MB at the peak"], harness.rows(rounds, cells))
    harness.report(options, ("numpy", "sentencepiece"), [table], rounds)


if __name__ == "__main__":
    main()
