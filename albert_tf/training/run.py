"""One training run: epochs of `Model.fit` that can be stopped anywhere and go on exactly."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import keras

from albert_tf.data.pipeline import EncodedExamples, steps_per_epoch, training_batches
from albert_tf.errors import UserError
from albert_tf.training.interruption import Interrupted, Request, listening
from albert_tf.training.state import load_state, save_state

STATE: Final = "state.safetensors"
BEST: Final = "best"


class Run(keras.callbacks.Callback):
    """Trains a compiled model, keeps its best version on dev, and can go on after any interruption.

    Args:
        folder: where the state and the best version are kept while the run lasts.
        settings: what an interrupted run must have in common with the one that goes on.
        judge: scores the model on dev; the first score chooses the best version, higher is better.
        total_steps: steps of training in all.
        batch_size, seed: of the order of batches.
        save_steps: steps from one saved state to the next; the end of an epoch saves too.
        patience: epochs without a better score before the run ends early, or None.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        judge: Callable[[keras.Model], dict[str, float]],
        total_steps: int,
        batch_size: int,
        seed: int,
        save_steps: int = 500,
        patience: int | None = None,
    ):
        super().__init__()
        self.folder, self.settings, self.judge = folder, settings, judge
        self.total_steps, self.batch_size, self.seed = total_steps, batch_size, seed
        self.save_steps, self.patience = save_steps, patience
        self._request = Request()
        self._last_step = 0  # of the epoch, or part of one, that is being trained
        self.progress: dict[str, Any] = {"step": 0, "best": None, "history": [], "seconds": 0.0}

    def train(self, model: keras.Model, data: EncodedExamples, callbacks: list[Any]) -> dict:
        """Trains to the end, from the saved state if there is one; returns the progress.

        Raises:
            Interrupted: SIGINT or SIGTERM came; the state is saved.
            UserError: the loss is no longer a number; the last state and the best version stay.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / STATE).exists():
            self.progress = load_state(self.folder / STATE, model, self.settings)
        epoch_steps = steps_per_epoch(len(data), self.batch_size)
        with listening() as self._request:
            while self.step < self.total_steps and not self.out_of_patience:
                epoch, done = divmod(self.step, epoch_steps)
                self._last_step = min(self.step - done + epoch_steps, self.total_steps)
                model.fit(
                    training_batches(data, self.batch_size, self.seed, start=self.step),
                    initial_epoch=epoch,
                    epochs=epoch + 1,
                    steps_per_epoch=self._last_step - self.step,
                    callbacks=[self, *callbacks],
                    shuffle=False,  # the batches are
                    verbose=1 if sys.stdout.isatty() else 2,
                )
                if self._request.made:
                    raise Interrupted
        return self.progress

    @property
    def step(self) -> int:
        """Steps trained so far."""
        return self.progress["step"]

    @property
    def out_of_patience(self) -> bool:
        """Whether the last `patience` epochs brought no better score."""
        best = self.progress["best"]
        return bool(
            self.patience
            and best
            and len(self.progress["history"]) - best["epoch"] >= self.patience
        )

    def on_train_begin(self, logs: Any = None) -> None:
        self._since = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.progress["step"] += 1
        if not math.isfinite((logs or {}).get("loss", 0.0)):
            raise UserError(
                f"The loss must be a number. Received: {logs['loss']} at step {self.step}. "
                "Give a lower --learning-rate, or more --warmup, and start anew with --force."
            )
        if self.step == self._last_step:
            return  # the epoch's end scores the model, and saves
        if self._request.made:
            self.model.stop_training = True
        if self._request.made or self.step % self.save_steps == 0:
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.step < self._last_step:
            return
        scores = self.judge(self.model)
        history = self.progress["history"]
        logs.update({f"val_{name}": score for name, score in scores.items()})
        history.append({"step": self.step, **{name: float(value) for name, value in logs.items()}})
        leading = next(iter(scores.values()))
        if self.progress["best"] is None or leading > self.progress["best"]["score"]:
            self.model.save_pretrained(self.folder / BEST)
            self.progress["best"] = {"epoch": len(history), "score": leading, **scores}
        self._save()

    def _save(self) -> None:
        self.progress["seconds"] += time.monotonic() - self._since
        self._since = time.monotonic()
        save_state(self.folder / STATE, self.model, self.settings, self.progress)
