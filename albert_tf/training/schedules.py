"""Learning rate schedule: linear warm-up, then polynomial decay to 0."""

from typing import Any, get_args

import keras
from keras import ops

from albert_tf.training.options import Form


@keras.saving.register_keras_serializable("albert_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly over `warmup_steps`, then falls to 0 at `total_steps`.

    The original form rises as `step / warmup_steps`; its decay counts from step 0, so the rate
    drops when the warm-up ends (for pretraining, to 0.975 of the peak). The usual form rises as
    `(step + 1) / warmup_steps`, so that the first step trains too, and decays from the peak over
    the steps after the warm-up.

    Args:
        peak: learning rate at the end of the warm-up.
        warmup_steps: steps of warm-up, 0 or more, fewer than `total_steps`.
        total_steps: step from which the rate is 0.
        power: power of the decay; 1 is linear.
        form: "original" or "usual".
        start_warmup_step: step at which the warm-up begins; the rate is 0 before it, where the
            original's is negative.
    Raises:
        ValueError: an argument is out of its range.
    Example:
        >>> from albert_tf import WarmupPolynomialDecay
        >>> schedule = WarmupPolynomialDecay(0.1, warmup_steps=2, total_steps=10, form="usual")
        >>> [round(float(schedule(step)), 4) for step in (0, 1, 6, 10)]
        [0.05, 0.1, 0.05, 0.0]

    Source: google-research/albert, optimization.py, `create_optimizer`. In practice that reads the
        step after its increment; here step 0 is the first, as in its formula.
    """

    def __init__(
        self,
        peak: float,
        warmup_steps: int,
        total_steps: int,
        power: float = 1.0,
        form: Form = "original",
        start_warmup_step: int = 0,
    ):
        super().__init__()
        if not 0 <= warmup_steps < total_steps:
            raise ValueError(
                "warmup_steps must lie in [0, total_steps). "
                f"Received: warmup_steps={warmup_steps}, total_steps={total_steps}."
            )
        if form not in get_args(Form):
            raise ValueError(f"form must be one of {', '.join(get_args(Form))}. Received: {form}.")
        self.peak, self.warmup_steps, self.total_steps = peak, warmup_steps, total_steps
        self.power, self.form, self.start_warmup_step = power, form, start_warmup_step

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32")
        early = 0 if self.form == "original" else 1
        begun = step - self.start_warmup_step
        rise = (begun + early) / max(1, self.warmup_steps)
        before = 0 if self.form == "original" else self.warmup_steps
        left = ops.maximum(0.0, 1 - (step - before) / (self.total_steps - before))
        fall = left if self.power == 1 else ops.power(left, self.power)
        return self.peak * ops.where(begun < self.warmup_steps, ops.maximum(rise, 0.0), fall)

    def get_config(self) -> dict[str, Any]:
        names = ("peak", "warmup_steps", "total_steps", "power", "form", "start_warmup_step")
        return {name: getattr(self, name) for name in names}
