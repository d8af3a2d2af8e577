"""SIGINT and SIGTERM ask a run to save its state and stop; a second one doesn't wait."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


class Interrupted(Exception):
    """The run was asked to stop, and saved where it is."""


class Request:
    """Whether the run is asked to stop."""

    made: bool = False


@contextlib.contextmanager
def listening() -> Iterator[Request]:
    """Within the block a first signal makes the request; the next one is handled as before."""
    request = Request()

    def stop(number: int, frame: Any) -> None:
        request.made = True
        signal.signal(number, before[number])

    signals = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in signals}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
