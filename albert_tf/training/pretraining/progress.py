"""How far a run is: a bar on a terminal, now and then a line elsewhere."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from tqdm import tqdm

from albert_tf.data.jobs.progress import SECONDS_A_LINE, new_bar
from albert_tf.training.pretraining.metrics import NAMES, NOTHING, Sums, added, reported

SECONDS_ON_A_TERMINAL: Final = 5.0  # between new numbers; the bar itself moves with each step


class ProgressLine:
    """A bar on a terminal, now and then a line elsewhere, of numbers since the one before.

    Args:
        total_steps: of the whole run.
        tokens_per_step: positions of a global batch.
        step: steps trained before.
        stream: where to; standard error by default.
    """

    def __init__(
        self, total_steps: int, tokens_per_step: int, step: int = 0, stream: IO[str] | None = None
    ):
        self._stream = stream or sys.stderr
        # By the mean speed, a long evaluation now and then doesn't throw off the time left.
        self._bar = new_bar(
            self._stream, "pretraining", total_steps, unit="step", initial=step, smoothing=0
        )
        self._interval = Interval(tokens_per_step)
        self._compiling = True
        self._next = time.monotonic()  # the first step shows that all is well

    def on_step(self, step: int, sums: Sums, learning_rate: float, seconds: float) -> None:
        self._interval.add(sums, seconds)
        if self._compiling:  # which says nothing of the time left
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


def measured(values: Mapping[str, float]) -> tuple[str, ...]:
    """The `NAMES` among what was reported, without sentence order if no pair had a label."""
    return tuple(
        name
        for name in NAMES
        if name in values and (values.get("sentence_order_loss") or "sentence" not in name)
    )


class Interval:
    """The steps since the last output: means of their sums, and their speed."""

    def __init__(self, tokens_per_step: int):
        self._tokens_per_step = tokens_per_step
        self._compiled = False  # by the first step, whose time says nothing
        self._restart()

    def _restart(self) -> None:
        self._sums = NOTHING
        self._timed_steps, self._seconds = 0, 0.0
        self.empty = True

    def add(self, sums: Sums, seconds: float) -> None:
        """Counts a step, which took so long."""
        self._sums, self.empty = added([self._sums, sums]), False
        if self._compiled:
            self._timed_steps += 1
            self._seconds += seconds
        self._compiled = True

    def taken(self) -> dict[str, float]:
        """Means since the last time, and `tokens_per_second` if a step was timed."""
        values = reported(self._sums)
        if self._seconds > 0:
            values["tokens_per_second"] = self._tokens_per_step * self._timed_steps / self._seconds
        self._restart()
        return values


def in_words(values: Mapping[str, float]) -> str:
    """What was reported, as a line shows it."""
    known = measured(values)
    parts = [f"loss {values['loss']:.3f}"]
    for name, label in _ACCURACIES.items():
        if name in known:
            parts.append(f"{label} {values[name]:.1%}")
    if "tokens_per_second" in values:
        parts.append(f"{values['tokens_per_second']:,.0f} tokens/s")
    return ", ".join(parts)


_ACCURACIES: Final = {
    "masked_lm_accuracy": "masked LM",
    "sentence_order_accuracy": "sentence order",
}
