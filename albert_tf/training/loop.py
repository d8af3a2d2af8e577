"""The loop of pretraining and fine-tuning: steps, and the work that is due after each.

`Plan` says how long a run lasts, when work is due and what ends it early.
"""

import contextlib
import dataclasses
import errno
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import keras
import numpy as np
from keras.ops import convert_to_numpy

from albert_tf.errors import UserError
from albert_tf.files import written_atomically
from albert_tf.models.base import PreTrainedModel
from albert_tf.optimizers import WarmupPolynomialDecay, averaged_weights
from albert_tf.options import save_options
from albert_tf.progress import Interval, ProgressLine
from albert_tf.training import distribution, steps
from albert_tf.training.checkpoints import LOGS, Checkpoints
from albert_tf.training.loss import ClassWeights, Totals
from albert_tf.training.options import FinetuningOptions, PretrainingOptions

SECONDS: Final = 1.0  # between two reads of the steps' totals; a read waits for the device
WINDOW: Final = 100  # steps whose mean loss shows whether a run diverges
DIVERGED: Final = 2.0  # nats above the lowest such mean
STEPS_A_POINT: Final = 100  # of TensorBoard's curves
EVENTS: Final = "events.out.tfevents.*"  # TensorFlow's name for files of TensorBoard
# The system's errors behind those of TensorFlow, when a file can't be written.
_ERRNO: Final = {
    "ResourceExhaustedError": errno.ENOSPC,
    "OutOfRangeError": errno.EFBIG,
    "PermissionDeniedError": errno.EACCES,
    "NotFoundError": errno.ENOENT,
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """The intervals and conditions of a run.

    Attributes:
        steps: length of the run.
        save_steps: steps between checkpoints.
        eval_steps: steps between evaluations; the last step has one, too.
        point_steps: steps between points of the history; the last step has one, too.
        keep_best: save the version with the best first score; each evaluation saves a checkpoint.
        patience: evaluations without a better score after which the run ends.
        stop_diverged: fail if the loss rises by `DIVERGED` nats.
    """

    steps: int
    save_steps: int
    eval_steps: int | None = None
    point_steps: int = 1
    keep_best: bool = False
    patience: int | None = None
    stop_diverged: bool = False


class Interrupted(Exception):
    """SIGINT or SIGTERM ended a run.

    Attributes:
        saved: whether this host wrote the state; of several hosts the chief does.
    """

    def __init__(self, saved: bool = True):
        super().__init__("The run was interrupted.")
        self.saved = saved

    def way_on(self, output: Path, force: bool) -> str:
        """Returns the command's last line, which says how to resume."""
        command = "The same command without --force" if force else "The same command"
        state = f"a checkpoint is in {output}" if self.saved else "the chief has the checkpoint"
        return f"Interrupted; {state}. {command} resumes there."


class Reporter(Protocol):
    """Receives the events of a run."""

    def on_step(self, step: int, totals: Totals, learning_rate: float, seconds: float) -> None:
        """Called after step `step` (from 1) with its totals, learning rate and duration."""

    def on_save(self, step: int, path: Path) -> None:
        """Called after a checkpoint was written."""

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        """Called after an evaluation on held-out examples."""

    def close(self) -> None:
        """Called at the end of the run."""


class Loop:
    """The steps of a run: reports, evaluates, saves, stops and resumes.

    Args:
        model: compiled.
        plan: intervals and conditions.
        schedule: learning rate schedule, for the reports.
        means: turns totals into the reported numbers, including `loss`.
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
        means: Callable[[Totals], dict[str, float]],
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
            "since_point": 0.0,  # totals since the last point of the history
            "window": 0.0,
            "lowest": None,
        }
        self._pending: list[Totals] = []
        self._interrupt = threading.Event()
        self._last_read = self._timed_until = time.monotonic()

    @property
    def step(self) -> int:
        """Steps trained so far."""
        return self.progress["step"]

    @property
    def ended(self) -> bool:
        """Whether all steps are trained, or patience ran out."""
        best = self.progress["best"]
        late = best and len(self.progress["evaluation"]) - best["evaluation"]
        return self.step >= self.plan.steps or bool(
            self.plan.patience and best and late >= self.plan.patience
        )

    def resume(
        self,
        options: PretrainingOptions | FinetuningOptions,
        checkpoints: Checkpoints,
        strategy: Any,
        name: str,
        speed: Mapping[str, float],
    ) -> None:
        """Restores the newest checkpoint, if there is one; the chief begins to report.

        Args:
            options: saved beside the output.
            checkpoints: of the run, on each host.
            strategy: of `distribution.on_devices`.
            name: label of the progress bar.
            speed: amount that a step computes, by name of the speed, such as `tokens_per_second`.
        """
        with distribution.scope(strategy):
            self.progress.update(checkpoints.load(self.model))
            distribution.check_same_step(strategy, self.step)
        if distribution.is_chief(strategy):
            checkpoints.folder.mkdir(parents=True, exist_ok=True)  # marks a resumable run
            save_options(options, checkpoints.output)
            self.reporters = (
                ProgressLine(name, self.plan.steps, Interval(self.means, speed), self.step),
                Scalars(checkpoints.output / LOGS, Interval(self.means, speed), self.step),
            )

    def train(
        self,
        options: PretrainingOptions | FinetuningOptions,
        strategy: Any,
        batches: Any,
        batch_size: int,
        signature: Any = None,
        class_weights: ClassWeights = None,
        jit_compile: bool = False,
    ) -> None:
        """Trains to the end with the backend's step; see `run`.

        Args:
            options: of the step.
            strategy: of `distribution.on_devices`.
            batches: a `tf.data.Dataset` of this host's part of each batch, from `step` on.
            batch_size: examples of a batch, over all hosts.
            signature: specs of a batch whose shapes vary.
            class_weights: weight of each class's loss.
            jit_compile: whether XLA compiles the step on TensorFlow.
        """
        # On JAX the scope decides the layout of what the step computes, too.
        scope = distribution.scope(strategy if keras.backend.backend() == "jax" else None)
        with distribution.errors_of_lost_hosts(strategy), scope:
            step = steps.TrainingStep(
                *(self.model, strategy, options.micro_batches, jit_compile),
                *(signature, class_weights),
            )
            self.run(step, steps.batches(batches, strategy, batch_size))

    def run(self, update: Callable[[Any], Totals], batches: Iterator[Any]) -> None:
        """Trains to the end; closes the reporters.

        Args:
            update: a training step.
            batches: from batch number `step` on.
        Raises:
            Interrupted: SIGINT or SIGTERM came; the chief has saved the state.
            UserError: the loss is not finite or diverges; the last checkpoint stays.
        """
        self._last_read = self._timed_until = time.monotonic()
        try:
            with _signals(self._interrupt):
                while not self.ended:
                    self.after(update(next(batches)))
        finally:
            for reporter in self.reporters:
                reporter.close()

    def after(self, totals: Totals) -> None:
        """Counts a step with these totals; then reports, evaluates, saves and stops if due."""
        self.progress["step"] += 1
        self._pending.append(totals)
        now, plan = time.monotonic(), self.plan
        last = self.step == plan.steps
        evaluates = bool(self.evaluate) and (last or self._every(plan.eval_steps))
        saves = last or self._interrupt.is_set() or self._every(plan.save_steps)
        saves = saves or (evaluates and plan.keep_best)
        if saves or evaluates or now - self._last_read >= SECONDS:
            self._read()
        if evaluates:
            self._evaluate()
        if saves:
            self._save()
        if saves or evaluates:
            self._last_read = time.monotonic()  # the next steps' time begins here
        if self._interrupt.is_set() and not self.ended:
            raise Interrupted(saved=self.checkpoints is not None)

    def _every(self, steps: int | None) -> bool:
        return steps is not None and self.step % steps == 0

    def _read(self) -> None:
        """Reads the totals of the last steps, which waits for the device."""
        first = self.step - len(self._pending)
        rates = np.asarray(self.schedule(np.arange(first, self.step)))
        read = [np.asarray(convert_to_numpy(totals), "float64") for totals in self._pending]
        seconds = (time.monotonic() - self._last_read) / len(read)
        self._pending.clear()
        for number, totals in enumerate(read):
            self._note(first + number + 1, totals, float(rates[number]), seconds)
        self._last_read = time.monotonic()

    def _note(self, step: int, totals: Totals, rate: float, seconds: float) -> None:
        loss = self.means(totals)["loss"]
        if not math.isfinite(loss):
            raise self._failure("The loss must be a number", f"{loss}", step)
        for reporter in self.reporters:
            reporter.on_step(step, totals, rate, seconds)
        for name in ("since_point", "window"):
            self.progress[name] = (np.asarray(self.progress[name]) + totals).tolist()
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
        saved = self.checkpoints.found() if self.checkpoints else []
        last = f"The last good checkpoint is {saved[-1]}. " if saved else ""
        return UserError(
            f"{rule}. Received: {received}, at step {step}. {last}Give a lower --learning-rate or "
            "a longer warm-up, and a new --output or --force."
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
        for reporter in self.reporters:
            reporter.on_evaluation(self.step, scores)

    def _save(self) -> None:
        now = time.monotonic()
        self.progress["seconds"] += now - self._timed_until
        self._timed_until = now
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


class Scalars:
    """Writes TensorBoard's event files with the means, `learning_rate` and the speed.

    A point covers all steps since the one before. A saved step has one, so that a resumed run
    neither leaves steps out nor counts them twice. Held-out scores are under `evaluation/`.

    Args:
        folder: of the event files; points after `step` are removed from existing ones.
        interval: of the steps since the last point.
        step: steps trained before.
        every: steps between points.
    """

    def __init__(self, folder: Path, interval: Interval, step: int = 0, every: int = STEPS_A_POINT):
        import tensorflow as tf  # on other backends too: it reads the examples anyway

        self._folder, self._summary = folder, tf.summary
        with _disk_errors(folder):
            _drop_later(folder, step)
            self._writer = tf.summary.create_file_writer(str(folder))
        self._interval = interval
        self._every, self._step, self._learning_rate = every, step, 0.0

    def on_step(self, step: int, totals: Totals, learning_rate: float, seconds: float) -> None:
        self._interval.add(totals, seconds)
        self._step, self._learning_rate = step, learning_rate
        if step % self._every == 0:
            self._end_interval()

    def on_save(self, step: int, path: Path) -> None:
        self._end_interval()

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        self._write(step, {f"evaluation/{name}": score for name, score in scores.items()})

    def close(self) -> None:
        self._end_interval()
        with _disk_errors(self._folder):
            self._writer.close()

    def _end_interval(self) -> None:
        if not self._interval.empty:
            point = {**self._interval.pop(), "learning_rate": self._learning_rate}
            self._write(self._step, point)

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        with _disk_errors(self._folder), self._writer.as_default(step=step):
            for name, value in values.items():
                self._summary.scalar(name, value)
            self._writer.flush()


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Raises the OSError that Python would raise in the place of TensorFlow's errors."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        number = _ERRNO.get(type(error).__name__, 0)
        text = os.strerror(number) if number else error.message
        raise OSError(number, text, str(path)) from error


def _drop_later(folder: Path, after: int) -> None:
    """Removes the points of steps that a resumed run trains again."""
    import tensorflow as tf

    for path in folder.glob(EVENTS):
        events = map(tf.compat.v1.Event.FromString, _records(path))
        earlier = [event.SerializeToString() for event in events if event.step <= after]
        if len(earlier) <= 1:  # the version of the format
            path.unlink()
            continue
        with written_atomically(path, force=True) as new, tf.io.TFRecordWriter(str(new)) as file:
            for event in earlier:
                file.write(event)


def _records(path: Path) -> Iterator[bytes]:
    """Yields the records of a file, up to one that a killed run left incomplete."""
    import tensorflow as tf

    try:
        for record in tf.data.TFRecordDataset(str(path)):
            yield record.numpy()
    except tf.errors.DataLossError:
        return
