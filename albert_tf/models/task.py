"""The base of the tasks' models: an encoder, a head, and a loss computed from labels."""

from collections.abc import Mapping
from typing import Any, Final

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers.common import Tensor
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.inputs import ENCODER_INPUTS, as_arrays, named_inputs, refuse_unknown
from albert_tf.models.outputs import ModelOutput

Inputs = dict[str, Tensor]
# The last arguments of every model's call.
OPTIONS: Final = ("output_attentions", "output_hidden_states", "unroll", "training")


class TaskModel(PreTrainedModel):
    """An `AlbertModel` at `self.albert`, and a head.

    A subclass declares `targets` and `task_inputs`, makes its head, and defines `call` and
    `loss_terms`. Labels may come among the features or as `y`. A loss and metrics given to
    `compile` receive the output that the label is compared with, or with several labels a dict.

    Attributes:
        pooled: whether the encoder has a pooler.
        pooled_only: whether the head reads nothing but its output.
    """

    pooled: bool = False
    pooled_only: bool = False

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(
            self.config, add_pooling_layer=self.pooled, name="albert", dtype=self.dtype_policy
        )
        self.built = True

    @property
    def _known_inputs(self) -> tuple[str, ...]:
        return (*ENCODER_INPUTS, *self.task_inputs, *self.targets)

    def _add(self, head: type[keras.layers.Layer], name: str, **options: Any) -> Any:
        """Makes a head's layer and builds it."""
        layer = head(config=self.config, name=name, dtype=self.dtype_policy, **options)
        layer.build(None)
        return layer

    def _encode(self, arguments: Mapping[str, Any]) -> tuple[Inputs, ModelOutput]:
        """Returns the inputs by name and the encoder's outputs.

        Args:
            arguments: all arguments of `call` by name: `locals()` at its start.
        """
        given = {name: value for name, value in arguments.items() if name != "self"}
        options = {name: given.pop(name) for name in OPTIONS}
        inputs = named_inputs(given, self._known_inputs)
        encoder_inputs = self._encoder_inputs({name: inputs[name] for name in ENCODER_INPUTS})
        return inputs, self.albert(**encoder_inputs, **options, pooled_only=self.pooled_only)

    def _encoder_inputs(self, inputs: Inputs) -> Inputs:
        """The encoder's inputs, from the task's inputs of the same names."""
        return inputs

    def _output(self, outputs: Inputs, inputs: Inputs, encoded: ModelOutput) -> ModelOutput:
        """Adds the loss, given labels, and the encoder's layers, where requested."""
        output = ModelOutput(outputs)
        labels = {name: inputs[name] for name in self.targets if inputs[name] is not None}
        if labels:
            output = ModelOutput(loss=losses.total(self.loss_terms(labels, outputs)), **outputs)
        for name in ("hidden_states", "attentions"):
            if name in encoded:
                output[name] = encoded[name]
        return output

    def loss_terms(
        self, labels: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
    ) -> list[losses.Term]:
        """Returns the terms of the model's loss: by default the cross-entropy of each label."""
        return [
            losses.cross_entropy(label, outputs[self.targets[name]])
            for name, label in labels.items()
        ]

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("validation_data"), tuple | list):
            features, labels, *weights = kwargs["validation_data"]
            kwargs["validation_data"] = (*self._examples(features, labels), *weights)
        return super().fit(*self._examples(x, y, kwargs), *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().evaluate(*self._examples(x, y, kwargs), *args, **kwargs)

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().train_on_batch(*self._examples(x, y), *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().test_on_batch(*self._examples(x, y), *args, **kwargs)

    def _examples(
        self, x: Any, y: Any, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, ...]:
        """Returns features and labels as Keras reads them.

        Refuses unknown names and labels before tracing, and weights that Keras drops where `y` is
        None.
        """
        x, y, options = as_arrays(x), as_arrays(y), options or {}
        if not isinstance(x, Mapping):
            return x, y
        refuse_unknown(x, self._known_inputs)
        if self.loss is None:
            self._check_labels(self._labels(x, y), x)
        weights = [
            name for name in ("sample_weight", "class_weight") if options.get(name) is not None
        ]
        if weights and y is None:
            raise ValueError(
                f"{' and '.join(weights)} need labels as `y`: Keras drops weights without it. "
                "Received: labels among the features. Give them as `y` (too)."
            )
        return x, y

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        if y_pred is None:  # compute_loss(labels, logits), as transformers has it
            raise UserError(
                "compute_loss is called by Keras, with the features. Received: no predictions. "
                "compile(optimizer) without a loss trains with the model's own; "
                "model(features, labels=labels).loss computes it."
            )
        labels = self._labels(x, y)
        if self.loss is not None:
            return super().compute_loss(x, *self._compared(labels, y_pred), sample_weight, training)
        if not labels:
            raise ValueError(
                f"The model's own loss needs {' or '.join(self.targets)}, as `y` or among the "
                "features. Received none: fit(features, labels)."
            )
        weights = self._sample_weights(labels, sample_weight)
        loss = losses.total(self.loss_terms(labels, y_pred), weights) + sum(self.losses)
        return loss / _replicas()

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        compared = self._compared(self._labels(x, y), y_pred)
        return super().compute_metrics(x, *compared, sample_weight)

    def _labels(self, x: Any, y: Any) -> Inputs:
        """Returns labels by name, from `y` in any of its forms or from the features.

        In a dict they have their own names, or, as for Keras' losses, those of the outputs.
        """
        if y is None:
            y = x if isinstance(x, Mapping) else {}
        elif not isinstance(y, Mapping):
            y = dict(zip(self.targets, y if isinstance(y, tuple | list) else (y,), strict=False))
        given = {name: y.get(name, y.get(output)) for name, output in self.targets.items()}
        return {name: label for name, label in given.items() if label is not None}

    def _sample_weights(self, labels: Mapping[str, Any], weights: Any) -> list[Any] | None:
        """Returns weights for each label; Keras passes them in the form of `y`."""
        if weights is None:
            return None
        if isinstance(weights, tuple | list):
            weights = dict(zip(self.targets, weights, strict=False))
        if isinstance(weights, Mapping):
            return [weights.get(name, weights.get(self.targets[name])) for name in labels]
        return [weights] * len(labels)

    def _compared(self, labels: Inputs, outputs: Inputs) -> tuple[Any, Any]:
        """Returns labels and outputs as a loss or metric given to `compile` receives them."""
        named = {self.targets[name]: label for name, label in labels.items()}
        if len(self.targets) == 1 and not isinstance(self.loss, Mapping):
            (output,) = self.targets.values()
            return named.get(output), outputs[output]
        return named, {name: outputs[name] for name in named}


def _replicas() -> int:
    """Number of replicas over which TensorFlow sums gradients; Keras' losses divide by it too."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync
