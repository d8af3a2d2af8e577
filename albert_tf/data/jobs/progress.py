"""How far a job is: a bar on a terminal, now and then a line elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import IO, Any, Final

from tqdm import tqdm

SECONDS_A_LINE: Final = 30.0
_FORMAT: Final = (
    "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt} [{rate_fmt}, {remaining} left{postfix}]"
)
_BAR: Final = _FORMAT.replace("% ", "%|{bar:15}| ")


class Progress:
    """Counts what is done, and shows it with the speed and the time left.

    A context: what it shows ends with it.

    Args:
        stream: where to; standard error by default.
    """

    def __init__(self, stream: IO[str] | None = None):
        self._stream = stream or sys.stderr
        self._counts: Counter[str] = Counter()
        self._bar: Any = None
        self._next_line = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def phase(self, name: str, total: int) -> None:
        """Ends the phase before, and begins another.

        Args:
            name: what is done in it.
            total: how many bytes it goes over, about.
        """
        self._end()
        self._counts.clear()
        self._next_line = time.monotonic() + SECONDS_A_LINE
        self._bar = new_bar(self._stream, name, total, unit="B", unit_scale=True)

    def add(self, news: Mapping[str, int]) -> None:
        """Counts more; called from one thread at a time.

        Args:
            news: `advance` in bytes, and counts by name.
        """
        bar = self._bar
        if bar is None:
            return
        self._counts.update(news)
        del self._counts["advance"]
        counted = [f"{count:,} {name}" for name, count in sorted(self._counts.items())]
        bar.set_postfix_str(", ".join(counted), refresh=False)
        bar.update(news.get("advance", 0))
        if not self._stream.isatty() and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + SECONDS_A_LINE
            print(bar, file=self._stream, flush=True)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def new_bar(stream: IO[str], name: str, total: int, **settings: Any) -> Any:
    """tqdm's bar: it draws itself on a terminal; elsewhere it counts, to be printed as a line."""
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
    """A stream that forgets."""

    def write(self, text: str) -> None:
        pass

    def flush(self) -> None:
        pass
