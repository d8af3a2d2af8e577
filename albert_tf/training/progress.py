"""Progress of a run: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

from tqdm import tqdm

from albert_tf.data.jobs.progress import SECONDS_A_LINE, new_bar
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.errors import escaped
from albert_tf.training.sums import Sums

SECONDS_ON_A_TERMINAL: Final = 5.0  # between new numbers; the bar itself moves with each step
Means = Callable[[Sums], dict[str, float]]


class ProgressLine:
    """Shows the means of the steps since it last showed them.

    Args:
        name: of the job.
        total_steps: of the whole run.
        interval: of the steps since the last output.
        step: steps trained before.
        stream: output; standard error by default.
    """

    def __init__(
        self,
        name: str,
        total_steps: int,
        interval: "Interval",
        step: int = 0,
        stream: IO[str] | None = None,
    ):
        self._stream = stream or sys.stderr
        # The mean speed: a long evaluation doesn't distort the time left.
        self._bar = new_bar(self._stream, name, total_steps, unit="step", initial=step, smoothing=0)
        self._interval = interval
        self._compiling = True
        self._next = time.monotonic()  # the first step shows that all is well

    def on_step(self, step: int, sums: Sums, learning_rate: float, seconds: float) -> None:
        self._interval.add(sums, seconds)
        if self._compiling:  # the first step's time would distort the time left
            self._bar.initial = self._bar.n = step
            self._bar.unpause()
            self._compiling = False
        self._bar.update(step - self._bar.n)
        if time.monotonic() >= self._next:
            self._show()

    def on_save(self, step: int, path: Path) -> None:
        pass

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        tqdm.write(f"step {step:,}, held out: {in_words(scores)}", file=self._stream)

    def close(self) -> None:
        if not self._interval.empty:
            self._show()
        self._bar.close()

    def _show(self) -> None:
        terminal = self._stream.isatty()
        self._next = time.monotonic() + (SECONDS_ON_A_TERMINAL if terminal else SECONDS_A_LINE)
        self._bar.set_postfix_str(in_words(self._interval.taken()), refresh=terminal)
        if not terminal:
            print(self._bar, file=self._stream, flush=True)


class Interval:
    """The steps since the last output: their means and their speed.

    Args:
        means: turns sums into reported numbers.
        speed: what a step computes, by the name of its speed: `{"tokens_per_second": 96}` for
            batches of 96 positions, padding included.
    """

    def __init__(self, means: Means, speed: Mapping[str, float]):
        self._means, self._speed = means, speed
        self._compiled = False  # by the first step, whose time isn't counted
        self._restart()

    def _restart(self) -> None:
        self._sums: Sums = 0.0
        self._timed_steps, self._seconds = 0, 0.0
        self.empty = True

    def add(self, sums: Sums, seconds: float) -> None:
        """Counts a step, which took so long."""
        self._sums, self.empty = self._sums + sums, False
        if self._compiled:
            self._timed_steps += 1
            self._seconds += seconds
        self._compiled = True

    def taken(self) -> dict[str, float]:
        """Returns the means since the last call, and the speed if a step was timed."""
        values = self._means(self._sums)
        if self._seconds > 0:
            for name, amount in self._speed.items():
                values[name] = amount * self._timed_steps / self._seconds
        self._restart()
        return values


def in_words(values: Mapping[str, float]) -> str:
    """Returns reported numbers as a line shows them; other names than `_FORMATS` as they are."""
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
    ONE_CLASS: "nearly all predictions alike",
    "tokens_per_second": "{:,.0f} tokens/s",
    "examples_per_second": "{:,.0f} examples/s",
}
_UNSHOWN: Final = {"step", "learning_rate", "perplexity", "masked_lm_loss", "sentence_order_loss"}
