"""Exports and predictions where our models differ from `keras.Model`."""

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

# Whether a call is part of Keras' `predict`, which needs no gradients. Every thread has its own.
in_predict: Final[ContextVar[bool]] = ContextVar("in predict", default=False)


class KerasHooks(keras.Model):
    """Base of `PreTrainedModel`: exports with declared inputs, predictions without gradients."""

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
        """Exports the model as `keras.Model.export` does, by default with declared inputs.

        They are the dict of `input_ids`, `attention_mask` and `token_type_ids`, int32. For exports
        that take strings and are checked against the model, use `albert_tf.export_saved_model` and
        `albert_tf.export_tflite`.

        Raises:
            UserError: Keras can't write the format on this backend.
        """
        backend = keras.backend.backend()
        if backend == "torch":  # Keras traces no dict of inputs there.
            raise UserError(
                "model.export must run on TensorFlow or JAX. Received: KERAS_BACKEND=torch. Call "
                "save_pretrained, then albert-tf export on the folder."
            )
        if input_signature is None:
            input_signature = [self._input_specs()]
            if backend == "jax":  # Keras would take each input's length for another one.
                axes = "batch, choices, length" if self.task.has_choices else "batch, length"
                shapes = dict.fromkeys(input_signature[0], f"({axes})")
                kwargs.setdefault("jax2tf_kwargs", {"polymorphic_shapes": [shapes]})
        super().export(filepath, format, verbose, input_signature, **kwargs)

    @property
    def _default_save_signature(self) -> Any:
        """The `serving_default` of `tf.saved_model.save`: the inputs of `export`, float32 out.

        Keras would trace a default signature with float32 ids.
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
        """The inputs that every export has."""
        shape = (None, None, None) if self.task.has_choices else (None, None)
        return {
            name: keras.InputSpec(dtype="int32", shape=shape, name=name)
            for name in ENCODER_INPUTS[:3]
        }

    def _checked(self, x: Any) -> Any:
        """Returns the inputs of a prediction with lists as arrays; rejects ids out of range."""
        x = input_arrays(x)
        if holds_rows(x):
            check_ids(self.config, x if isinstance(x, Mapping) else {ENCODER_INPUTS[0]: x})
        return x

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        x = self._checked(x)
        if is_empty(x):  # Keras has no outputs without a batch
            if not isinstance(x, Mapping):
                specs = self._input_specs()
                x = {
                    name: np.zeros((0, *[1] * len(spec.shape[1:])), "int32")
                    for name, spec in specs.items()
                }
            return keras.tree.map_structure(ops.convert_to_numpy, self(x, training=False))
        return super().predict(x, *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        x = self._checked(x)
        if self.predict_function is None:
            self.make_predict_function()
            if keras.backend.backend() == "tensorflow" and not self.run_eagerly:
                _trace_for_all_sizes(self.predict_function, x)
        return super().predict_on_batch(x)

    def predict_step(self, *args: Any) -> Any:
        """Calls Keras's `predict_step`; without gradients the layers may run as a graph loop."""
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
    """Traces a `predict_function` of TensorFlow for batches of every size and length.

    By itself it would trace the first batch, the first of another length, and the first of
    another size.
    """
    import tensorflow as tf

    specs = tf.nest.map_structure(
        lambda values: tf.TensorSpec([None] * len(values.shape), values.dtype), inputs
    )
    function.get_concrete_function([(specs,)])
