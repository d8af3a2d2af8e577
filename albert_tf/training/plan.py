"""How long a run lasts, what is due when, and what ends it early."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from albert_tf.data.tasks.classification import ONE_CLASS

WINDOW: Final = 100  # steps whose mean loss shows whether a run diverges
DIVERGED: Final = 2.0  # nats above the lowest such mean
# Shares of the least loss without input: a model above the first has learned nothing, and one
# below the second has learned something.
STUCK: Final = 0.99
LEARNED: Final = 0.9


@dataclasses.dataclass(frozen=True)
class Plan:
    """The intervals and conditions of a run.

    Attributes:
        steps: length of the run.
        save_steps: steps between checkpoints.
        save_minutes: minutes between checkpoints; whichever comes first.
        eval_steps: steps between evaluations; the last step has one, too.
        point_steps: steps between points of the history; the last step has one, too.
        keep_best: save the version with the best first score; each evaluation saves a checkpoint.
        patience: evaluations without a better score after which the run ends.
        stop_diverged: fail if the loss rises by `DIVERGED` nats.
        constant_loss: the least loss without input, with which `futile` compares.
    """

    steps: int
    save_steps: int
    save_minutes: float | None = None
    eval_steps: int | None = None
    point_steps: int = 1
    keep_best: bool = False
    patience: int | None = None
    stop_diverged: bool = False
    constant_loss: float | None = None

    def futile(
        self, history: Sequence[Mapping[str, float]], scores: Sequence[Mapping[str, float]]
    ) -> str | None:
        """Returns why the run should end at the last of its evaluations, with the way out.

        A run is futile if its loss is that of a model without input, after `WINDOW` steps or more:
        after a point with a clearly lower loss; in the last third, if at every point so far nearly
        all predictions on dev were alike, too; or at the end. Otherwise the model may begin to
        learn when the learning rate has fallen, as `small` does on RTE.

        Args:
            history: the points of training, each with its step and mean loss.
            scores: of the evaluation at each point.
        """
        if self.constant_loss is None or not history or history[-1]["step"] < WINDOW:
            return None
        step, loss = history[-1]["step"], history[-1]["loss"]
        stuck = [point["loss"] >= STUCK * self.constant_loss for point in history]
        has_learned = min(point["loss"] for point in history) < LEARNED * self.constant_loss
        is_dead = all(stuck) and all(ONE_CLASS in each for each in scores)
        is_over = step >= self.steps or (is_dead and 3 * step >= 2 * self.steps)
        if not stuck[-1] or not (has_learned or is_over):
            return None
        course = "has risen again to" if has_learned else "is still"
        return (
            f"The training loss {course} {loss:.4f} at step {step:,}, where the same prediction "
            f"for every example has {self.constant_loss:.4f}. Give a lower --learning-rate or a "
            "longer --warmup, or check that the labels belong to the texts."
        )
