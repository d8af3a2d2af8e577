"""The base of the tasks' models: an encoder, a head, and a loss computed from labels."""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers.common import Tensor
from albert_tf.layers.encoder import Unroll
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.calls import (
    ENCODER_INPUTS,
    ON_REQUEST,
    ModelOutput,
    arguments,
    as_arrays,
    class_weights,
    has_no_rows,
    named_inputs,
    refuse_strings,
    refuse_unknown,
    with_inputs,
)
from albert_tf.models.compiling import (
    default_optimizer,
    loss_of_logits,
    metric_of_logits,
    start_schedule,
)
from albert_tf.optimizers import inner

_backend: Any = importlib.import_module(f"albert_tf.models.steps_{keras.backend.backend()}")

Inputs = dict[str, Tensor]


class TaskModel(_backend.TrainingStep, PreTrainedModel):
    """An `AlbertModel` at `self.albert`, and a head.

    A subclass declares `targets` and `task_inputs`, makes its layers, and defines `head_outputs`,
    `loss_terms` and `_class_counts`. Each label may come among the features or in `y`. A loss and
    metrics given to `compile` receive the output that the label is compared with, or with several
    labels a dict. Names of Keras' losses and metrics mean those that read logits.

    A step of `fit` computes a batch in `micro_batches` parts on each replica. Each mean in the
    model's own loss is over all of them; gradients are summed over them, then clipped once and
    applied once. (Keras' step averages means over unequal counts, clips on each replica, and counts
    micro-batches as steps of the schedule and of the weights' average.) Another loss has the mean
    of the parts.

    Attributes:
        pooled: whether the encoder has a pooler.
        pooled_only: whether the head reads nothing but the pooler's output.
        shows_losses: whether `fit` shows the loss of each target, too.
    """

    albert: AlbertModel
    pooled: bool = False
    pooled_only: bool = False
    shows_losses: bool = False
    _measured: frozenset[str] = frozenset()  # outputs with metrics of their own
    _label_ranks: Mapping[str, tuple[int, ...]] = {}  # for which each function of Keras is traced
    micro_batches: int = 1
    _counts: Mapping[str, Any] | None = None  # of labels in a batch whose parts are computed

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(
            self.config,
            add_pooling_layer=self.pooled,
            name="albert",
            dtype=self.dtype_policy,
        )
        self.built = True

    def _add(
        self,
        head: Callable[..., keras.layers.Layer],
        name: str,
        input_shape: Any = None,
        **options: Any,
    ) -> Any:
        """Makes a head's layer and builds it."""
        layer = head(config=self.config, name=name, dtype=self.dtype_policy, **options)
        layer.build(input_shape)
        return layer

    def __init_subclass__(cls, **kwargs: Any):
        """Names the inputs and labels of a new head in the signature of its `call`."""
        super().__init_subclass__(**kwargs)
        if "head_outputs" in vars(cls) and "call" not in vars(cls):
            inputs = (*cls.task_inputs, *cls.targets)
            cls.call = with_inputs(TaskModel.call, inputs)  # type: ignore[method-assign]

    def call(
        self,
        input_ids: Tensor = None,
        attention_mask: Tensor = None,
        token_type_ids: Tensor = None,
        position_ids: Tensor = None,
        inputs_embeds: Tensor = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: Unroll = True,
        training: bool | None = None,
        **head_inputs: Tensor,
    ) -> ModelOutput:
        arguments = locals()
        given = {name: arguments[name] for name in ENCODER_INPUTS}
        inputs = named_inputs({**given, **head_inputs}, self._known_inputs)
        encoder_inputs = {name: inputs[name] for name in ENCODER_INPUTS}
        if self.task.has_choices:
            encoder_inputs = {name: merged(name, value) for name, value in encoder_inputs.items()}
        encoded = self.albert(
            **encoder_inputs,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            unroll=unroll,
            pooled_only=self.pooled_only,
            training=training,
        )
        outputs = self.head_outputs(encoded, inputs, training)
        on_request = {name: encoded[name] for name in ON_REQUEST if name in encoded}
        labels = {name: inputs[name] for name in self.targets if inputs[name] is not None}
        if labels:
            loss = losses.total(self.loss_terms(labels, outputs, inputs))
            return ModelOutput(loss=loss, **outputs, **on_request)
        return ModelOutput(**outputs, **on_request)

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        """Returns the head's outputs by name.

        Args:
            encoded: the encoder's outputs.
            inputs: all inputs and labels by name; None where they aren't given.
            training: as in Keras.
        """
        raise NotImplementedError

    def loss_terms(
        self,
        labels: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
    ) -> list[losses.Term]:
        """Returns the terms of the model's loss: by default the cross-entropy of each label."""
        return [
            losses.cross_entropy(label, outputs[self.targets[name]])
            for name, label in labels.items()
        ]

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
        """Configures training as `keras.Model.compile` does, with defaults that fine-tune.

        Args:
            optimizer: as in Keras. "auto" is `AlbertAdamW` with bias correction, weight decay 0.01
                and a clip norm of 1. Its learning rate rises over the first tenth of the steps of
                `fit`, then falls linearly to 0; each `fit` starts it anew, unless it continues
                from an `initial_epoch`. The peak depends on the model, as in `albert-tf finetune`:
                2e-5 from base's width on, 1e-4 for narrower ones such as `small`, 5e-4 for one
                that is newly initialized; load weights before `compile`.
            loss: as in Keras, and a name means the loss of logits. Default: the model's own.
            loss_weights: a number for each output.
            metrics: as in Keras, and a name means the metric of logits.
            weighted_metrics: those that `sample_weight` weighs.
            micro_batches: parts in which a replica computes a batch, to save memory.
        Raises:
            UserError: a loss or a metric reads probabilities, or parts can't be added up.
        """
        self._check_parts(optimizer, micro_batches)
        if loss is None and loss_weights is not None:
            raise UserError(
                "loss_weights weigh the losses that compile receives. Received: loss_weights "
                f"without loss. Give a loss for each of {', '.join(self.targets.values())}."
            )
        optimizer = default_optimizer(self) if optimizer == "auto" else optimizer
        loss = self._by_output(loss)
        metrics, weighted_metrics = map(self._metrics_by_output, (metrics, weighted_metrics))
        if isinstance(loss, list | tuple) and len(loss) != 1:
            raise UserError(
                "loss must be one loss, or one for each output: "
                f"{', '.join(self.targets.values())}. Received: a list of {len(loss)}."
            )
        self._measured = frozenset(
            name
            for metric_set in (metrics, weighted_metrics)
            if isinstance(metric_set, Mapping)
            for name in metric_set
        )
        self.micro_batches = micro_batches
        self._target_losses = {
            name: keras.metrics.Mean(f"{output}_loss")
            for name, output in self.targets.items()
            if loss is None and self.shows_losses
        }
        self.loss = self._compile_loss = self._compile_metrics = None  # Keras keeps earlier ones
        super().compile(
            optimizer,
            self._of_logits(loss_of_logits, loss),
            self._by_output(loss_weights),
            self._of_logits(metric_of_logits, metrics),
            self._of_logits(metric_of_logits, weighted_metrics),
            *args,
            **options,
        )

    def _check_parts(self, optimizer: Any, micro_batches: int) -> None:
        if not isinstance(micro_batches, int) or micro_batches < 1:
            raise UserError(f"micro_batches must be 1 or more. Received: {micro_batches!r}.")
        accumulated = getattr(inner(optimizer), "gradient_accumulation_steps", None)
        if micro_batches > 1 and accumulated:
            raise UserError(
                "micro_batches adds up gradients within a step; the optimizer would add them up "
                f"again. Received: gradient_accumulation_steps={accumulated} too. Omit one."
            )
        if micro_batches > 1 and type(self).compute_loss is not TaskModel.compute_loss:
            raise UserError(
                "micro_batches needs the loss of compile, whose parts it can add up. Received: "
                f"{type(self).__name__}.compute_loss. Give compile the loss, or omit micro_batches."
            )

    def get_compile_config(self) -> Any:
        config = super().get_compile_config()
        if config:
            config["micro_batches"] = self.micro_batches
        if config and "optimizer" not in config:  # Keras removes it when it writes an .h5 file
            config["optimizer"] = keras.saving.serialize_keras_object(self.optimizer)
        return config

    def compile_from_config(self, config: Any) -> None:
        if not type(self).compile.__module__.startswith("albert_tf."):
            super().compile_from_config(config)  # warns that a subclass has its own `compile`
            return
        try:
            self.compile(**keras.saving.deserialize_keras_object(config))
        except UserError as error:  # of a file that an earlier version wrote
            raise UserError(
                f"{error} Load the file with keras.models.load_model(path, compile=False)."
            ) from error
        self.optimizer.build(self.trainable_variables)

    def _by_output(self, values: Any) -> Any:
        """Returns a dict by output of what `compile` receives for each output, or each label."""
        if isinstance(values, Mapping):
            return {self.targets.get(name, name): value for name, value in values.items()}
        if isinstance(values, list | tuple) and len(values) == len(self.targets) > 1:
            return dict(zip(self.targets.values(), values, strict=True))
        return values

    def _metrics_by_output(self, metrics: Any) -> Any:
        return self._by_output(metrics)

    def _of_logits(self, convert: Callable[..., Any], given: Any, output: str | None = None) -> Any:
        """Returns losses or metrics as `compile` receives them, each as one that reads logits."""
        if isinstance(given, Mapping):
            return {name: self._of_logits(convert, each, name) for name, each in given.items()}
        if isinstance(given, list | tuple):
            return [self._of_logits(convert, each, output) for each in given]
        return convert(given, self._probability_function(output))

    def _probability_function(self, output: str | None) -> str | None:
        """The function that turns an output's logits into probabilities; None for numbers."""
        return "softmax"

    def probabilities(self, logits: Tensor, output: str = "logits") -> Tensor:
        """Turns the logits of an output into probabilities; returns numbers unchanged."""
        function = self._probability_function(output)
        return logits if function is None else getattr(ops, function)(logits)

    def fit(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        options = arguments(keras.Model.fit, self, x, y, *args, **kwargs)
        x, y = options.pop("x"), options.pop("y")
        arrays = Mapping | list | tuple | keras.utils.PyDataset
        if not (hasattr(x, "shape") or isinstance(x, arrays)):
            options.setdefault("shuffle", False)  # datasets and generators have their own order
        if isinstance(options.get("validation_data"), tuple | list):
            features, labels, weights = keras.utils.unpack_x_y_sample_weight(
                tuple(options["validation_data"])
            )
            weighted = {"sample_weight": weights}
            examples = self._examples(features, labels, weighted, "test_function")
            options["validation_data"] = (*examples, weighted["sample_weight"])
        start_schedule(self, options)
        return super().fit(*self._examples(x, y, options), **options)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        examples = self._examples(x, y, kwargs, "test_function")
        return super().evaluate(*examples, *args, **kwargs)

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().train_on_batch(*self._examples(x, y, kwargs), *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        examples = self._examples(x, y, kwargs, "test_function")
        return super().test_on_batch(*examples, *args, **kwargs)

    def _examples(
        self, x: Any, y: Any, options: dict[str, Any], function: str = "train_function"
    ) -> tuple[Any, ...]:
        """Returns features and labels as Keras reads them; converts `sample_weight` in `options`.

        Refuses unknown names and labels before tracing, and weights that Keras drops where `y` is
        None.

        Args:
            function: Keras' attribute with the traced step.
        """
        if has_no_rows(x):
            raise UserError("Training and evaluation need examples. Received: no rows.")
        x = as_arrays(x, "x")
        if options.get("class_weight") is not None:
            first, *others = self.targets.values()
            if (
                others
                or self.task.outputs_by_token
                or self._probability_function(first) != "softmax"
            ):
                raise UserError(
                    "class_weight needs one class for each example. Received: class_weight for "
                    f"{type(self).__name__}. Give sample_weight, with an axis for each of the "
                    "labels'."
                )
            options["class_weight"] = class_weights(
                options["class_weight"], self.config.label2id, self._class_counts({}).get("labels")
            )
        y = self._label_arrays(y, x)
        if options.get("sample_weight") is not None:
            options["sample_weight"] = as_arrays(options["sample_weight"], "sample_weight")
        labels = self._labels(x, y)
        ranks = tuple(len(label.shape) for label in labels.values())
        # TensorFlow would trace an unknown rank. An evaluation within `fit` leaves its step alone.
        if labels and ranks != self._label_ranks.get(function):
            self._label_ranks = {**self._label_ranks, function: ranks}
            setattr(self, function, None)
        if not isinstance(x, Mapping):
            return x, y
        refuse_unknown(x, self._known_inputs)
        if self._compares_classes:
            self._check_labels(labels, x)
        weights = [
            name for name in ("sample_weight", "class_weight") if options.get(name) is not None
        ]
        if weights and y is None:
            raise ValueError(
                f"{' and '.join(weights)} need labels as `y`: Keras drops weights without it. "
                "Received: labels among the features. Give them as `y`."
            )
        return x, y

    @property
    def _compares_classes(self) -> bool:
        """Whether the loss is the model's own, or one that reads numbers of classes."""
        return isinstance(self.loss, keras.losses.SparseCategoricalCrossentropy | None)

    def _label_arrays(self, y: Any, x: Any) -> Any:
        """Returns `y` as Keras reads it: as an array, or as one for each label."""
        if isinstance(y, list | tuple) and len(y) == len(self.targets) > 1 and np.ndim(y[0]):
            return tuple(map(as_arrays, y))
        y = as_arrays(y)
        if not isinstance(y, list | tuple) or not y:
            return y
        rows = next(iter(x.values()), None) if isinstance(x, Mapping) else x
        if len(self.targets) == 1 and not (len(y) == 1 and _length(y[0]) == _length(rows)):
            return np.stack([ops.convert_to_numpy(row) for row in y])
        if len(self.targets) == 1:
            return y[0]
        raise UserError(
            f"y must have an array for each of {', '.join(self.targets)}, or be a dict with their "
            f"names. Received: a list of {len(y)}."
        )

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
                "compile() without a loss trains with the model's own; "
                "model(features, labels=labels).loss computes it."
            )
        labels = self._labels(x, y)
        if not labels:
            subject = "The model's own loss" if self.loss is None else "The loss"
            raise ValueError(
                f"{subject} needs {' or '.join(self.targets)}, as `y` or among the features. "
                "Received none: fit(features, labels)."
            )
        weights = self._sample_weights(labels, sample_weight)
        if self.loss is not None:
            loss = super().compute_loss(x, *self._compared(labels, y_pred, weights), training)
            return loss / self.micro_batches if training else loss
        counts = self._counts or {}
        loss = 0.0
        inputs = x if isinstance(x, Mapping) else {"input_ids": x}
        for name, term in zip(labels, self.loss_terms(labels, y_pred, inputs), strict=True):
            weight = weights and weights[name]
            loss = loss + losses.mean(term, weight, counts.get(name))
            if name in self._target_losses:
                mean = losses.mean(term, weight)
                self._target_losses[name].update_state(mean, ops.sum(term.weights))
        share = _replicas() * (self.micro_batches if training else 1)
        return (loss if counts else loss / share) + sum(self.losses) / share

    @contextlib.contextmanager
    def _counted_by(self, counts: Mapping[str, Any] | None) -> Iterator[None]:
        """Within the block losses are shares of a batch that has `counts` of labels."""
        self._counts = counts
        try:
            yield
        finally:
            self._counts = None

    def _loss_weight(self, x: Any, y: Any, parts: int) -> Any:
        """Returns the weight of a loss in the mean that `fit` shows.

        It is the number of the first target's labels that count; of a whole batch its share, if
        this is one of its parts. For a loss of Keras, or without labels, it is the number of
        examples.
        """
        if self.loss is None and (counts := self._counts or self._label_counts(x, y)):
            return next(iter(counts.values())) / (parts if self._counts else 1)
        first = next(value for value in keras.tree.flatten(x) if value is not None)
        return ops.cast(ops.shape(first)[0], "float32")

    def _label_counts(self, x: Any, y: Any) -> Mapping[str, Any]:
        """Returns how many labels of each target count in the model's own loss."""
        by_token = self.task.outputs_by_token
        return {
            name: losses.count(label, by_token and name == "labels")
            for name, label in self._labels(x, y).items()
        }

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        labels = self._labels(x, y)
        outputs = {self.targets[name] for name in labels}
        if missing := [name for name in self._measured if name not in outputs]:
            raise UserError(
                f"The metrics of {', '.join(missing)} need its labels. Received: "
                f"{', '.join(labels) or 'no labels'}."
            )
        weights = self._sample_weights(labels, sample_weight)
        return super().compute_metrics(x, *self._compared(labels, y_pred, weights))

    def _labels(self, x: Any, y: Any) -> Inputs:
        """Returns labels by name, each from the features or from `y` in any of its forms.

        In a dict they have their own names, or, as for Keras' losses, those of the outputs. A label
        that is one of `task_inputs`, too, may be in both; then that of `y` counts.
        """
        if y is None:
            y = {}
        elif not isinstance(y, Mapping):
            y = y if isinstance(y, tuple | list) else (y,)
            y = dict(zip(self.targets, y, strict=False))
        refuse_unknown(y, (*self.targets, *self.targets.values()), "labels")
        features = x if isinstance(x, Mapping) else {}
        labels = {}
        for name, output in self.targets.items():
            given = [y.get(name), y.get(output), features.get(name)]
            given = [label for label in given if label is not None]
            if len(given) > 1 + (name in self.task_inputs):
                raise UserError(
                    "Each label must be given once: among the features or in `y`. Received: "
                    f"{name} twice. Where `y` isn't a dict, it is {', '.join(self.targets)}, in "
                    "this order."
                )
            if given:
                labels[name] = given[0]
        refuse_strings(labels)
        return labels

    def _sample_weights(self, labels: Inputs, weights: Any) -> Inputs | None:
        """Returns the weights of each label, if any; Keras passes them in the form of `y`.

        A label among the features has those of the first label in `y`.
        """
        if weights is None:
            return None
        if isinstance(weights, tuple | list):
            weights = dict(zip(self.targets, weights, strict=False))
        if not isinstance(weights, Mapping):
            return dict.fromkeys(labels, weights)
        refuse_unknown(weights, (*self.targets, *self.targets.values()), "labels")
        named = {name: weights.get(name, weights.get(self.targets[name])) for name in labels}
        first = next(iter(weights.values()), None)
        return {name: first if weight is None else weight for name, weight in named.items()}

    def _compared(
        self, labels: Inputs, outputs: Inputs, weights: Inputs | None
    ) -> tuple[Any, Any, Any]:
        """Returns labels, outputs and weights as what is given to `compile` receives them.

        By output, or the only ones alone, unless losses have names.
        """
        compared = {name: outputs[self.targets[name]] for name in labels}
        forms = [labels, compared, weights and _expanded(weights, compared)]
        if len(self.targets) == 1 and not isinstance(self.loss, Mapping):
            label, output, weight = (each and next(iter(each.values())) for each in forms)
        else:
            label, output, weight = (
                each and {self.targets[name]: value for name, value in each.items()}
                for each in forms
            )
        return label, output, weight


def _expanded(weights: Inputs, outputs: Inputs) -> Inputs:
    """Returns weights of examples `[B]` as those of every label: Keras would take another axis."""
    expanded = dict(weights)
    for name, weight in weights.items():
        missing = len(outputs[name].shape) - 1 - len(getattr(weight, "shape", ()))
        if weight is not None and missing > 0:
            ones = ops.ones_like(outputs[name][..., 0])
            expanded[name] = losses.per_example(weight, ones) * ones
    return expanded


def _length(values: Any) -> Any:
    """Number of examples, or None where it isn't known."""
    shape = getattr(values, "shape", None)
    return shape[0] if shape else None


def _replicas() -> int:
    """Number of replicas over which TensorFlow sums gradients; Keras' losses divide by it too."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def merged(name: str, values: Tensor) -> Tensor:
    """`[B, C, …]` to `[B·C, …]`."""
    if values is None:
        return None
    if len(values.shape) < 3:
        raise ValueError(
            f"{name} must have shape [batch, choices, length]. Received shape "
            f"{tuple(values.shape)}."
        )
    batch, choices, *rest = ops.shape(values)
    return ops.reshape(values, (batch * choices, *rest))
