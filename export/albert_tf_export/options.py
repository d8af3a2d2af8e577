"""What both exports ask of their arguments, and the float32 model that they store."""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import keras

from albert_tf.errors import UserError

Layers = Literal["unrolled", "loop"]
LAYERS: Final = get_args(Layers)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuses a value that isn't among the choices."""
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}. Received: {value!r}.")


def check_backend() -> None:
    """Refuses Keras on anything but TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Exports need Keras on TensorFlow. "
            f"Received: the backend {keras.backend.backend()!r}. Save the model with "
            "save_pretrained, and load it with KERAS_BACKEND=tensorflow."
        )


def in_float32(model: Any) -> Any:
    """The model itself, or its copy that computes and stores in float32."""
    policy = model.dtype_policy
    if (policy.compute_dtype, policy.variable_dtype) == ("float32", "float32"):
        return model
    config = {
        **model.get_config(),
        "dtype": keras.dtype_policies.serialize(keras.DTypePolicy("float32")),
    }
    copy = type(model).from_config(config)
    copy.set_weights([weight.astype("float32") for weight in model.get_weights()])
    return copy
