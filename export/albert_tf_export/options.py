"""What both exports ask of their arguments, and the float32 model that they store."""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import keras

from albert_tf.errors import UserError
from albert_tf.models import AlbertForMultipleChoice, AlbertForQuestionAnswering
from albert_tf_export.signatures import has_choices, takes_positions

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


def paired(model: Any, pairs: bool | None) -> bool:
    """Whether the model's texts come in pairs: its task says so, otherwise the caller."""
    if not isinstance(model, AlbertForQuestionAnswering | AlbertForMultipleChoice):
        return bool(pairs)
    if pairs is False:
        raise UserError(
            f"The texts of {type(model).__name__} must come in pairs. Received: pairs=False. "
            "Leave pairs out."
        )
    return True


def check_counts(model: Any, choices: int | None, predictions: int | None) -> None:
    """Refuses counts that the model's task doesn't have, or that are less than 1."""
    for name, count, fits, task in (
        ("choices", choices, has_choices(model), "AlbertForMultipleChoice"),
        ("predictions", predictions, takes_positions(model), "AlbertForMaskedLM"),
    ):
        if count is None:
            continue
        if not fits:
            raise UserError(
                f"{name} must be left out but for models such as {task}. "
                f"Received: {name}={count!r} with {type(model).__name__}."
            )
        if not isinstance(count, int) or count < 1:
            raise UserError(f"{name} must be a whole number above 0. Received: {count!r}.")


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
