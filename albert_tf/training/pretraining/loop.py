"""The loop of a pretraining run: where it is, when it saves, what it reports, and why it stops."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from albert_tf.errors import UserError
from albert_tf.models.base import PreTrainedModel
from albert_tf.training.interruption import Interrupted, Request, listening
from albert_tf.training.pretraining.checkpoints import Checkpoints
from albert_tf.training.pretraining.metrics import NOTHING, Sums, added, reported
from albert_tf.training.pretraining.options import PretrainingOptions
from albert_tf.training.schedules import WarmupPolynomialDecay

SECONDS: Final = 1.0  # between two looks at what the steps gave, for which a device must be waited
POINTS: Final = 1000  # of the history, at most
WINDOW: Final = 100  # steps whose mean loss tells whether a run diverges
DIVERGED: Final = 2.0  # nats above the lowest such mean


class Reporter(Protocol):
    """Hears of a run."""

    def on_step(self, step: int, sums: Sums, learning_rate: float, seconds: float) -> None:
        """After update number `step`, counted from 1, of that learning rate, which took so long."""

    def on_save(self, step: int, path: Path) -> None:
        """A checkpoint was written."""

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        """The model was scored on held-out records."""

    def close(self) -> None:
        """The run is over."""


class Loop:
    """Counts the steps of a run, and does what is due after each.

    Args:
        model: compiled.
        options: of the run.
        schedule: of the learning rate.
        tokens: positions of a global batch, padding included.
        checkpoints: where to save; None on a host that leaves it to another.
        evaluate: scores the model on held-out records; None if there are none.
        reporters: who hears of it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        options: PretrainingOptions,
        schedule: WarmupPolynomialDecay,
        tokens: int,
        checkpoints: Checkpoints | None,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        reporters: Sequence[Reporter] = (),
    ):
        self.model, self.options, self.schedule, self.tokens = model, options, schedule, tokens
        self.checkpoints, self.evaluate, self.reporters = checkpoints, evaluate, reporters
        self.progress: dict[str, Any] = {
            "step": 0,
            "seconds": 0.0,
            "history": [],
            "evaluation": [],
            "since_point": NOTHING,  # sums of the steps that follow the last point of the history
            "window": NOTHING,
            "lowest": None,
        }
        self._pending: list[Sums] = []
        self._request = Request()
        self._looked = self._saved = self._counted = time.monotonic()

    @property
    def step(self) -> int:
        """Updates made so far."""
        return self.progress["step"]

    @contextlib.contextmanager
    def started(self) -> Iterator[None]:
        """Signals ask the run to stop, and time counts, while it lasts."""
        self._looked = self._saved = self._counted = time.monotonic()
        with listening() as self._request:
            yield

    def run(self, update: Callable[[Any], Sums], batches: Iterator[Any]) -> None:
        """Trains to the end, by a function that updates the model by a batch.

        Raises:
            Interrupted: SIGINT or SIGTERM came; the state is saved.
            UserError: the loss is no number, or diverges; the last checkpoint stays.
        """
        with self.started():
            while self.step < self.options.steps:
                self.after(update(next(batches)))

    def after(self, sums: Sums) -> None:
        """What is due after an update, of which these are the global batch's sums."""
        self.progress["step"] += 1
        self._pending.append(sums)
        now, options = time.monotonic(), self.options
        ends = self.step == options.steps
        evaluates = self.evaluate and (ends or self._every(options.eval_steps))
        late = options.save_minutes and now - self._saved >= 60 * options.save_minutes
        saves = ends or late or self._request.made or self._every(options.save_steps)
        if saves or evaluates or now - self._looked >= SECONDS:
            self._look()
        if evaluates:
            self._score()
        if saves:
            self._save()
        if saves or evaluates:
            self._looked = time.monotonic()  # what follows is the next steps' time
        if self._request.made and not ends:
            raise Interrupted

    def _every(self, steps: int | None) -> bool:
        return steps is not None and self.step % steps == 0

    def _look(self) -> None:
        """Reads what the last steps gave, which waits for them."""
        first = self.step - len(self._pending)
        rates = np.asarray(self.schedule(np.arange(first, self.step)))
        read = [Sums(*map(float, pending)) for pending in self._pending]
        seconds = (time.monotonic() - self._looked) / len(read)
        for number, sums in enumerate(read):
            self._note(first + number + 1, sums, float(rates[number]), seconds)
        self._pending.clear()
        self._looked = time.monotonic()

    def _note(self, step: int, sums: Sums, rate: float, seconds: float) -> None:
        if not math.isfinite(reported(sums)["loss"]):
            raise self._failure("The loss must be a number", f"{reported(sums)['loss']}", step)
        for reporter in self.reporters:
            reporter.on_step(step, sums, rate, seconds)
        for part in ("since_point", "window"):
            self.progress[part] = added([Sums(*self.progress[part]), sums])
        if step % -(-self.options.steps // POINTS) == 0:
            means = reported(self.progress["since_point"])
            point = {"step": step, "tokens": step * self.tokens, "learning_rate": rate, **means}
            self.progress["history"].append(point)
            self.progress["since_point"] = NOTHING
        if step % WINDOW == 0:
            self._check_window(step)

    def _check_window(self, step: int) -> None:
        mean, lowest = reported(self.progress["window"])["loss"], self.progress["lowest"]
        if lowest is not None and mean > lowest + DIVERGED:
            received = f"a mean of {mean:.2f} over {WINDOW} steps after one of {lowest:.2f}"
            raise self._failure("The loss must not rise", received, step)
        self.progress["lowest"] = mean if lowest is None else min(lowest, mean)
        self.progress["window"] = NOTHING

    def _failure(self, rule: str, received: str, step: int) -> UserError:
        found = self.checkpoints.found() if self.checkpoints else []
        last = f"The last good checkpoint is {found[-1]}. " if found else ""
        return UserError(
            f"{rule}. Received: {received}, at step {step}. {last}Give a lower --learning-rate, "
            "more --warmup-steps or a lower --clip-norm, and a new --output"
            + (", with --init-checkpoint to begin from there." if found else ".")
        )

    def _score(self) -> None:
        assert self.evaluate is not None
        scores = dict(self.evaluate())
        self.progress["evaluation"].append({"step": self.step, **scores})
        for reporter in self.reporters:
            reporter.on_evaluation(self.step, scores)

    def _save(self) -> None:
        now = time.monotonic()
        self.progress["seconds"] += now - self._counted
        self._saved = self._counted = now
        if self.checkpoints is None:
            return
        path = self.checkpoints.save(self.model, self.progress)
        for reporter in self.reporters:
            reporter.on_save(self.step, path)
