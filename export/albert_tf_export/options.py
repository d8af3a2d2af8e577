"""What both exports ask of their arguments, and the float32 model that they store."""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import keras

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer

Layers = Literal["unrolled", "loop"]
LAYERS: Final = get_args(Layers)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuses a value that isn't among the choices."""
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}. Received: {value!r}.")


def check_fit(model: Any, tokenizer: AlbertTokenizer, max_length: int) -> None:
    """Refuses a model and a tokenizer that don't belong together, and a length neither supports.

    Raises:
        UserError: with both numbers.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Exports need Keras on TensorFlow. "
            f"Received: the backend {keras.backend.backend()!r}. Save the model with "
            "save_pretrained, and load it with KERAS_BACKEND=tensorflow."
        )
    if tokenizer.vocab_size != model.config.vocab_size:
        raise UserError(
            "The tokenizer and the model must have the same vocabulary. Received: "
            f"{tokenizer.vocab_size} pieces in the tokenizer, vocab_size="
            f"{model.config.vocab_size} in the model. Use the spiece.model that the model was "
            "trained with."
        )
    limit = model.config.max_position_embeddings
    if not 3 <= max_length <= limit:
        raise UserError(
            "max_length must lie between 3, for the special tokens of a pair, and the model's "
            f"max_position_embeddings. Received: max_length={max_length}, "
            f"max_position_embeddings={limit}."
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
