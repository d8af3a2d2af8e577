"""Shows progress: a bar on a terminal, and a line every 30 seconds elsewhere.

`Progress` counts finished work. Commands without a bar use `heartbeat`.
"""

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import IO, Any, Final

from albert_tf.errors import escaped

SECONDS_A_LINE: Final = 30.0
WITH_PROGRESS: Final = ("build-data", "pretrain", "finetune", "evaluate")  # commands with a bar
_FORMAT: Final = (
    "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt} [{rate_fmt}, {remaining} left{postfix}]"
)
_BAR: Final = _FORMAT.replace("% ", "%|{bar:15}| ")


class Progress:
    """Context manager that shows finished work, throughput, and remaining time.

    Args:
        stream: stream to write to. Default: standard error.
    """

    def __init__(self, stream: IO[str] | None = None):
        self._stream = stream or sys.stderr
        self._counts: Counter[str] = Counter()
        self._bar: Any = None
        self._next_line = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def start(self, name: str, total: int, unit: str = "B") -> None:
        """Ends the current phase and starts one with about `total` bytes (or other units)."""
        self.__exit__()
        self._counts.clear()
        self._next_line = time.monotonic() + SECONDS_A_LINE
        self._bar = bar(self._stream, name, total, unit=unit, unit_scale=unit == "B")

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Adds to the named counts that are shown next to the progress."""
        self._counts.update(counts)

    def update_to(self, done: int) -> None:
        """Reports that `done` bytes or units of the phase are finished."""
        counted = [f"{count:,} {name}" for name, count in sorted(self._counts.items())]
        self._bar.set_postfix_str(", ".join(counted), refresh=False)
        self._bar.update(done - self._bar.n)
        if not self._stream.isatty() and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + SECONDS_A_LINE
            print(self._bar, file=self._stream, flush=True)


def in_words(values: Mapping[str, float]) -> str:
    """Formats metrics for a progress line."""
    shown = []
    for name, value in values.items():
        if name in _FORMATS:
            shown.append(_FORMATS[name].format(value))
        elif name not in _UNSHOWN:
            shown.append(f"{escaped(name)} {value:.4f}")
    return ", ".join(shown)


_FORMATS: Final = {
    "loss": "loss {:.3f}",
    "masked_lm_accuracy": "masked LM {:.1%}",
    "sentence_order_accuracy": "sentence order {:.1%}",
    "accuracy": "accuracy {:.1%}",
    "one_class": "nearly all predictions are the same",
    "tokens_per_second": "{:,.0f} tokens/s",
    "examples_per_second": "{:,.0f} examples/s",
}
_UNSHOWN: Final = {"step", "learning_rate", "perplexity", "masked_lm_loss", "sentence_order_loss"}
_counts: dict[str, int] = {}


def count(name: str) -> None:
    """Counts an item as finished, to be reported in the next line that `heartbeat` prints."""
    _counts[name] = _counts.get(name, 0) + 1


@contextlib.contextmanager
def heartbeat(command: ModuleType) -> Iterator[None]:
    """Prints elapsed time and counts to stderr every 30 seconds.

    Prints nothing if stderr is a terminal, or if the command shows a bar.
    """
    _counts.clear()
    started, done = time.monotonic(), threading.Event()

    def show() -> None:
        while not done.wait(SECONDS_A_LINE):
            counted = "".join(f", {number:,} {name}" for name, number in _counts.items())
            seconds = time.monotonic() - started
            print(f"{title}: {seconds:,.0f} s{counted}", file=sys.stderr, flush=True)

    title = command.__name__.rpartition(".")[2].replace("_", "-")
    if title not in WITH_PROGRESS and not sys.stderr.isatty():
        threading.Thread(target=show, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def bar(stream: IO[str], name: str, total: int, **settings: Any) -> Any:
    """Returns a tqdm bar, which draws itself on a terminal and only counts elsewhere."""
    from tqdm import tqdm

    terminal = stream.isatty()
    return tqdm(
        total=total,
        desc=name,
        file=stream if terminal else _NOWHERE,
        bar_format=_BAR if terminal else _FORMAT,
        dynamic_ncols=terminal,
        **settings,
    )


_NOWHERE: Final = SimpleNamespace(write=lambda text: None, flush=lambda: None)
