"""The fine-tuning optimizer: AdamW with warm-up and linear decay."""

from typing import Any

import keras
from keras import ops

NO_DECAY = ("bias", "gamma", "beta")  # google-research/albert, optimization.py


@keras.saving.register_keras_serializable("albert_tf")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to `peak` over `warmup_steps`, then falls linearly to 0 at `total_steps`.

    Args:
        peak: the highest learning rate.
        warmup_steps: steps of warm-up, 0 or more, fewer than `total_steps`.
        total_steps: the step at which the rate is 0.
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int):
        super().__init__()
        if not 0 <= warmup_steps < total_steps:
            raise ValueError(
                "warmup_steps must lie in [0, total_steps). "
                f"Received: warmup_steps={warmup_steps}, total_steps={total_steps}."
            )
        self.peak, self.warmup_steps, self.total_steps = peak, warmup_steps, total_steps

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32")
        rise = (step + 1) / max(1, self.warmup_steps)
        fall = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        return self.peak * ops.maximum(0.0, ops.minimum(1.0, ops.minimum(rise, fall)))

    def get_config(self) -> dict[str, Any]:
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
        }


def adamw(model: keras.Model, schedule: Any, weight_decay: float = 0.01) -> keras.optimizers.AdamW:
    """AdamW as google-research/albert sets it: no decay of biases and norms, clipped to norm 1.

    Keras' form corrects the moments' bias, which the original leaves out.
    """
    optimizer = keras.optimizers.AdamW(
        schedule, weight_decay=weight_decay, epsilon=1e-6, global_clipnorm=1.0
    )
    # By variable: matching names works on the TensorFlow backend only.
    optimizer.exclude_from_weight_decay(
        var_list=[variable for variable in model.trainable_variables if variable.name in NO_DECAY]
    )
    return optimizer
