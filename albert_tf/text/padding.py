"""Rows of different lengths brought to one."""

from collections.abc import Mapping
from typing import Any, Literal

PaddingStrategy = Literal["longest", "max_length", "do_not_pad"]
PaddingSide = Literal["right", "left"]
LONGEST = 1_000_000  # Hugging Face writes 1e30 where a tokenizer has no limit.
# What stands at padded places, beside the padding token's id; offsets have none of the text.
PADDING: dict[str, Any] = {
    "token_type_ids": 0,
    "attention_mask": 0,
    "special_tokens_mask": 1,
    "offset_mapping": (0, 0),
}


def padding_strategy(padding: bool | str) -> PaddingStrategy:
    """Hugging Face's `padding` argument as one word.

    Raises:
        ValueError: none of its values.
    """
    names: dict[bool | str, PaddingStrategy] = {
        True: "longest",
        False: "do_not_pad",
        "longest": "longest",
        "max_length": "max_length",
        "do_not_pad": "do_not_pad",
    }
    if padding not in names:
        raise ValueError(
            "padding must be True, False, 'longest', 'max_length' or 'do_not_pad'. "
            f"Received: {padding!r}."
        )
    return names[padding]


def padding_side(side: str) -> PaddingSide:
    """The side if it is one.

    Raises:
        ValueError: neither "right" nor "left".
    """
    if side not in ("right", "left"):
        raise ValueError(f"padding_side must be 'right' or 'left'. Received: {side!r}.")
    return side  # type: ignore[return-value]


def pad_rows(
    features: Mapping[str, list],
    strategy: PaddingStrategy,
    length: int,
    multiple_of: int | None = None,
    *,
    pad_id: int,
    side: PaddingSide = "right",
) -> dict[str, list]:
    """Brings the rows of every feature to one length; features without places stay as they are.

    Args:
        features: by name, a list with one list a row, or one number a row.
        length: the length for "max_length". A longer row stays as it is.
        multiple_of: round the length up to a multiple of this.
        pad_id: the padding token.
        side: where the padding goes.
    """
    if strategy == "do_not_pad":
        return dict(features)
    if strategy == "longest":
        length = max((len(row) for row in features["input_ids"]), default=0)
    elif length > LONGEST:
        raise ValueError(
            f"padding='max_length' must be given a max_length. Received: {length}, the tokenizer's "
            "model_max_length, which stands for no limit."
        )
    if multiple_of:
        length = -(-length // multiple_of) * multiple_of
    padding = {"input_ids": pad_id, **PADDING}

    def padded(row: list, value: Any) -> list:
        rest = [value] * (length - len(row))
        return rest + row if side == "left" else row + rest

    return {
        name: [padded(row, padding[name]) for row in rows] if name in padding else rows
        for name, rows in features.items()
    }
