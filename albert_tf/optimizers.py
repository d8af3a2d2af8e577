"""The optimizers (AdamW and LAMB) and the learning rate schedule of google-research/albert.

They run on every backend. Fine-tuning, pretraining, and `compile` without an optimizer use these
optimizers.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, Final, Literal, get_args

import keras
from keras import ops

from albert_tf.errors import UserError
from albert_tf.options import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    DecayForm,
    check_number,
    checks_numbers,
)

EXCLUDED: Final = ("LayerNorm", "layer_norm", "bias")  # google-research/albert, optimization.py


@keras.saving.register_keras_serializable("albert_tf")
class AlbertAdamW(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay and without bias correction, as in BERT and ALBERT.

    Args:
        learning_rate: a float or a learning rate schedule.
        weight_decay: weight decay coefficient, for weights that don't match `exclude`.
        beta_1: exponential decay rate of the first-moment estimates.
        beta_2: exponential decay rate of the second-moment estimates.
        epsilon: small constant added to the square root of the second moment.
        bias_correction: whether to correct the bias of both moments, as Adam's authors (arXiv
            1412.6980, algorithm 1) and PyTorch do. Keras adds epsilon before the correction.
        exclude: one or more substrings of weight paths; matching weights are excluded from weight
            decay.
        global_clipnorm: maximum global norm of the gradients. None turns clipping off. "auto"
            means 1.0, or None if `clipnorm` or `clipvalue` is passed.
        **kwargs: arguments of `keras.optimizers.Optimizer`: `use_ema`, `ema_momentum`, `name`, ….
    Example:
        >>> from albert_tf import AlbertAdamW, WarmupPolynomialDecay
        >>> schedule = WarmupPolynomialDecay(2e-5, warmup_steps=100, total_steps=1000)
        >>> optimizer = AlbertAdamW(schedule, bias_correction=True)

    Source: arXiv 1711.05101; google-research/albert, optimization.py, `AdamWeightDecayOptimizer`.
    """

    # TensorFlow's fused Adam kernel makes steps on short texts faster (benchmarks/NOTES.md).
    # Without bias correction, separate operations match the original code to the last bit.
    fused = keras.backend.backend() == "tensorflow"
    _once: Any = None  # caches values that all variables share, for one step

    @checks_numbers(
        weight_decay=NOT_NEGATIVE,
        beta_1=RATE,
        beta_2=RATE,
        epsilon=NOT_NEGATIVE,
    )
    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        exclude: str | Sequence[str] = EXCLUDED,
        global_clipnorm: float | Literal["auto"] | None = "auto",
        **kwargs: Any,
    ):
        clipping = {name: kwargs.get(name) for name in ("clipnorm", "clipvalue")}
        if global_clipnorm == "auto":
            is_clipped = any(value is not None for value in clipping.values())
            global_clipnorm = None if is_clipped else 1.0
        for name, value in {**clipping, "global_clipnorm": global_clipnorm}.items():
            if value is not None:
                check_number(name, value, POSITIVE, Real)
        if isinstance(learning_rate, Real):
            check_number("learning_rate", learning_rate, NOT_NEGATIVE, Real)
        # Keras's own weight decay comes before the update, outside the LAMB trust ratio.
        super().__init__(learning_rate=learning_rate, global_clipnorm=global_clipnorm, **kwargs)
        self.decay = weight_decay
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction = bias_correction
        self.exclude = (exclude,) if isinstance(exclude, str) else tuple(exclude)

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self._moments = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        # One flag per variable, because Keras matches names only on TensorFlow.
        self._included = [
            not any(name in variable.path for name in self.exclude) for variable in variables
        ]

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        self._once = functools.cache(lambda compute, *arguments: compute(*arguments))
        try:
            return super().apply(grads, trainable_variables)
        finally:
            self._once = None  # `apply` runs once per replica

    def _powers(self, dtype: str) -> Sequence[Any]:
        """Returns both betas to the power of the step number, which bias correction needs."""
        step = ops.cast(self.iterations + 1, dtype)
        return [ops.power(ops.cast(beta, dtype), step) for beta in (self.beta_1, self.beta_2)]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        momentum, velocity = (moments[index] for moments in self._moments)
        dtype = keras.backend.result_type(variable.dtype, "float32")  # bfloat16 rounds beta_2 to 1
        rate, gradient = (ops.cast(each, dtype) for each in (learning_rate, gradient))
        if self.fused and self.bias_correction and variable.dtype == "float32":
            if self._included[index] and self.decay:
                self.assign_sub(variable, rate * self.decay * variable)
            self._apply_fused(gradient, variable, momentum, velocity, rate)
            return
        weight, mean, square = (ops.cast(each, dtype) for each in (variable, momentum, velocity))
        mean = self.beta_1 * mean + (1 - self.beta_1) * gradient
        square = self.beta_2 * square + (1 - self.beta_2) * ops.square(gradient)
        self.assign(momentum, mean)
        self.assign(velocity, square)
        if self.bias_correction:
            power_1, power_2 = self._once(self._powers, dtype)
            mean, square = mean / (1 - power_1), square / (1 - power_2)
        update = mean / (ops.sqrt(square) + self.epsilon)
        if self._included[index]:
            if self.decay:
                update = update + self.decay * weight
            rate = rate * self.trust_ratio(weight, update)
        self.assign_sub(variable, rate * update)

    def _apply_fused(
        self, gradient: Any, variable: Any, momentum: Any, velocity: Any, rate: Any
    ) -> None:
        """Updates the variable and its moments with a single kernel.

        The kernel computes `1 - beta_2` in float32, with a relative error of 1.3e-5.
        """
        import tensorflow as tf

        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.value.handle,
            v=velocity.value.handle,
            lr=rate,
            grad=gradient,
            **self._once(self._fused_arguments),
        )

    def _fused_arguments(self) -> dict[str, Any]:
        """Returns the arguments of the kernel that are the same for all variables."""
        power_1, power_2 = self._powers("float32")
        return {
            "beta1_power": power_1,
            "beta2_power": power_2,
            "beta1": ops.cast(self.beta_1, "float32"),
            "beta2": ops.cast(self.beta_2, "float32"),
            # The kernel adds epsilon before it corrects the bias.
            "epsilon": self.epsilon * ops.sqrt(1 - power_2),
        }

    def trust_ratio(self, variable: Any, update: Any) -> Any:
        """Returns the factor by which to scale an update: 1 without LAMB."""
        return 1.0

    def exclude_from_weight_decay(self, *args: Any, **kwargs: Any) -> None:
        """Raises UserError, because this Keras method only affects Keras's own weight decay."""
        raise UserError(
            "exclude_from_weight_decay() is not supported. Pass the exclude argument to the "
            f"optimizer instead; here it is {self.exclude!r}."
        )

    def get_config(self) -> dict[str, Any]:
        own = ("beta_1", "beta_2", "epsilon", "bias_correction", "exclude")
        return {
            **super().get_config(),
            "weight_decay": self.decay,
            **{name: getattr(self, name) for name in own},
        }


