"""What a model is called with, by name, and what is refused at the door."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

ENCODER_INPUTS: Final = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "position_ids",
    "inputs_embeds",
)


def features(input_ids: Any, further: Sequence[str] = (), **others: Any) -> dict[str, Any]:
    """A model's inputs by name, from arguments or from a dict given in the first one's place.

    Args:
        input_ids: ids, or a dict with any of the inputs.
        further: names beside the encoder's.
        **others: arguments by name.
    Raises:
        ValueError: an unknown name, or neither or both of `input_ids` and `inputs_embeds`.
    """
    known = (*ENCODER_INPUTS, *further)
    given = dict.fromkeys(known) | others
    given |= input_ids if isinstance(input_ids, Mapping) else {"input_ids": input_ids}
    if unknown := given.keys() - set(known):
        raise ValueError(
            f"A model's inputs are {', '.join(known)}. Received also: {', '.join(sorted(unknown))}."
        )
    if (given["input_ids"] is None) == (given["inputs_embeds"] is None):
        received = "neither" if given["input_ids"] is None else "both"
        raise ValueError(f"A model needs either input_ids or inputs_embeds. Received {received}.")
    return given


def refuse_unknown(inputs: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuses names that a model doesn't know."""
    if unknown := inputs.keys() - set(known):
        raise ValueError(
            f"A model's inputs are {', '.join(known)}. Received also: {', '.join(sorted(unknown))}."
        )


def refuse_lost_weights(options: Mapping[str, Any]) -> None:
    """Refuses weights that Keras would drop without a word, as it does where `y` is None."""
    given = [name for name in ("sample_weight", "class_weight") if options.get(name) is not None]
    if given:
        raise ValueError(
            f"{' and '.join(given)} need labels as `y`: Keras drops weights without it. Received: "
            "labels among the features. Give them as `y` (too)."
        )


def named(args: tuple[Any, ...]) -> dict[str, Any]:
    """The inputs in a call's first argument."""
    if not args:
        return {}
    return args[0] if isinstance(args[0], dict) else {"input_ids": args[0]}


def refuse_lists(inputs: Mapping[str, Any]) -> None:
    """Refuses what Keras would take apart into single numbers."""
    if lists := [name for name, value in inputs.items() if isinstance(value, list | tuple)]:
        raise ValueError(
            "A model's inputs must be arrays or tensors: tokenizer(texts, padding=True, "
            f"return_tensors='np') gives them. Received: a list as {', '.join(lists)}."
        )
