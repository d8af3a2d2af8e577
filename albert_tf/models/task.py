"""The base of the task models: an encoder, a head, and a loss computed from labels."""

import contextlib
import importlib
import math
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers.common import Tensor
from albert_tf.layers.embedding import trusted
from albert_tf.models import losses
from albert_tf.models.albert import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.batch import (
    ENCODER_INPUTS,
    Batch,
    arrays_of,
    as_arrays,
    batch_of,
    class_weights,
    holds_rows,
    holds_strings,
    is_empty,
    named_inputs,
)
from albert_tf.models.callbacks import Fit, FitCallback, start_schedule
from albert_tf.models.compiling import default_optimizer, loss_of_logits, metric_of_logits
from albert_tf.models.outputs import ON_REQUEST, ModelOutput
from albert_tf.optimizers import inner
from albert_tf.options import COUNT, NOT_NEGATIVE, RATE, check_number, checks_numbers

_backend: Any = importlib.import_module(f"albert_tf.models.steps_{keras.backend.backend()}")

Inputs = dict[str, Tensor]
BATCH_SIZE: Final = 32  # Keras's default
_CALL_OPTIONS: Final = ("output_attentions", "output_hidden_states", "unroll", "training")


class TaskModel(_backend.TrainingStep, PreTrainedModel):
    """An `AlbertModel` at `self.albert`, and a head.

    A subclass declares `targets` and `task_inputs`, adds its layers, and defines `head_outputs` and
    a `call` with its inputs and labels as arguments, which returns
    `self.compute_outputs(locals())`. If its loss isn't the cross-entropy of each label, it also
    defines `loss_terms`.

    Each label may be among the features or in `y`. A loss and metrics passed to `compile` receive
    the output that the label is compared with, or dicts if there are several labels. Names of Keras
    losses and metrics mean those that read logits.

    A step of `fit` computes a batch in `micro_batches` parts on each replica. Each mean in the
    model's own loss is over all of them; gradients are summed over them, then clipped once and
    applied once. (Keras's step averages means over different counts, clips on each replica, and
    counts micro-batches as steps of the schedule and of the weights' average.) Another loss has the
    mean of the parts.

    Attributes:
        pooled: whether the encoder has a pooler.
        pooled_only: whether the head reads only the pooler's output.
        shows_losses: whether `fit` also shows the loss of each target.
    """

    albert: AlbertModel
    pooled: bool = False
    pooled_only: bool = False
    shows_losses: bool = False
    micro_batches: int = 1
    _measured: frozenset[str] = frozenset()  # outputs with metrics of their own
    _label_ranks: Mapping[str, tuple[int, ...]] = {}  # with which each Keras function is traced
    _counts: Mapping[str, Any] | None = None  # labels in the batch whose parts are computed
    parts: Any = 1  # number of these parts, a float32 scalar if a graph computes it

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

    def compute_outputs(self, arguments: Mapping[str, Any]) -> ModelOutput:
        """Computes the outputs from the `locals()` of `call`; and the loss, given labels."""
        options = {name: arguments[name] for name in _CALL_OPTIONS}
        others = {name: arguments[name] for name in arguments if name not in options}
        others.pop("self")
        inputs = named_inputs(others, self.known_inputs)
        encoder_inputs = {name: inputs[name] for name in ENCODER_INPUTS}
        if self.task.has_choices:
            encoder_inputs = {name: merged(name, value) for name, value in encoder_inputs.items()}
        encoded = self.albert(**encoder_inputs, **options, pooled_only=self.pooled_only)
        outputs = self.head_outputs(encoded, inputs, options["training"])
        on_request = {name: encoded[name] for name in ON_REQUEST if name in encoded}
        labels = {name: inputs[name] for name in self.targets if inputs[name] is not None}
        loss = {"loss": losses.total(self.loss_terms(labels, outputs, inputs))} if labels else {}
        return ModelOutput(**loss, **outputs, **on_request)

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        """Returns the head's outputs by name.

        Args:
            encoded: the encoder's outputs.
            inputs: all inputs and labels by name; None for those that aren't passed.
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
        """Configures training as `keras.Model.compile` does, with defaults that fine-tune.

        Args:
            optimizer: as in Keras. "auto" is `AlbertAdamW` with bias correction, weight decay 0.01,
                and a clip norm of 1. Its learning rate rises over the first tenth of the steps of
                `fit`, then falls linearly to 0; each `fit` starts it anew, unless it continues
                from an `initial_epoch`. The peak depends on the model, as in `albert-tf finetune`:
                2e-5 for base and wider models, 1e-4 for narrower ones such as `small`, 5e-4 for a
                newly initialized one. Load weights before `compile`.
            loss: as in Keras, except that a name means the loss on logits. Default: the model's
                own.
            loss_weights: a number for each output.
            metrics: as in Keras, except that a name means the metric on logits.
            weighted_metrics: metrics that are weighted by `sample_weight`.
            micro_batches: number of parts in which a replica computes a batch, to save memory.
        Raises:
            UserError: a loss or a metric reads probabilities, or micro-batches can't be summed.
        """
        self._check_parts(optimizer, micro_batches)
        outputs = [target.output for target in self.targets.values()]
        if loss is None and loss_weights is not None:
            raise UserError(
                "loss_weights weight the losses passed to compile. Pass a loss for each of "
                f"{', '.join(outputs)} as well."
            )
        optimizer = default_optimizer(self) if optimizer == "auto" else optimizer
        loss = self._by_output(loss)
        metrics, weighted_metrics = map(self._metrics_by_output, (metrics, weighted_metrics))
        if isinstance(loss, list | tuple) and len(loss) != 1:
            raise UserError(
                f"loss must be one loss, or one for each output: {', '.join(outputs)}. "
                f"Received: a list of {len(loss)}."
            )
        self._measured = frozenset(
            name
            for metric_set in (metrics, weighted_metrics)
            if isinstance(metric_set, Mapping)
            for name in metric_set
        )
        self.micro_batches = micro_batches
        self._target_losses = {
            name: keras.metrics.Mean(f"{target.output}_loss")
            for name, target in self.targets.items()
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
        accumulated = getattr(inner(optimizer), "gradient_accumulation_steps", None)
        if micro_batches > 1 and accumulated:
            raise UserError(
                "micro_batches sums gradients within a step, and the optimizer would accumulate "
                f"them again. Received: gradient_accumulation_steps={accumulated} as well. "
                "Omit one of them."
            )
        if micro_batches > 1 and type(self).compute_loss is not TaskModel.compute_loss:
            raise UserError(
                f"micro_batches can't sum the parts of {type(self).__name__}.compute_loss. Pass "
                "the loss to compile instead, or omit micro_batches."
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
        """Returns by output what `compile` receives for each output, or for each label."""
        if isinstance(values, Mapping):
            return {
                self.targets[name].output if name in self.targets else name: value
                for name, value in values.items()
            }
        if isinstance(values, list | tuple) and len(values) == len(self.targets) > 1:
            outputs = (target.output for target in self.targets.values())
            return dict(zip(outputs, values, strict=True))
        return values

    def _metrics_by_output(self, metrics: Any) -> Any:
        return self._by_output(metrics)

    def _of_logits(self, convert: Callable[..., Any], given: Any, output: str | None = None) -> Any:
        """Returns losses or metrics as `compile` receives them, each as one that reads logits."""
        if isinstance(given, Mapping):
            return {name: self._of_logits(convert, each, name) for name, each in given.items()}
        if isinstance(given, list | tuple):
            return [self._of_logits(convert, each, output) for each in given]
        return convert(given, self._activation(output))

    def _activation(self, output: str | None) -> str | None:
        """Returns the function that turns an output's logits into probabilities; None for numbers.

        An output without a label, and None, have that of the first target.
        """
        activations = {target.output: target.activation for target in self.targets.values()}
        return activations.get(output or "", next(iter(activations.values())))

    def probabilities(self, logits: Tensor, output: str = "logits") -> Tensor:
        """Turns the logits of an output into probabilities; returns numbers unchanged."""
        activation = self._activation(output)
        return logits if activation is None else getattr(ops, activation)(logits)

    @property
    def reads_own_labels(self) -> bool:
        """Whether the loss reads the labels of the model's own loss, or class ids."""
        loss = getattr(self, "loss", None)
        return isinstance(loss, keras.losses.SparseCategoricalCrossentropy | None)

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
        """Trains as `keras.Model.fit` does, also on texts. Other arguments are those of Keras.

        Args:
            x: ids, arrays by name, a dataset, or texts in the form of the task; see the class.
                Texts of similar length share a batch.
            y: labels; label names as well.
            class_weight: keys may also be label names.
        Returns:
            The `keras.callbacks.History`.
        """
        if isinstance(validation_freq, str) or not isinstance(validation_freq, Container):
            check_number("validation_freq", validation_freq, COUNT)
        class_weight, callbacks = class_weights(self, class_weight), callbacks_in(callbacks)
        informed = [each for each in callbacks if isinstance(each, FitCallback)]
        held_out_size = validation_batch_size or batch_size
        if isinstance(validation_data, tuple | list):
            held_out = keras.utils.unpack_x_y_sample_weight(tuple(validation_data))
            validation_data = self._scored(held_out, held_out_size, validation_steps)
        rows = self._rows(x, y, sample_weight, arrays=bool(informed))
        if rows is not None and validation_split and validation_data is None:
            rows, last = rows.split(validation_split)
            validation_data = self._in_order(last, held_out_size, validation_steps)[0]
        batches = getattr(x, "batches", None)
        if rows is not None:
            batches = self._batches(rows, batch_size, steps_per_epoch, shuffle=bool(shuffle))
            x, y, sample_weight = batches.epochs(), None, None
            batch_size, validation_split = None, 0.0
        elif holds_rows(x):
            x, y, sample_weight = self._arrays(x, y, sample_weight, "train_function")
        self._trace_for("train_function", labels_in(x))
        callbacks += start_schedule(self, initial_epoch)
        fit = Fit(batches, x, epochs, steps_per_epoch, class_weight, callbacks)
        try:
            for each in informed:
                each.begin_fit(fit)
                x = each.data(fit)
            return super().fit(
                x,
                y,
                batch_size,
                epochs,
                verbose,
                callbacks=[*(each for each in callbacks if each not in informed), *informed],
                validation_split=validation_split,
                validation_data=validation_data,
                # Keras warns that a dataset can't be shuffled.
                shuffle=shuffle if holds_rows(x) or isinstance(x, keras.utils.PyDataset) else False,
                class_weight=class_weight,
                sample_weight=sample_weight,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                validation_batch_size=held_out_size,
                validation_freq=validation_freq,
            )
        finally:
            for each in informed:
                each.end_fit()

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
        """Evaluates as `keras.Model.evaluate` does; `x` and `y` as in `fit`."""
        if not kwargs.get("_use_cached_eval_dataset"):  # `fit` has read its validation data
            x, y, sample_weight = self._scored((x, y, sample_weight), batch_size, steps)
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
        x, y, sample_weight = self._arrays(x, y, sample_weight, "train_function")
        class_weight = class_weights(self, class_weight)
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        x, y, sample_weight = self._arrays(x, y, sample_weight, "test_function")
        return super().test_on_batch(x, y, sample_weight, return_dict)

    def encode_examples(self, x: Any, y: Any, max_length: int) -> Any:
        """Returns the `Rows` of examples that are texts, in the form of the task.

        Args:
            x: texts.
            y: labels, or None.
            max_length: maximum number of tokens in a row.
        """
        raise UserError(
            f"{type(self).__name__} can't encode texts in fit and evaluate. Pass ids, as "
            "tokenizer(texts, padding=True, return_tensors='np') returns them."
        )

    def _rows(self, x: Any, y: Any, sample_weight: Any, arrays: bool = False) -> Any:
        """Returns the `Rows` of examples in memory; None for data that Keras reads.

        Args:
            arrays: whether examples that are arrays become rows as well.
        """
        if is_empty(x):
            raise UserError("Training and evaluation require at least one example.")
        if not holds_strings(x):
            if not arrays or not holds_rows(x):
                return None
            from albert_tf.data.tasks.rows import ArrayRows

            return ArrayRows(*arrays_of(self, x, y, sample_weight).for_keras(self.targets))
        from albert_tf.data.datasets import weights_of
        from albert_tf.text.tokenizer import check_fit

        if self.tokenizer is None:
            raise UserError(
                "Texts require a tokenizer, and there is none in the folder of the model's "
                "weights. Set model.tokenizer = AlbertTokenizer.from_pretrained(directory)."
            )
        length = min(self.tokenizer.model_max_length, self.config.max_position_embeddings)
        check_fit(self.tokenizer, self.config, length)
        rows = self.encode_examples(x, y, length)
        if sample_weight is not None:
            weights = np.asarray(as_arrays(sample_weight, "sample_weight"))
            rows.weights = weights_of(weights[rows.examples])
        return rows

    def _batches(self, rows: Any, batch_size: int | None, steps: int | None, shuffle: bool) -> Any:
        from albert_tf.data.pipeline import Batches

        return Batches(
            rows,
            _size(len(rows), batch_size, steps),
            np.random.randint(2**31),  # follows keras.utils.set_random_seed
            shuffle=shuffle,
            jit_compile=self.jit_compile,
        )

    def _in_order(
        self, rows: Any, batch_size: int | None, steps: int | None
    ) -> tuple[Any, np.ndarray]:
        """Returns a dataset for evaluation, and the order of its rows.

        It contains the first `steps` batches of rows, sorted by length.
        """
        size = _size(len(rows), batch_size, steps)
        last = len(rows) if steps is None else steps * size
        order = np.argsort(rows.lengths[:last], kind="stable")
        return self._batches(rows.select(order), size, None, shuffle=False).epochs(), order

    def _scored(
        self, data: tuple[Any, Any, Any], batch_size: int | None, steps: int | None
    ) -> tuple[Any, Any, Any]:
        """Returns the `x`, `y`, and `sample_weight` of an evaluation as Keras reads them."""
        x, y, sample_weight = data
        if (rows := self._rows(x, y, sample_weight)) is not None:
            return self._in_order(rows, batch_size, steps)[0], None, None
        if not holds_rows(x):
            self._trace_for("test_function", labels_in(x))
            return x, y, sample_weight
        return self._arrays(x, y, sample_weight, "test_function")

    def _arrays(self, x: Any, y: Any, sample_weight: Any, function: str) -> tuple[Any, Any, Any]:
        """Returns examples that are arrays as Keras reads them, named and checked."""
        if is_empty(x):
            raise UserError("Training and evaluation require at least one example.")
        batch = arrays_of(self, x, y, sample_weight)
        self._trace_for(function, batch.labels)
        return batch.for_keras(self.targets)

    def _trace_for(self, function: str, labels: Any) -> None:
        """Lets Keras trace a step anew if labels have other ranks than before.

        TensorFlow would trace an unknown rank. An evaluation within `fit` doesn't affect the
        training step.

        Args:
            function: Keras's attribute with the traced step.
            labels: arrays, or specs of a dataset.
        """
        ranks = tuple(len(label.shape) for label in keras.tree.flatten(labels))
        if ranks and ranks != self._label_ranks.get(function):
            self._label_ranks = {**self._label_ranks, function: ranks}
            setattr(self, function, None)

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
                "compute_loss is called by Keras, with the features. To train with the model's own "
                "loss, call compile() without a loss. To compute it, call "
                "model(features, labels=labels).loss."
            )
        return self._batch_loss(batch_of(self, x, y, sample_weight), y_pred, training)

    def outputs_of(self, batch: Batch, training: bool) -> Any:
        """Returns the outputs of a step, without the loss of a label that the head reads."""
        with trusted():
            outputs = self(batch.features, training=training)
        if isinstance(outputs, ModelOutput):
            outputs.pop("loss", None)
        return outputs

    def loss_of(self, batch: Batch, outputs: Any, training: bool) -> Any:
        """Returns the loss of a step; a subclass's `compute_loss` receives Keras's arguments."""
        if type(self).compute_loss is TaskModel.compute_loss:
            return self._batch_loss(batch, outputs, training)
        x, y, sample_weight = batch.for_keras(self.targets)
        return self._compute_loss(x, y, outputs, sample_weight, training=training)

    def _batch_loss(self, batch: Batch, outputs: Inputs, training: bool) -> Any:
        if not batch.labels:
            subject = "The model's own loss" if self.loss is None else "The loss"
            raise ValueError(
                f"{subject} requires {' or '.join(self.targets)}, as `y` or among the features: "
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
        """Within this context each loss is a share of the loss of a batch.

        Args:
            parts: number of micro-batches, none of which is empty.
            counts: number of labels by target, in the batches of all replicas; None for a whole
                batch on one replica.
        """
        self._counts = counts
        self.parts = parts if isinstance(parts, int) else ops.cast(parts, "float32")
        try:
            yield
        finally:
            self.parts, self._counts = 1, None

    def loss_weight(self, batch: Batch, replicas: int = 1) -> Any:
        """Returns the weight of a loss in the mean that `fit` shows.

        It is the number of the first target's labels that count; for one of the parts of a batch,
        its share of the batch's labels. For a Keras loss, or without labels, it is the number of
        examples.
        """
        if self.loss is None and (counts := self._counts or self.label_counts(batch)):
            return next(iter(counts.values())) / (replicas * self.parts if self._counts else 1)
        return ops.cast(batch.size, "float32")

    def label_counts(self, batch: Batch) -> dict[str, Any]:
        """Returns how many labels of each target count in the model's own loss."""
        ids = batch.features.get("input_ids", batch.features.get("inputs_embeds"))
        return {
            name: losses.count_positions(label, ops.shape(ids)[1])
            if self.targets[name].kind == "position"
            else losses.count(label, self.targets[name].by_token)
            for name, label in batch.labels.items()
        }

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        return self._batch_metrics(batch_of(self, x, y, sample_weight), y_pred)

    def metrics_of(self, batch: Batch, outputs: Any) -> dict[str, Any]:
        """Updates the metrics of a step; a subclass's `compute_metrics` gets Keras's arguments."""
        if type(self).compute_metrics is TaskModel.compute_metrics:
            return self._batch_metrics(batch, outputs)
        x, y, sample_weight = batch.for_keras(self.targets)
        return self.compute_metrics(x, y, outputs, sample_weight)

    def _batch_metrics(self, batch: Batch, outputs: Inputs) -> dict[str, Any]:
        measured = {self.targets[name].output for name in batch.labels}
        if missing := [name for name in self._measured if name not in measured]:
            raise UserError(
                f"The metrics of {', '.join(missing)} require its labels. Received: "
                f"{', '.join(batch.labels) or 'no labels'}."
            )
        return super().compute_metrics(batch.features, *self._for_compile(batch, outputs))

    def _for_compile(self, batch: Batch, outputs: Inputs) -> tuple[Any, Any, Any]:
        """Returns labels, outputs, and weights as the losses and metrics of `compile` receive them.

        They are dicts by output, or for a single target, unless losses have names, bare.
        """
        compared = {name: outputs[self.targets[name].output] for name in batch.labels}
        if isinstance(self.loss, keras.losses.SparseCategoricalCrossentropy):
            for name, label in batch.labels.items():
                losses.refuse_one_hot(label, compared[name])
        # Keras would take an axis of weights for examples for another one.
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


def _size(examples: int, batch_size: int | None, steps: int | None) -> int:
    """Returns the batch size; without one Keras divides the examples into the steps, if given."""
    return batch_size or (math.ceil(examples / steps) if steps else BATCH_SIZE)


def labels_in(dataset: Any) -> Any:
    """Returns the specs of a dataset's labels; () if their ranks aren't known."""
    spec = getattr(dataset, "element_spec", None)
    labels = spec[1] if isinstance(spec, tuple) and len(spec) > 1 else ()
    # The specs of a distributed dataset have no shape.
    shapes = [getattr(each, "shape", None) for each in keras.tree.flatten(labels)]
    return labels if all(getattr(shape, "rank", None) is not None for shape in shapes) else ()


def callbacks_in(callbacks: Any) -> list[keras.callbacks.Callback]:
    """Returns the callbacks that `fit` receives: one, or those in a list or a `CallbackList`."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return list(callbacks.callbacks)
    return keras.tree.flatten(callbacks) if callbacks else []


def _replicas() -> int:
    """Number of replicas over which TensorFlow sums gradients; Keras's losses divide by it too."""
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
