"""Arguments of `compile`: the default optimizer, and losses and metrics that take logits."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.errors import UserError
from albert_tf.models.losses import agree, per_example
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.recipes import FROM_RANDOM_WEIGHTS, recipe_of_width
from albert_tf.tasks import IGNORED

# Losses and metrics, keyed by the function that converts the logits to probabilities.
_CROSS_ENTROPIES: Final[Mapping[str, tuple[type, ...]]] = {
    "softmax": (
        keras.losses.SparseCategoricalCrossentropy,
        keras.losses.CategoricalCrossentropy,
        keras.losses.CategoricalFocalCrossentropy,
        keras.metrics.SparseCategoricalCrossentropy,
        keras.metrics.CategoricalCrossentropy,
    ),
    "sigmoid": (
        keras.losses.BinaryCrossentropy,
        keras.losses.BinaryFocalCrossentropy,
        keras.metrics.BinaryCrossentropy,
    ),
}
_FROM_LOGITS: Final = (*_CROSS_ENTROPIES["softmax"], *_CROSS_ENTROPIES["sigmoid"])
_LOSSES_OF_PROBABILITIES: Final = (
    keras.losses.CategoricalGeneralizedCrossEntropy,
    keras.losses.KLDivergence,
    keras.losses.Dice,
    keras.losses.Tversky,
)
# Metrics of decision values, such as logits, and the classes that wrap a user's function.
_OF_LOGITS: Final = (
    keras.metrics.Hinge,
    keras.metrics.SquaredHinge,
    keras.metrics.CategoricalHinge,
    keras.metrics.MeanMetricWrapper,
    keras.metrics.Mean,
    keras.metrics.Sum,
)
_MEANING: Final = {
    "softmax": "one class of several",
    "sigmoid": "several labels at once",
    None: "numbers",
}
# The class name of each Keras loss function that takes logits or probabilities.
_CLASSES: Final[Mapping[Any, str]] = {
    kind().fn: kind.__name__
    for kind in (*_FROM_LOGITS, *_LOSSES_OF_PROBABILITIES)
    if issubclass(kind, keras.losses.Loss)
}


class Arguments(NamedTuple):
    """Losses and metrics that take logits, in the order of `keras.Model.compile`.

    Each applies to all outputs, or is a dict keyed by output.
    """

    loss: Any
    loss_weights: Any
    metrics: Any
    weighted_metrics: Any

    @property
    def measured(self) -> frozenset[str]:
        """Names of the outputs that have their own metrics."""
        given = (self.metrics, self.weighted_metrics)
        return frozenset().union(*(each for each in given if isinstance(each, Mapping)))

    @property
    def has_only_lists(self) -> bool:
        """Whether there are metrics, and all of them apply to all outputs."""
        given = [each for each in (self.metrics, self.weighted_metrics) if each is not None]
        return bool(given) and all(isinstance(each, list | tuple) for each in given)


def arguments_of(
    model: Any, loss: Any, loss_weights: Any, metrics: Any, weighted_metrics: Any
) -> Arguments:
    """Converts losses and metrics to ones that take logits. A list by output becomes a dict.

    Raises:
        UserError: if a loss requires probabilities, a loss or metric is for another kind of label,
            thresholds aren't probabilities, or losses or their weights don't match the outputs.
    """
    outputs = [target.output for target in model.targets.values()]
    if loss is None and loss_weights is not None:
        raise UserError(
            f"loss_weights requires loss. Pass a loss for each of {', '.join(outputs)}."
        )

    def by_output(values: Any, is_joint: bool = False) -> Any:
        if isinstance(values, Mapping):
            targets = model.targets
            return {targets[n].output if n in targets else n: each for n, each in values.items()}
        if isinstance(values, list | tuple) and len(values) == len(outputs) > 1 and not is_joint:
            return dict(zip(outputs, values, strict=True))
        return values

    def of_logits(convert: Callable[..., Any], given: Any, output: str | None = None) -> Any:
        if isinstance(given, Mapping):
            return {name: of_logits(convert, each, name) for name, each in given.items()}
        if isinstance(given, list | tuple):
            return [of_logits(convert, each, output) for each in given]
        return convert(given, model.activation_of(output))

    def metrics_of(given: Any) -> Any:
        is_flat = isinstance(given, list | tuple) and not any(
            isinstance(each, list | tuple) for each in given
        )
        given = by_output(given, is_joint=model.has_joint_metrics and is_flat)
        return of_logits(metric_of_logits, given)

    loss = by_output(loss)
    if isinstance(loss, list | tuple) and len(loss) != 1:
        raise UserError(
            f"loss must be one loss, or a loss for each of {', '.join(outputs)}. "
            f"Received: a list of length {len(loss)}."
        )
    return Arguments(
        of_logits(loss_of_logits, loss),
        by_output(loss_weights),
        metrics_of(metrics),
        metrics_of(weighted_metrics),
    )


def default_optimizer(model: Any) -> AlbertAdamW:
    """Returns AdamW with the learning rate and warm-up of the model's recipe.

    A model counts as untrained if the beta of the embedding's layer norm is all zeros.
    """
    shift = ops.convert_to_numpy(model.albert.embedding.layer_norm.beta)
    recipe = recipe_of_width(model.config.hidden_size) if shift.any() else FROM_RANDOM_WEIGHTS
    schedule = WarmupPolynomialDecay(recipe.learning_rate, recipe.warmup, form="usual")
    return AlbertAdamW(schedule, bias_correction=True)


def loss_of_logits(loss: Any, function: str | None) -> Any:
    """Converts a loss passed to `compile` to one that takes logits.

    A Keras loss passed by name or as a function becomes one with `from_logits=True`. Like the
    model's own loss, it ignores labels of -100. Rejects loss objects with `from_logits=False`,
    losses that accept only probabilities, and losses for a different kind of label. For `function`,
    see `metric_of_logits`.
    """
    if loss is None:
        return None
    if isinstance(loss, str) and loss.lower() in ("crossentropy", "ce"):
        raise UserError(
            f"loss={loss!r} is ambiguous. Pass 'sparse_categorical_crossentropy' for class ids, "
            "'categorical_crossentropy' for one-hot labels, or 'binary_crossentropy' for "
            "multi-label targets."
        )
    found = _object(loss, keras.losses)
    kind = type(found)
    if kind in _LOSSES_OF_PROBABILITIES:
        raise UserError(
            f"The model's outputs are logits, but {kind.__name__} expects probabilities. Pass a "
            "function instead: lambda labels, logits: loss(labels, keras.ops.softmax(logits))."
        )
    _check_meaning(found, function)
    if kind not in _FROM_LOGITS or found.get_config()["from_logits"]:
        return found
    if isinstance(loss, keras.losses.Loss):
        raise UserError(
            f"The model's outputs are logits, but {kind.__name__} has from_logits=False. Pass "
            f"keras.losses.{kind.__name__}(from_logits=True)."
        )
    return _from_logits(found)


def metric_of_logits(metric: Any, function: str | None) -> Any:
    """Converts a metric passed to `compile` to one that takes logits.

    Keras's metrics receive probabilities, except for hinge metrics. (Cross-entropies are computed
    from logits, which is more exact.) Other metrics and functions receive logits.

    Args:
        metric: a name, a function, a class, or an object.
        function: the function that converts logits to probabilities ("softmax" or "sigmoid");
            None if the output isn't logits.
    """
    if isinstance(metric, str) and metric.lower() in ("accuracy", "acc"):
        return metric if function is None else LogitsAccuracy(function == "sigmoid", name=metric)
    given = metric
    if inspect.isfunction(metric) and metric.__module__.startswith("keras."):
        metric = metric.__name__
    found = _object(metric, keras.metrics)
    _check_meaning(found, function)
    if function is None:
        return given
    kind = type(found)
    if isinstance(metric, str) and isinstance(found, keras.metrics.Metric):
        found.name = metric
    if not kind.__module__.startswith("keras.") or kind in _OF_LOGITS:
        return found
    config = found.get_config()
    if config.get("from_logits", False):
        return found
    if kind in _FROM_LOGITS:
        return _from_logits(found)
    threshold = config.get("thresholds", config.get("threshold"))
    if threshold is not None and not all(0 < each < 1 for each in np.ravel(threshold)):
        raise UserError(
            f"The thresholds of {found.name} must be probabilities between 0 and 1. Received: "
            f"{threshold}."
        )
    return OfProbabilities(found, function)


def _from_logits(found: Any) -> Any:
    """Returns a copy of a loss or metric that takes logits and ignores labels of -100."""
    config = {**found.get_config(), "from_logits": True}
    if config.get("ignore_class", IGNORED) is None:
        config["ignore_class"] = IGNORED
    kind = type(found)
    if kind is keras.metrics.SparseCategoricalCrossentropy:
        kind = CrossentropyOfKnown
    return kind.from_config(config)


def _object(given: Any, module: Any) -> Any:
    """Returns the loss or metric object for a name, class, or function, if Keras has one."""
    if isinstance(given, type):
        return given()
    found = module.get(given) if isinstance(given, str) else given
    name = _CLASSES.get(found, "") if callable(found) else ""
    return getattr(module, name)() if hasattr(module, name) else found


def _check_meaning(found: Any, function: str | None) -> None:
    """Rejects a loss or metric for a different kind of label."""
    for needed, kinds in _CROSS_ENTROPIES.items():
        if isinstance(found, kinds) and function != needed:
            raise UserError(
                f"The model predicts {_MEANING[function]}, but {type(found).__name__} is for "
                f"{_MEANING[needed]}. Choose a different one, or pass problem_type to "
                "from_pretrained: 'single_label_classification', 'multi_label_classification', or "
                "'regression'."
            )


@keras.saving.register_keras_serializable("albert_tf")
class LogitsAccuracy(keras.metrics.Mean):
    """Computes the accuracy of logits, ignoring labels of -100.

    Args:
        is_binary: whether each logit is a binary prediction. By default, the class with the highest
            logit is compared with the class id.
        name: as in `keras.metrics.Metric`.
        dtype: as in `keras.metrics.Metric`.
    Call arguments:
        y_true: class ids `[B, …]`; one-hot labels or probabilities `[B, …, C]`, whose argmax is
            the label; or with `is_binary`, 0 or 1 per logit.
        y_pred: logits `[B, …, C]`.
    """

    def __init__(self, is_binary: bool = False, name: str = "accuracy", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.is_binary = is_binary
        self._direction = "up"  # tells Keras callbacks that higher is better

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels = ops.convert_to_tensor(y_true)
        if self.is_binary:
            labels, found = ops.reshape(labels, ops.shape(y_pred)), y_pred > 0
        else:
            if len(labels.shape) == len(y_pred.shape):
                first = labels[..., 0]
                best = ops.cast(ops.argmax(labels, axis=-1), labels.dtype)
                ignored = ops.equal(first, IGNORED)
                labels = first if labels.shape[-1] == 1 else ops.where(ignored, first, best)
            found = ops.argmax(y_pred, axis=-1)
        labels = ops.cast(labels, "int32")
        right = ops.cast(ops.equal(labels, ops.cast(found, "int32")), self.dtype)
        weights = _label_weights(labels, IGNORED, sample_weight, self.dtype)
        super().update_state(ops.ravel(right), weights)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "is_binary": self.is_binary}


@keras.saving.register_keras_serializable("albert_tf")
class CrossentropyOfKnown(keras.metrics.SparseCategoricalCrossentropy):
    """Computes the mean cross-entropy of the labels that aren't `ignore_class`.

    Without sample weights, Keras's metric counts ignored labels as labels with a loss of 0.

    Call arguments:
        y_true: class ids `[B, …]` or `[B, …, 1]`.
        y_pred: logits `[B, …, C]`.
    """

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels = ops.convert_to_tensor(y_true)
        if len(labels.shape) == len(y_pred.shape):
            labels = labels[..., 0]
        weights = _label_weights(labels, self.ignore_class, sample_weight, self.dtype)
        logits = ops.reshape(y_pred, (-1, ops.shape(y_pred)[-1]))
        super().update_state(ops.ravel(labels), logits, sample_weight=weights)


def _label_weights(labels: Any, ignored: int, sample_weight: Any, dtype: Any) -> Any:
    """Returns the weight of each label in a metric, flattened; 0 for ignored labels.

    With the axes of the labels, Keras would average the tokens of each example first, so a token in
    a batch with more padding would count less.
    """
    weights = ops.cast(ops.not_equal(labels, ignored), dtype)
    if sample_weight is not None:
        weights = weights * per_example(sample_weight, weights)
    return ops.ravel(weights)


@keras.saving.register_keras_serializable("albert_tf")
class OfProbabilities(keras.metrics.Metric):
    """Converts logits to probabilities for a metric.

    Args:
        metric: a metric such as `keras.metrics.Precision`.
        function: "softmax" or "sigmoid".
        name: name of the result. Default: the metric's name.
        dtype: as in `keras.metrics.Metric`.
    """

    def __init__(self, metric: Any, function: str, name: str | None = None, dtype: Any = None):
        super().__init__(name=name or metric.name, dtype=dtype)
        self.metric, self.function = metric, function
        if hasattr(metric, "_direction"):
            self._direction = metric._direction

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        is_sparse = type(self.metric).__name__.startswith("Sparse")
        takes_ids = is_sparse or getattr(self.metric, "sparse_y_true", False)
        if self.function == "softmax" and not takes_ids and not agree(y_true.shape, y_pred.shape):
            raise UserError(
                f"The metric {self.name} requires one-hot labels. Received: labels of shape "
                f"{tuple(y_true.shape)} for logits of shape {tuple(y_pred.shape)}. Convert them "
                "with keras.utils.to_categorical(labels)."
            )
        probabilities = getattr(ops, self.function)(y_pred)
        self.metric.update_state(y_true, probabilities, sample_weight=sample_weight)

    def result(self) -> Any:
        return self.metric.result()

    def reset_state(self) -> None:
        self.metric.reset_state()

    def get_config(self) -> dict[str, Any]:
        metric = keras.saving.serialize_keras_object(self.metric)
        return {**super().get_config(), "metric": metric, "function": self.function}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "OfProbabilities":
        return cls(**{**config, "metric": keras.saving.deserialize_keras_object(config["metric"])})
