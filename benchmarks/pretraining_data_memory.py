"""Memory of `albert-tf build-data` on a corpus of any size: the peak of all its processes together.

    python benchmarks/pretraining_data_memory.py --input books/ --vocab spiece.model \\
        [--gigabytes 2] [--workers 2] [--mode dynamic]

Links to the files, under many names, make up as much text. Memory is the proportional set size
(Linux), which counts memory that processes share once.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import sentencepiece

from albert_tf.data.corpus.files import find_inputs, text_bytes

EVERY = 0.25  # seconds


def repeated(inputs, folder, size):
    """Fills `folder` with links to the files; returns the estimated bytes of text."""
    files, total, turn = find_inputs(inputs), 0, 0
    while total < size:
        (folder / f"{turn:03d}").mkdir()
        for file in files:
            (folder / f"{turn:03d}" / Path(file.path).name).symlink_to(file.path)
            total += text_bytes(file)
        turn += 1
    return total


def group_memory(group):
    """Returns the MB of all processes of a group."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == group:
                rollup = (folder / "smaps_rollup").read_text()
                total += int(rollup.split("Pss:")[1].split()[0])
        except (OSError, IndexError):  # it ended meanwhile
            continue
    return total / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", required=True, help="text: files or folders")
    parser.add_argument("--vocab", required=True, help="spiece.model")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--mode", choices=("dynamic", "static"), default="dynamic")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch, "corpus")
        corpus.mkdir()
        size = repeated(options.input, corpus, options.gigabytes * 1e9)
        command = [sys.executable, "-m", "albert_tf.cli", "build-data", "--input", str(corpus)]
        command += ["--vocab", options.vocab, "--output", f"{scratch}/examples"]
        command += ["--workers", str(options.workers), "--mode", options.mode]
        command += ["--dupe-factor", "1"] if options.mode == "static" else []
        start = time.perf_counter()
        process = subprocess.Popen(command, start_new_session=True)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, group_memory(process.pid))
            time.sleep(EVERY)
        seconds = time.perf_counter() - start
        if process.returncode:
            sys.exit(process.returncode)
    print(
        f"Python {platform.python_version()}, NumPy {numpy.__version__}, sentencepiece "
        f"{sentencepiece.__version__}, {os.cpu_count()} cores; {options.workers} workers, "
        f"{options.mode}"
    )
    print(f"{size / 1e9:.2f} GB of text, {seconds:.0f} s: {peak:.0f} MB at the peak, all processes")


if __name__ == "__main__":
    main()
