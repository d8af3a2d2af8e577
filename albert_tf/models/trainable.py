"""Training by `compile` and `fit`: labels by name, the model's own loss, or those of `compile`."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from albert_tf.models.inputs import ENCODER_INPUTS, refuse_lost_weights, refuse_unknown
from albert_tf.models.losses import Term, total


class TrainableModel(keras.Model):
    """A Keras model whose labels come as `y` or among the features, with losses for them.

    Attributes:
        targets: the output that each label is compared with. A loss and metrics given to `compile`
            receive that output, or for several labels a dict of them.
        task_inputs: inputs beside the encoder's.
    """

    targets: Mapping[str, str] = {}
    task_inputs: Sequence[str] = ()

    def loss_terms(self, labels: Mapping[str, Any], outputs: Mapping[str, Any]) -> Sequence[Term]:
        """The loss that `fit` minimises when `compile` got none: a term for each label."""
        raise NotImplementedError

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        self._check_examples(x, y, kwargs)
        return super().fit(x, y, *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        self._check_examples(x, y, kwargs)
        return super().evaluate(x, y, *args, **kwargs)

    def make_train_function(self, force: bool = False) -> Any:
        # The first step would make the moments, and TensorFlow trace a step that does so twice.
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def _check_examples(self, x: Any, y: Any, options: Mapping[str, Any]) -> None:
        """Refuses unknown names before anything is traced, and weights that would be lost."""
        if isinstance(x, Mapping):
            refuse_unknown(x, (*ENCODER_INPUTS, *self.task_inputs, *self.targets))
            if y is None:
                refuse_lost_weights(options)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        labels = self._labels(x, y)
        if self.loss is not None:
            return super().compute_loss(x, *self._compared(labels, y_pred), sample_weight, training)
        if not self.targets:
            raise ValueError(
                f"{type(self).__name__} has no loss of its own: compile it with one, or choose a "
                "task's model."
            )
        if not labels:
            raise ValueError(
                f"The model's own loss needs {' or '.join(self.targets)}, as `y` or among the "
                "features. Received none: fit(features, labels)."
            )
        weights = self._sample_weights(labels, sample_weight)
        loss = total(self.loss_terms(labels, y_pred), weights) + sum(self.losses)
        return loss / _replicas()

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        compared = self._compared(self._labels(x, y), y_pred)
        return super().compute_metrics(x, *compared, sample_weight)

    def _labels(self, x: Any, y: Any) -> Any:
        """Labels by name, from `y` in any of its forms or from the features.

        A model without targets of its own hands on `y`.
        """
        if not self.targets:
            return y
        if y is None:
            y = x if isinstance(x, Mapping) else {}
        elif not isinstance(y, Mapping):
            y = dict(zip(self.targets, y if isinstance(y, tuple | list) else (y,), strict=False))
        return {name: y[name] for name in self.targets if y.get(name) is not None}

    def _sample_weights(self, labels: Mapping[str, Any], weights: Any) -> list[Any] | None:
        """Weights for each label: Keras hands them out in the form that `y` has."""
        if weights is None:
            return None
        if isinstance(weights, tuple | list):
            weights = dict(zip(self.targets, weights, strict=False))
        if isinstance(weights, Mapping):
            return [weights.get(name) for name in labels]
        return [weights] * len(labels)

    def _compared(self, labels: Any, outputs: Any) -> tuple[Any, Any]:
        """Labels and outputs as a loss or metric given to `compile` receives them."""
        if not self.targets:
            return labels, outputs
        named = {self.targets[name]: label for name, label in labels.items()}
        if len(self.targets) == 1 and not isinstance(self.loss, Mapping):
            (output,) = self.targets.values()
            return named.get(output), outputs[output]
        return named, {name: outputs[name] for name in named}


def _replicas() -> int:
    """Over how many replicas TensorFlow sums the gradients of losses, as Keras' own know."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync
