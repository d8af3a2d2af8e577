"""Overrides of the `keras.Model` methods for export and prediction."""

import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers.embedding import check_ids, trusted
from albert_tf.models.examples import (
    ENCODER_INPUTS,
    check_types,
    holds_rows,
    input_arrays,
    is_empty,
)
from albert_tf.tasks import TaskFacts

# Whether a call is part of `predict` and needs no gradients. Each thread has its own value.
in_predict: Final[ContextVar[bool]] = ContextVar("in predict", default=False)


class KerasHooks(keras.Model):
    """Base class of `PreTrainedModel`: declares export inputs, and predicts without gradients."""

    task: TaskFacts
    config: AlbertConfig

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model for inference, like `keras.Model.export`.

        By default, the exported model takes a dict of `input_ids`, `attention_mask`, and
        `token_type_ids`, all int32. To export a model that takes strings, call
        `albert_tf.export_saved_model` or `albert_tf.export_tflite`. They also compare the export
        with the original.

        Raises:
            UserError: if the backend is torch.
        """
        backend = keras.backend.backend()
        if backend == "torch":  # Keras can't trace dicts of inputs on torch.
            raise UserError(
                "model.export requires the TensorFlow or JAX backend. On torch, call "
                "save_pretrained, then run albert-tf export on the folder."
            )
        if input_signature is None:
            input_signature = [self._input_specs()]
            if backend == "jax":  # Otherwise each input would have its own symbolic length.
                axes = "batch, choices, length" if self.task.has_choices else "batch, length"
                shapes = dict.fromkeys(input_signature[0], f"({axes})")
                kwargs.setdefault("jax2tf_kwargs", {"polymorphic_shapes": [shapes]})
        super().export(filepath, format, verbose, input_signature, **kwargs)

    @property
    def _default_save_signature(self) -> Any:
        """The default signature of `tf.saved_model.save`: int32 inputs and float32 outputs.

        Keras's own default signature takes float32 ids.
        """
        if keras.backend.backend() != "tensorflow":
            return None
        import tensorflow as tf

        inputs = {
            name: tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in self._input_specs().items()
        }

        @tf.function(input_signature=[inputs], autograph=False)
        def serving_default(inputs: dict[str, Any]) -> Any:
            outputs = self(inputs, training=False)
            return keras.tree.map_structure(
                lambda value: tf.cast(value, tf.float32) if value.dtype.is_floating else value,
                dict(outputs) if isinstance(outputs, Mapping) else outputs,
            )

        return serving_default

    def _input_specs(self) -> dict[str, keras.InputSpec]:
        """Returns the input specs for `export`."""
        shape = (None, None, None) if self.task.has_choices else (None, None)
        return {
            name: keras.InputSpec(dtype="int32", shape=shape, name=name)
            for name in ENCODER_INPUTS[:3]
        }

    def _check_inputs(self, x: Any) -> Any:
        """Converts lists to arrays, and rejects ids that are out of range."""
        x = input_arrays(x)
        if holds_rows(x):
            inputs = x if isinstance(x, Mapping) else {ENCODER_INPUTS[0]: x}
            check_types(inputs)
            check_ids(self.config, inputs)
        return x

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        x = self._check_inputs(x)
        if is_empty(x):  # Keras returns no outputs if there is no batch
            if not isinstance(x, Mapping):
                specs = self._input_specs()
                x = {
                    name: np.zeros((0, *[1] * len(spec.shape[1:])), "int32")
                    for name, spec in specs.items()
                }
            return keras.tree.map_structure(ops.convert_to_numpy, self(x, training=False))
        return super().predict(x, *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        x = self._check_inputs(x)
        if self.predict_function is None:
            self.make_predict_function()
            if keras.backend.backend() == "tensorflow" and not self.run_eagerly:
                _trace_for_all_sizes(self.predict_function, x)
        return super().predict_on_batch(x)

    def predict_step(self, *args: Any) -> Any:
        """Runs Keras's `predict_step`, in which the layers can run in a graph loop."""
        x, *_ = keras.utils.unpack_x_y_sample_weight(args[-1])
        inputs = x if isinstance(x, Mapping) else {ENCODER_INPUTS[0]: x}
        check_types(inputs)
        token = in_predict.set(True)
        try:
            with trusted():
                return super().predict_step(*args)
        finally:
            in_predict.reset(token)


def _trace_for_all_sizes(function: Any, inputs: Any) -> None:
    """Traces a TensorFlow `predict_function` once for all batch sizes and lengths.

    Otherwise, TensorFlow would retrace it once the length changes, and again once the batch size
    changes.
    """
    import tensorflow as tf

    specs = tf.nest.map_structure(
        lambda values: tf.TensorSpec([None] * len(values.shape), values.dtype), inputs
    )
    function.get_concrete_function([(specs,)])
