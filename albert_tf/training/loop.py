"""The loop of pretraining and fine-tuning: steps, and the work that is due after each."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from keras.ops import convert_to_numpy

from albert_tf.errors import UserError
from albert_tf.models.base import PreTrainedModel
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.optimizers import averaged_weights
from albert_tf.training.plan import DIVERGED, WINDOW, Plan
from albert_tf.training.schedules import WarmupPolynomialDecay
from albert_tf.training.sums import Sums

SECONDS: Final = 1.0  # between two reads of the steps' sums; a read waits for the device


class Interrupted(Exception):
    """SIGINT or SIGTERM ended a run.

    Attributes:
        saved: whether this host wrote the state; of several hosts the chief does.
    """

    def __init__(self, saved: bool = True):
        super().__init__("The run was interrupted.")
        self.saved = saved

    def way_on(self, output: Path, force: bool) -> str:
        """Returns what a person does next."""
        command = "The same command without --force" if force else "The same command"
        place = f"a checkpoint is in {output}" if self.saved else "the chief has the checkpoint"
        return f"Interrupted; {place}. {command} resumes there."


class Reporter(Protocol):
    """Receives the events of a run."""

    def on_step(self, step: int, sums: Sums, learning_rate: float, seconds: float) -> None:
        """Step number `step`, counted from 1, took so long at that learning rate."""

    def on_save(self, step: int, path: Path) -> None:
        """A checkpoint was written."""

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        """The model was evaluated on held-out examples."""

    def close(self) -> None:
        """The run is over."""


class Loop:
    """The steps of a run: reports, evaluates, saves, stops and resumes.

    Args:
        model: compiled.
        plan: intervals and conditions.
        schedule: learning rate schedule, for the reports.
        means: turns sums into the reported numbers, including `loss`.
        checkpoints: where to save; None on a host that leaves saving to another.
        evaluate: scores the model on held-out examples; None if there are none.
        reporters: receive the events.

    Attributes:
        progress: all of the run's state outside the model, as JSON; each checkpoint has it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        plan: Plan,
        schedule: WarmupPolynomialDecay,
        means: Callable[[Sums], dict[str, float]],
        checkpoints: Checkpoints | None,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        reporters: Sequence[Reporter] = (),
    ):
        self.model, self.plan, self.schedule, self.means = model, plan, schedule, means
        self.checkpoints, self.evaluate, self.reporters = checkpoints, evaluate, reporters
        self.progress: dict[str, Any] = {
            "step": 0,
            "seconds": 0.0,
            "history": [],
            "evaluation": [],
            "best": None,
            "since_point": 0.0,  # sums of the steps since the last point of the history
            "window": 0.0,
            "lowest": None,
            "stopped": None,  # why the run ends early, where its loss shows that it is futile
        }
        self._pending: list[Sums] = []
        self._interrupt = threading.Event()
        self._looked = self._saved = self._counted = time.monotonic()

    @property
    def step(self) -> int:
        """Steps trained so far."""
        return self.progress["step"]

    @property
    def ended(self) -> bool:
        """Whether all steps are trained, patience ran out, or the run is futile."""
        best = self.progress["best"]
        late = best and len(self.progress["evaluation"]) - best["evaluation"]
        return (
            self.step >= self.plan.steps
            or self.progress["stopped"] is not None
            or bool(self.plan.patience and best and late >= self.plan.patience)
        )

    def run(self, update: Callable[[Any], Sums], batches: Iterator[Any]) -> None:
        """Trains to the end; closes the reporters.

        Args:
            update: a training step.
            batches: from batch number `step` on.
        Raises:
            Interrupted: SIGINT or SIGTERM came; the chief has saved the state.
            UserError: the loss is not finite or diverges; the last checkpoint stays.
        """
        self._looked = self._saved = self._counted = time.monotonic()
        try:
            with _signals(self._interrupt):
                while not self.ended:
                    self.after(update(next(batches)))
        finally:
            for reporter in self.reporters:
                reporter.close()

    def after(self, sums: Sums) -> None:
        """Counts a step with these sums; then reports, evaluates, saves and stops if due."""
        self.progress["step"] += 1
        self._pending.append(sums)
        now, plan = time.monotonic(), self.plan
        last = self.step == plan.steps
        evaluates = bool(self.evaluate) and (last or self._every(plan.eval_steps))
        late = now - self._saved >= 60 * (plan.save_minutes or math.inf)
        saves = last or late or self._interrupt.is_set() or self._every(plan.save_steps)
        saves = saves or (evaluates and plan.keep_best)
        if saves or evaluates or now - self._looked >= SECONDS:
            self._read()
        if evaluates:
            self._evaluate()
        if saves:
            self._save()
        if saves or evaluates:
            self._looked = time.monotonic()  # the next steps' time begins here
        if self._interrupt.is_set() and not self.ended:
            raise Interrupted(saved=self.checkpoints is not None)

    def _every(self, steps: int | None) -> bool:
        return steps is not None and self.step % steps == 0

    def _read(self) -> None:
        """Reads the sums of the last steps, which waits for the device."""
        first = self.step - len(self._pending)
        rates = np.asarray(self.schedule(np.arange(first, self.step)))
        read = [np.asarray(convert_to_numpy(sums), "float64") for sums in self._pending]
        seconds = (time.monotonic() - self._looked) / len(read)
        self._pending.clear()
        for number, sums in enumerate(read):
            self._note(first + number + 1, sums, float(rates[number]), seconds)
        self._looked = time.monotonic()

    def _note(self, step: int, sums: Sums, rate: float, seconds: float) -> None:
        loss = self.means(sums)["loss"]
        if not math.isfinite(loss):
            raise self._failure("The loss must be a number", f"{loss}", step)
        for reporter in self.reporters:
            reporter.on_step(step, sums, rate, seconds)
        for part in ("since_point", "window"):
            self.progress[part] = (np.asarray(self.progress[part]) + sums).tolist()
        if step % self.plan.point_steps == 0 or step == self.plan.steps:
            means = self.means(self.progress["since_point"])
            self.progress["history"].append({"step": step, "learning_rate": rate, **means})
            self.progress["since_point"] = 0.0
        if step % WINDOW == 0:
            self._check_window(step)

    def _check_window(self, step: int) -> None:
        mean, lowest = self.means(self.progress["window"])["loss"], self.progress["lowest"]
        if self.plan.stop_diverged and lowest is not None and mean > lowest + DIVERGED:
            received = f"a mean of {mean:.2f} over {WINDOW} steps after one of {lowest:.2f}"
            raise self._failure("The loss must not rise", received, step)
        self.progress["lowest"] = mean if lowest is None else min(lowest, mean)
        self.progress["window"] = 0.0

    def _failure(self, rule: str, received: str, step: int) -> UserError:
        found = self.checkpoints.found() if self.checkpoints else []
        last = f"The last good checkpoint is {found[-1]}. " if found else ""
        return UserError(
            f"{rule}. Received: {received}, at step {step}. {last}Give a lower --learning-rate, a "
            "longer warm-up or a lower --clip-norm, and a new --output or --force."
        )

    def _evaluate(self) -> None:
        assert self.evaluate is not None
        evaluation, best = self.progress["evaluation"], self.progress["best"]
        with averaged_weights(self.model):
            scores = dict(self.evaluate())
            evaluation.append({"step": self.step, **scores})
            leading = next(iter(scores.values()))
            if self.plan.keep_best and (best is None or leading > best["score"]):
                if self.checkpoints:
                    self.checkpoints.save_best(self.model)
                best = {"evaluation": len(evaluation), "score": leading, **scores}
                self.progress["best"] = best
        self.progress["stopped"] = self.plan.futile(self.progress["history"], evaluation)
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


@contextlib.contextmanager
def _signals(request: threading.Event) -> Iterator[None]:
    """Sets `request` at a first SIGINT or SIGTERM within the block; a second one acts as usual."""

    def stop(number: int, frame: Any) -> None:
        request.set()
        signal.signal(number, before[number])

    signals = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