@keras.saving.register_keras_serializable("albert_tf")
class Lamb(AlbertAdamW):
    """LAMB: `AlbertAdamW` with each update scaled to the norm of its weight.

    Updates of weights that match `exclude` are not scaled. The weight decay is part of the scaled
    update, whereas `keras.optimizers.Lamb` applies it separately and corrects the bias.

    Example:
        >>> from albert_tf import Lamb, WarmupPolynomialDecay
        >>> optimizer = Lamb(WarmupPolynomialDecay(0.00176, 3125, 125_000))

    Source: arXiv 1904.00962; google-research/albert, lamb_optimizer.py.
    """

    fused = False  # the trust ratio depends on the update, so it must be computed first

    def trust_ratio(self, variable: Any, update: Any) -> Any:
        """Returns ‖weight‖ / ‖update‖, or 1 if either is 0."""
        weight_norm, update_norm = ops.norm(variable), ops.norm(update)
        known = ops.logical_and(weight_norm > 0, update_norm > 0)
        return ops.where(known, weight_norm / ops.where(known, update_norm, 1.0), 1.0)


def inner(optimizer: Any) -> Any:
    """Returns the optimizer that a `LossScaleOptimizer` wraps, or the optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


@keras.saving.register_keras_serializable("albert_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Increases the learning rate linearly over `warmup_steps`, then decays it to 0.

    The original form increases as `step / warmup_steps`. Its decay counts from step 0, so the
    learning rate drops at the end of the warm-up (in pretraining, to 0.975 of the peak). The usual
    form increases as `(step + 1) / warmup_steps`, so that the first step also trains. It decays
    from the peak over the steps after the warm-up.

    Args:
        peak: learning rate at the end of the warm-up.
        warmup_steps: number of warm-up steps, less than `total_steps`. A number below 1 is a
            fraction of all steps.
        total_steps: step at which the learning rate reaches 0. Default: for this package's
            models, the number of steps in the `fit` call. Each `fit` starts a new schedule.
        power: exponent of the decay; 1 is linear.
        form: "original" or "usual".
        start_warmup_step: step at which the warm-up begins. Before this step, the learning rate is
            0 here, but negative in the original code.
    Raises:
        ValueError: if an argument is out of range, or if a step is taken while `total_steps` isn't
            known.
    Example:
        >>> from albert_tf import WarmupPolynomialDecay
        >>> schedule = WarmupPolynomialDecay(0.1, warmup_steps=2, total_steps=10, form="usual")
        >>> [round(float(schedule(step)), 4) for step in (0, 1, 6, 10)]
        [0.05, 0.1, 0.05, 0.0]

    Source: google-research/albert, optimization.py, `create_optimizer`. The original code reads the
        step after incrementing it, so its first step is 1. Here the first step is 0, as in the
        original formula.
    """

    @checks_numbers(
        peak=NOT_NEGATIVE,
        warmup_steps=NOT_NEGATIVE,
        total_steps=COUNT,
        power=NOT_NEGATIVE,
        start_warmup_step=NOT_NEGATIVE,
    )
    def __init__(
        self,
        peak: float,
        warmup_steps: float = 0.1,
        total_steps: int | None = None,
        power: float = 1.0,
        form: DecayForm = "original",
        start_warmup_step: int = 0,
    ):
        super().__init__()
        if warmup_steps > 1:
            check_number("warmup_steps", warmup_steps, COUNT)
        if form not in get_args(DecayForm):
            raise ValueError(
                f"form must be {' or '.join(get_args(DecayForm))}. Received: {form!r}."
            )
        self.peak, self.warmup_steps, self.total_steps = peak, warmup_steps, total_steps
        self.power, self.form, self.start_warmup_step = power, form, start_warmup_step
        self.steps = total_steps

    @property
    def steps(self) -> int | None:
        """`total_steps`, or the number of steps of the last `fit`; None before the first `fit`."""
        return self._steps

    @steps.setter
    def steps(self, steps: int | None) -> None:
        if self.warmup_steps < 0 or (steps is not None and self.warmup_steps >= steps):
            raise ValueError(
                "warmup_steps must be in [0, total_steps). "
                f"Received: warmup_steps={self.warmup_steps}, total_steps={steps}."
            )
        self._steps = steps

    def __call__(self, step: Any) -> Any:
        if self.steps is None:
            raise ValueError(
                "The learning rate depends on the number of steps, which is unknown before fit. "
                f"Pass it to the schedule: WarmupPolynomialDecay({self.peak}, total_steps=…)."
            )
        share = self.warmup_steps < 1
        warmup_steps = int(self.warmup_steps * self.steps) if share else self.warmup_steps
        step = ops.cast(step, "float32")
        early = 0 if self.form == "original" else 1
        begun = step - self.start_warmup_step
        rise = (begun + early) / max(1, warmup_steps)
        before = 0 if self.form == "original" else warmup_steps
        left = ops.maximum(0.0, 1 - (step - before) / (self.steps - before))
        fall = left if self.power == 1 else ops.power(left, self.power)
        return self.peak * ops.where(begun < warmup_steps, ops.maximum(rise, 0.0), fall)

    def get_config(self) -> dict[str, Any]:
        names = ("peak", "warmup_steps", "total_steps", "power", "form", "start_warmup_step")
        return {name: getattr(self, name) for name in names}


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Uses the optimizer's averaged (EMA) weights, if any, within the block."""
    optimizer = inner(model.optimizer)
    if not optimizer.use_ema:
        yield
        return
    own = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_variables]
    optimizer.finalize_variable_values(model.trainable_variables)
    try:
        yield
    finally:
        for weight, value in zip(model.trainable_variables, own, strict=True):
            weight.assign(value)
