"""Serves an export with MLServer, by the KServe V2 protocol: REST, gRPC, metrics, batches.

    mlserver start FOLDER

FOLDER holds this file and those beside it. `uri` in model-settings.json is a SavedModel's folder,
which needs TensorFlow and tensorflow-text, or a .tflite file that was exported with `--batch
dynamic`, which needs ai-edge-litert; `extra.signature` names the signature.
"""

import os
from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput
from mlserver.utils import get_model_uri


class AlbertRuntime(MLModel):
    """Calls a signature with the inputs of a request, by their names."""

    async def load(self) -> bool:
        path = await get_model_uri(self._settings)
        self._may_be_empty = not path.endswith(".tflite")
        name = (self._settings.parameters.extra or {}).get("signature", "text")
        if path.endswith(".tflite"):
            from ai_edge_litert.interpreter import Interpreter

            self._signature = Interpreter(path, num_threads=os.cpu_count()).get_signature_runner(
                name
            )
            given = self._signature.get_input_details()
            self._types = {key: np.dtype(each["dtype"]) for key, each in given.items()}
            self._axes = {key: len(each["shape_signature"]) for key, each in given.items()}
        else:
            import tensorflow as tf
            import tensorflow_text  # noqa: F401 (registers the operators of the signature text)

            self._model = tf.saved_model.load(path)
            signature = self._model.signatures[name]
            given = signature.structured_input_signature[1]
            self._types = {key: np.dtype(each.dtype.as_numpy_dtype) for key, each in given.items()}
            self._axes = {key: len(each.shape) for key, each in given.items()}

            def call(**inputs: np.ndarray) -> dict[str, np.ndarray]:
                found = signature(**{key: tf.constant(each) for key, each in inputs.items()})
                return {key: value.numpy() for key, value in found.items()}

            self._signature = call
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        names = {each.name for each in payload.inputs}
        if names != self._types.keys():
            raise InferenceError(
                f"The inputs must be {', '.join(sorted(self._types))}. "
                f"Received: {', '.join(sorted(names))}."
            )
        inputs = {each.name: self._array(each) for each in payload.inputs}
        try:
            outputs = self._signature(**inputs)
        except (ValueError, RuntimeError, _tensorflow_error()) as error:
            reason = str(error).splitlines()[0][:200]
            raise InferenceError(f"The inputs must fit the export. Received: {reason}") from error
        return InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[_output(name, np.asarray(value)) for name, value in outputs.items()],
        )

    def _array(self, given: RequestInput) -> np.ndarray:
        """A request's input in the dtype and with the number of axes of the signature."""
        wanted, axes = self._types[given.name], self._axes[given.name]
        texts = wanted.kind == "O"
        if given.datatype not in (["BYTES"] if texts else ["INT32", "INT64"]):
            raise InferenceError(
                f"The datatype of {given.name} must be {'BYTES' if texts else 'INT32 or INT64'}. "
                f"Received: {given.datatype}."
            )
        shape, data = list(given.shape), getattr(given.data, "root", given.data)
        if texts and len(shape) == axes + 1 and shape[-1] == 1:  # as MLServer's clients send texts
            shape.pop()
        try:
            values = np.array([_encoded(each) for each in data] if texts else data, wanted)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            raise InferenceError(f"{given.name} must be {wanted}. Received: {error}.") from error
        # Requests of other lengths in one batch have fewer or more values than the first one's.
        if len(shape) != axes or values.size != np.prod(shape, dtype=int):
            raise InferenceError(
                f"{given.name} must have {axes} axes and as many values as its shape says, and be "
                "as long as in the other requests of its batch. "
                f"Received: the shape {shape} and {values.size} values."
            )
        # After an empty input LiteRT may refuse a right one.
        if not values.size and not self._may_be_empty:
            raise InferenceError(
                f"{given.name} must have at least one row, of one id. Received: the shape {shape}."
            )
        return values.reshape(shape)


def _encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def _tensorflow_error() -> Any:
    """TensorFlow's exception, where TensorFlow is loaded."""
    import sys

    tensorflow = sys.modules.get("tensorflow")
    return tensorflow.errors.OpError if tensorflow else ValueError


def _output(name: str, value: np.ndarray) -> ResponseOutput:
    if value.dtype.kind not in "OS":
        return NumpyCodec.encode_output(name, value)
    texts = [each.decode("utf-8", "replace") for each in value.ravel().tolist()]
    output = StringCodec.encode_output(name, texts)
    output.shape = list(value.shape)
    return output
