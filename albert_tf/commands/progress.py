"""Signs of life from commands that run for long and have no progress bar."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from albert_tf.data.jobs.progress import SECONDS_A_LINE

WITH_PROGRESS: Final = ("build-data", "pretrain", "finetune", "evaluate")
_counts: dict[str, int] = {}


def count(name: str) -> None:
    """Counts a finished item; the next line shows how many they are."""
    _counts[name] = _counts.get(name, 0) + 1


@contextlib.contextmanager
def signs_of_life(command: ModuleType) -> Iterator[None]:
    """Prints time and counts to stderr every half minute, unless that is a terminal."""
    _counts.clear()
    started, done = time.monotonic(), threading.Event()

    def show() -> None:
        while not done.wait(SECONDS_A_LINE):
            counted = "".join(f", {number:,} {what}" for what, number in _counts.items())
            seconds = time.monotonic() - started
            print(f"{name}: {seconds:,.0f} s{counted}", file=sys.stderr, flush=True)

    name = command.__name__.rpartition(".")[2].replace("_", "-")
    if name not in WITH_PROGRESS and not sys.stderr.isatty():
        threading.Thread(target=show, daemon=True).start()
    try:
        yield
    finally:
        done.set()
