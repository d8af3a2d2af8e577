"""Shows progress: a bar on a terminal, a line every half minute elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import IO, Any, Final

SECONDS_A_LINE: Final = 30.0
_FORMAT: Final = (
    "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt} [{rate_fmt}, {remaining} left{postfix}]"
)
_BAR: Final = _FORMAT.replace("% ", "%|{bar:15}| ")


class Progress:
    """Shows what is done, the speed and the time left, while its context is open.

    Args:
        stream: default: standard error.
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

    def phase(self, name: str, total: int, unit: str = "B") -> None:
        """Ends the phase before, and begins another of about `total` bytes, or other units."""
        self.__exit__()
        self._counts.clear()
        self._next_line = time.monotonic() + SECONDS_A_LINE
        self._bar = new_bar(self._stream, name, total, unit=unit, unit_scale=unit == "B")

    def count(self, counts: Mapping[str, int]) -> None:
        """Adds counts to show, by name."""
        self._counts.update(counts)

    def at(self, done: int) -> None:
        """Moves to `done` bytes, or units, of the phase."""
        counted = [f"{count:,} {name}" for name, count in sorted(self._counts.items())]
        self._bar.set_postfix_str(", ".join(counted), refresh=False)
        self._bar.update(done - self._bar.n)
        if not self._stream.isatty() and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + SECONDS_A_LINE
            print(self._bar, file=self._stream, flush=True)


def new_bar(stream: IO[str], name: str, total: int, **settings: Any) -> Any:
    """Makes tqdm's bar, which draws itself on a terminal; elsewhere it counts, to print a line."""
    from tqdm import tqdm

    terminal = stream.isatty()
    return tqdm(
        total=total,
        desc=name,
        file=stream if terminal else _Nowhere(),
        bar_format=_BAR if terminal else _FORMAT,
        dynamic_ncols=terminal,
        **settings,
    )


class _Nowhere:
    """A stream that drops what is written."""

    def write(self, text: str) -> None:
        pass

    def flush(self) -> None:
        pass
