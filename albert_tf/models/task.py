"""Base class of the task models, which have an encoder, a head, and a loss."""

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers.common import Tensor
from albert_tf.layers.embedding import trusted
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.batch import Batch, batch_of, named_inputs
from albert_tf.models.compiling import arguments_of, default_optimizer
from albert_tf.models.examples import ENCODER_INPUTS, class_weights, reject_empty
from albert_tf.models.fitting import (
    checked_arrays,
    evaluation_data,
    fit_arguments,
    open_schedule,
    trace_for,
)
from albert_tf.models.outputs import ON_REQUEST, ModelOutput
from albert_tf.optimizers import inner
from albert_tf.options import COUNT, NOT_NEGATIVE, RATE, checks_numbers
from albert_tf.text.base_tokenizer import BaseTokenizer

_backend: Any = importlib.import_module(f"albert_tf.models.steps_{keras.backend.backend()}")

Inputs = dict[str, Tensor]
_CALL_OPTIONS: Final = ("output_attentions", "output_hidden_states", "unroll", "training")


class TaskModel(_backend.TrainingStep, PreTrainedModel):
    """Base class of the task models: an `AlbertModel` (`self.albert`) with a head.

    A subclass declares `targets` and `task_inputs`, adds its layers, and defines `head_outputs`.
    Its `call` takes the inputs and labels and returns `self.compute_outputs(locals())`. If the
    loss isn't the cross-entropy of each label, the subclass also defines `loss_terms`.

    Labels can be passed in the feature dict or as `y`. Losses and metrics passed to `compile`
    receive the label and the output to compare, or dicts if there are several labels. Keras losses
    passed by name take logits, and Keras's metrics receive probabilities.

    In `fit`, each replica divides its batch into `micro_batches` parts. The model's own loss is a
    mean over all labels of the batch; any other loss is averaged over the micro-batches. The
    gradients are summed, clipped once, and applied once. (Keras's own step averages the means
    of parts with unequal label counts, clips on each replica, and counts every micro-batch as a
    step in the schedule and in the moving average of the weights.)

    Attributes:
        pooled: whether the encoder has a pooler.
        pooled_only: whether the head reads only the pooler's output.
        shows_losses: whether `fit` also reports the loss of each target.
        has_joint_metrics: whether a list of metrics compares all targets together.
    """

    albert: AlbertModel
    pooled: bool = False
    pooled_only: bool = False
    shows_losses: bool = False
    has_joint_metrics: bool = False
    micro_batches: int = 1
    _measured: frozenset[str] = frozenset()  # outputs with their own metrics
    _has_only_lists: bool = False  # whether all metrics were passed as lists
    _counts: Mapping[str, Any] | None = None  # number of labels in the batch, keyed by target
    _ranks: Mapping[str, Mapping[str, int]] = {}  # of arrays, keyed by traced function and path
    _open_schedule: Any = None  # the optimizer's schedule, if `fit` sets its number of steps
    parts: Any = 1  # number of micro-batches; a float32 scalar if it is computed in a graph

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(
            self.config, add_pooling_layer=self.pooled, name="albert", dtype=self.dtype_policy
        )
        self.built = True

    def _add(
        self,
        head: Callable[..., keras.layers.Layer],
        name: str,
        input_shape: Any = None,
        **options: Any,
    ) -> Any:
        """Creates and builds a layer of the head."""
        layer = head(config=self.config, name=name, dtype=self.dtype_policy, **options)
        layer.build(input_shape)
        return layer

    def compute_outputs(self, arguments: Mapping[str, Any]) -> ModelOutput:
        """Computes the outputs, and the loss if there are labels, from the `locals()` of `call`."""
        options = {name: arguments[name] for name in _CALL_OPTIONS}
        others = {name: arguments[name] for name in arguments if name not in options}
        others.pop("self")
        inputs = named_inputs(others, self.known_inputs)
        encoder_inputs = {name: inputs[name] for name in ENCODER_INPUTS}
        if self.task.has_choices:
            encoder_inputs = {
                name: merge_choices(name, value) for name, value in encoder_inputs.items()
            }
        encoded = self.albert(**encoder_inputs, **options, pooled_only=self.pooled_only)
        outputs = self.head_outputs(encoded, inputs, options["training"])
        on_request = {name: encoded[name] for name in ON_REQUEST if name in encoded}
        labels = {name: inputs[name] for name in self.targets if inputs[name] is not None}
        loss = {"loss": losses.total(self.loss_terms(labels, outputs, inputs))} if labels else {}
        return ModelOutput(**loss, **outputs, **on_request)

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        """Returns the head's outputs keyed by name.

        `inputs` contains all inputs and labels, with None for those that weren't passed.
        """
        raise NotImplementedError

    def loss_terms(self, labels: Inputs, outputs: Inputs, inputs: Inputs) -> list[losses.Term]:
        """Returns the terms of the loss. Default: the cross-entropy of each label."""
        return [
            losses.cross_entropy(label, outputs[self.targets[name].output])
            for name, label in labels.items()
        ]

    @checks_numbers(micro_batches=COUNT)
    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        *args: Any,
        micro_batches: int = 1,
        **options: Any,
    ) -> None:
        """Configures the model for training, with defaults for fine-tuning.

        For the other arguments, see `keras.Model.compile`.

        Args:
            optimizer: an optimizer, or its name. "auto" is `AlbertAdamW` with bias correction, a
                weight decay of 0.01, and a clip norm of 1. Its learning rate warms up over the
                first tenth of the steps, then decays linearly to 0. Each `fit` restarts the
                schedule, unless it continues from an `initial_epoch`. The peak is 2e-5 for base and
                wider models, 1e-4 for narrower models such as `small`, and 5e-4 for newly
                initialized models. Therefore, load weights before you call `compile`.
            loss: a loss or its name. A Keras loss passed by name takes logits. Default: the model's
                own loss.
            loss_weights: a weight for each output.
            metrics: metrics or their names. Keras's metrics receive probabilities (hinge metrics
                and all others receive logits).
            weighted_metrics: metrics weighted by `sample_weight`.
            micro_batches: number of parts into which a replica splits its batch, to save memory.
        Raises:
            UserError: if a loss requires probabilities, a loss or metric is for another kind of
                label, or the model or optimizer doesn't support micro-batches.
        """
        self._check_parts(optimizer, micro_batches)
        given = arguments_of(self, loss, loss_weights, metrics, weighted_metrics)
        self._measured, self._has_only_lists = given.measured, given.has_only_lists
        self.micro_batches = micro_batches
        self._target_losses = {
            name: keras.metrics.Mean(f"{target.output}_loss")
            for name, target in self.targets.items()
            if loss is None and self.shows_losses
        }
        self.loss = self._compile_loss = self._compile_metrics = None  # Keras keeps the old ones
        optimizer = default_optimizer(self) if optimizer == "auto" else optimizer
        super().compile(optimizer, *given, *args, **options)
        self._open_schedule = open_schedule(self.optimizer)

    def _check_parts(self, optimizer: Any, micro_batches: int) -> None:
        accumulated = getattr(inner(optimizer), "gradient_accumulation_steps", None)
        if micro_batches > 1 and accumulated:
            raise UserError(
                "micro_batches and the optimizer's gradient_accumulation_steps can't be combined. "
                f"Received: {micro_batches} and {accumulated}. Drop one of them."
            )
        if micro_batches > 1 and type(self).compute_loss is not TaskModel.compute_loss:
            raise UserError(
                f"micro_batches doesn't support {type(self).__name__}.compute_loss. Pass the loss "
                "to compile instead, or drop micro_batches."
            )

    def get_compile_config(self) -> Any:
        config = super().get_compile_config()
        if config:
            config["micro_batches"] = self.micro_batches
        if config and "optimizer" not in config:  # Keras omits it from .h5 files
            config["optimizer"] = keras.saving.serialize_keras_object(self.optimizer)
        return config

    def compile_from_config(self, config: Any) -> None:
        if not type(self).compile.__module__.startswith("albert_tf."):
            super().compile_from_config(config)  # warns that the subclass overrides `compile`
            return
        try:
            self.compile(**keras.saving.deserialize_keras_object(config))
        except UserError as error:  # the file is from an earlier version
            raise UserError(
                f"{error} Load the file with keras.models.load_model(path, compile=False)."
            ) from error
        self.optimizer.build(self.trainable_variables)

    @checks_numbers(
        batch_size=COUNT,
        epochs=NOT_NEGATIVE,
        validation_split=RATE,
        initial_epoch=NOT_NEGATIVE,
        steps_per_epoch=COUNT,
        validation_steps=COUNT,
        validation_batch_size=COUNT,
    )
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> Any:
        """Trains the model on arrays, a dataset, or texts for a fixed number of epochs.

        For the other arguments, see `keras.Model.fit`.

        Args:
            x: a dict of arrays keyed by name, only the ids, a dataset, or texts (for the format,
                see the model class). Texts of similar length share a batch.
            y: labels or label names.
            class_weight: a dict from class ids or label names to weights.
        Returns:
            A `keras.callbacks.History`.
        """
        with fit_arguments(self, locals()) as arguments:
            return super().fit(**arguments)

    @checks_numbers(batch_size=COUNT, steps=COUNT)
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Returns the loss and metrics, like `keras.Model.evaluate`. For `x` and `y`, see `fit`."""
        if kwargs.get("_use_cached_eval_dataset"):  # `fit` has prepared the data
            trace_for(self, "test_function", (x, y, sample_weight))
        else:
            x, y, sample_weight = evaluation_data(self, (x, y, sample_weight), batch_size, steps)
        return super().evaluate(
            x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict, **kwargs
        )

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        reject_empty(x)
        x, y, sample_weight = checked_arrays(self, "train_function", x, y, sample_weight)
        if class_weight is not None:
            class_weight = class_weights(self, class_weight)
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        reject_empty(x)
        x, y, sample_weight = checked_arrays(self, "test_function", x, y, sample_weight)
        return super().test_on_batch(x, y, sample_weight, return_dict)

    def encode_examples(self, x: Any, y: Any, tokenizer: BaseTokenizer, max_length: int) -> Any:
        """Encodes texts and (unless `y` is None) labels as `Rows` in the task's format."""
        raise UserError(
            f"{type(self).__name__} can't be trained or evaluated on texts. Encode them with "
            "tokenizer(texts, padding=True, return_tensors='np')."
        )

    def activation_of(self, output: str | None) -> str | None:
        """Returns the function that maps logits to probabilities, or None for regression.

        If `output` is None or has no label, the first target's function is returned.
        """
        activations = {target.output: target.activation for target in self.targets.values()}
        return activations.get(output or "", next(iter(activations.values())))

    def probabilities(self, logits: Tensor, output: str = "logits") -> Tensor:
        """Converts an output's logits to probabilities. Returns regression outputs unchanged."""
        activation = self.activation_of(output)
        return logits if activation is None else getattr(ops, activation)(logits)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        if y_pred is None:  # compute_loss(labels, logits), as in transformers
            raise UserError(
                "compute_loss is a method that only Keras calls. To train with the model's own "
                "loss, call compile() without a loss. To compute this loss, use "
                "model(features, labels=labels).loss."
            )
        return self._batch_loss(batch_of(self, x, y, sample_weight), y_pred, training)

    def outputs_of(self, batch: Batch, training: bool) -> Any:
        """Returns the outputs of a step, without the loss that labels in the features cause."""
        with trusted():
            outputs = self(batch.features, training=training)
        if isinstance(outputs, ModelOutput):
            outputs.pop("loss", None)
        return outputs

    def loss_of(self, batch: Batch, outputs: Any, training: bool) -> Any:
        """Returns the loss of a step. A subclass's `compute_loss` is called as in Keras."""
        if type(self).compute_loss is TaskModel.compute_loss:
            return self._batch_loss(batch, outputs, training)
        x, y, sample_weight = batch.for_keras(self.targets)
        return self._compute_loss(x, y, outputs, sample_weight, training=training)

    def _batch_loss(self, batch: Batch, outputs: Inputs, training: bool) -> Any:
        if not batch.labels:
            subject = "The model's own loss" if self.loss is None else "The loss"
            raise ValueError(
                f"{subject} requires {' or '.join(self.targets)}. Pass labels: "
                "fit(features, labels)."
            )
        if self.loss is not None:
            compared = self._for_compile(batch, outputs)
            return super().compute_loss(batch.features, *compared, training) / self.parts
        counts = self._counts or {}
        loss = 0.0
        terms = self.loss_terms(batch.labels, outputs, batch.features)
        for name, term in zip(batch.labels, terms, strict=True):
            weight = batch.weights.get(name)
            loss = loss + losses.mean(term, weight, counts.get(name))
            if name in self._target_losses:
                mean = losses.mean(term, weight)
                self._target_losses[name].update_state(mean, ops.sum(term.weights))
        share = _replicas() * self.parts
        return (loss if counts else loss / share) + sum(self.losses) / share

    @contextlib.contextmanager
    def in_parts(self, parts: Any, counts: Mapping[str, Any] | None) -> Iterator[None]:
        """Within this context, scales each loss so that the losses of micro-batches can be summed.

        Args:
            parts: number of non-empty micro-batches.
            counts: number of labels in the batches of all replicas, keyed by target; None for a
                whole batch on a single replica.
        """
        self._counts = counts
        self.parts = parts if isinstance(parts, int) else ops.cast(parts, "float32")
        try:
            yield
        finally:
            self.parts, self._counts = 1, None

    def _warn_of_frozen_weights(self) -> None:
        """Warns that a step changes no weights. Like Keras, it only computes the loss."""
        warnings.warn(
            "The model has no trainable weights, so fit doesn't change it. Set trainable = True on "
            "the layers to train, and call compile again.",
            stacklevel=2,
        )

    def loss_weight(self, batch: Batch, replicas: int = 1) -> Any:
        """Returns the weight of a batch's loss in the mean that `fit` reports.

        This is the number of non-ignored labels of the first target, divided by the number of
        micro-batches and replicas. For a Keras loss, or without labels, the weight is the number of
        examples.
        """
        if self.loss is None and (counts := self._counts or self.label_counts(batch)):
            return next(iter(counts.values())) / (replicas * self.parts if self._counts else 1)
        return ops.cast(batch.size, "float32")

    def label_counts(self, batch: Batch) -> dict[str, Any]:
        """Returns, for each target, the number of labels that the loss doesn't ignore."""
        ids = batch.features.get("input_ids", batch.features.get("inputs_embeds"))
        counts = {}
        for name, label in batch.labels.items():
            target = self.targets[name]
            if target.kind in ("number", "multi_label"):
                counts[name] = ops.cast(batch.size, "float32")
            else:
                length = ops.shape(ids)[1] if target.kind == "position" else None
                are_counted = losses.counted(label, 2 if target.by_token else 1, length)
                counts[name] = ops.sum(ops.cast(are_counted, "float32"))
        return counts

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        return self._batch_metrics(batch_of(self, x, y, sample_weight), y_pred)

    def metrics_of(self, batch: Batch, outputs: Any) -> dict[str, Any]:
        """Updates the metrics. A subclass's `compute_metrics` is called as in Keras."""
        if type(self).compute_metrics is TaskModel.compute_metrics:
            return self._batch_metrics(batch, outputs)
        x, y, sample_weight = batch.for_keras(self.targets)
        return self.compute_metrics(x, y, outputs, sample_weight)

    def _batch_metrics(self, batch: Batch, outputs: Inputs) -> dict[str, Any]:
        self._require_labels_of(self._measured, batch)
        return super().compute_metrics(batch.features, *self._for_compile(batch, outputs))

    def _require_labels_of(self, outputs: Iterable[str], batch: Batch) -> None:
        """Rejects batches without labels for one or more of these outputs, which have metrics."""
        measured = {self.targets[name].output for name in batch.labels}
        if missing := [name for name in outputs if name not in measured]:
            raise UserError(
                f"To compute metrics of {', '.join(missing)}, pass labels for these outputs. "
                f"Received: {', '.join(batch.labels) or 'no labels'}."
            )

    def _for_compile(self, batch: Batch, outputs: Inputs) -> tuple[Any, Any, Any]:
        """Returns the labels, outputs, and weights for the losses and metrics of `compile`.

        Each is a dict keyed by output, or an array if there is one target and `loss` isn't a dict.
        """
        compared = {name: outputs[self.targets[name].output] for name in batch.labels}
        if isinstance(self.loss, keras.losses.SparseCategoricalCrossentropy):
            for name, label in batch.labels.items():
                losses.reject_one_hot(label, compared[name])
        # Keras would align the axis of example weights with the wrong axis.
        weights = {
            name: losses.per_label(weight, compared[name][..., 0])
            for name, weight in batch.weights.items()
        }
        forms = (batch.labels, compared, weights)
        if len(self.targets) == 1 and not isinstance(self.loss, Mapping):
            label, output, weight = (next(iter(each.values()), None) for each in forms)
        else:
            label, output, weight = (
                {self.targets[name].output: value for name, value in each.items()} or None
                for each in forms
            )
        return label, output, weight


def _replicas() -> int:
    """Returns the number of replicas, by which losses are divided because gradients are summed."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def merge_choices(name: str, values: Tensor) -> Tensor:
    """Reshapes `[B, C, …]` to `[B·C, …]`."""
    if values is None:
        return None
    if len(values.shape) < 3:
        raise ValueError(
            f"{name} must have shape [batch, choices, length]. Received shape "
            f"{tuple(values.shape)}."
        )
    batch, choices, *rest = ops.shape(values)
    return ops.reshape(values, (batch * choices, *rest))
