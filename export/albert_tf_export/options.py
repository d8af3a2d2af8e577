"""Checks the arguments of both exports, and converts models to another precision."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

import keras

from albert_tf.errors import UserError
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import check_fit

Layers = Literal["unrolled", "loop"]
LAYERS: Final = get_args(Layers)
Precision = Literal["float32", "bfloat16"]
PRECISIONS: Final = get_args(Precision)
# As Linux names them: two of x86-64, one of ARM.
BFLOAT16_FEATURES: Final = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
CPU_INFO: Final = Path("/proc/cpuinfo")
logger = logging.getLogger(__name__)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuses a value that isn't among the choices."""
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}. Received: {value!r}.")


def refuse_left(tokenizer: BaseTokenizer, what: str) -> None:
    """Refuses a tokenizer that drops the beginnings of texts, where a reader cuts their ends."""
    if tokenizer.truncation_side == "left":
        raise UserError(
            f"{what} must have texts that are truncated on the right. Received: a tokenizer with "
            "truncation_side='left'. Set tokenizer.truncation_side = 'right' (also in "
            "tokenizer_config.json), or export with ids_only=True (--ids-only)."
        )


def check_options(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    max_length: int,
    layers: str,
    pairs: bool | None,
) -> bool:
    """Refuses options that don't fit together, and every backend of Keras but TensorFlow.

    Returns:
        Whether the model's texts come in pairs: by its task, otherwise by the caller's choice.
    """
    check_choice("layers", layers, LAYERS)
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Exports need Keras on TensorFlow. "
            f"Received: the backend {keras.backend.backend()!r}. Save the model with "
            "save_pretrained, and load it with KERAS_BACKEND=tensorflow."
        )
    check_fit(tokenizer, model.config, max_length)
    if not model.task.needs_pairs:
        return bool(pairs)
    if pairs is False:
        raise UserError(
            f"The texts of {type(model).__name__} must come in pairs. Received: pairs=False. "
            "Leave pairs out."
        )
    return True


def check_max_bytes(max_bytes: int | None, max_length: int) -> None:
    """Refuses a limit that would truncate ordinary texts before `max_length` does."""
    least = max(1024, 16 * max_length)
    if max_bytes is not None and (not isinstance(max_bytes, int) or max_bytes < least):
        raise UserError(
            f"max_bytes must be a whole number, at least {least} for max_length={max_length}. "
            f"Received: {max_bytes!r}."
        )


def check_shapes(
    max_length: int | None, fixed: bool, lengths: Sequence[int], batch: int | None
) -> None:
    """Refuses lengths and batches that aren't counts, and two choices of length at once."""
    given = [f"max_length={max_length!r}"] if max_length else []
    given += ["fixed=True"] * fixed
    if lengths and given:
        raise UserError(
            f"lengths must be the only choice of length. Received: lengths={tuple(lengths)} and "
            f"{', '.join(given)}. Texts are truncated to the largest of lengths."
        )
    for name, values in (("lengths", lengths), ("batch", () if batch is None else (batch,))):
        wrong = [each for each in values if not isinstance(each, int) or each < 1]
        if wrong or len(set(values)) < len(values):
            raise UserError(
                f"{name} must be different whole numbers above 0. Received: {list(values)}."
            )


def check_counts(model: PreTrainedModel, choices: int | None, predictions: int | None) -> None:
    """Refuses counts below 1, and counts that don't apply to the model's task."""
    for name, count, fits, task in (
        ("choices", choices, model.task.has_choices, "AlbertForMultipleChoice"),
        ("predictions", predictions, model.task.takes_positions, "AlbertForMaskedLM"),
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


def in_precision(model: PreTrainedModel, precision: Precision) -> PreTrainedModel:
    """Returns the model, or a copy of it that stores and computes in the precision."""
    policy = model.dtype_policy
    if (policy.compute_dtype, policy.variable_dtype) == (precision, precision):
        return model
    policy = keras.dtype_policies.serialize(keras.DTypePolicy(precision))
    copy = type(model).from_config({**model.get_config(), "dtype": policy})
    copy.set_weights([weight.astype(precision) for weight in model.get_weights()])
    return copy


def warn_without_bfloat16() -> None:
    """Warns if this computer's processor has no instruction for products of bfloat16 (Linux)."""
    try:
        features = set(CPU_INFO.read_text(encoding="utf-8").split())
    except OSError:
        return
    if not features & BFLOAT16_FEATURES:
        logger.warning(
            "This processor has none of %s: it computes in bfloat16 more slowly than in float32.",
            ", ".join(sorted(BFLOAT16_FEATURES)),
        )
