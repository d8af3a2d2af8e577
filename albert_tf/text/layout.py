"""The options of a tokenizer call: how to truncate and pad sequences, and what to return."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Literal

from albert_tf.errors import short_repr
from albert_tf.options import COUNT, NOT_NEGATIVE, check_number
from albert_tf.text.sequences import Side, checked_side
from albert_tf.text.windows import Truncation

Tensors = Literal["np", "tf", "pt"]
# The Hugging Face values of `padding` and `truncation`, and their strategies.
PADDING_STRATEGIES: Final[Mapping[Any, str]] = {True: "longest", False: "do_not_pad"} | {
    name: name for name in ("longest", "max_length", "do_not_pad")
}
TRUNCATION_STRATEGIES: Final[Mapping[Any, str]] = {
    True: "longest_first",
    False: "do_not_truncate",
} | {name: name for name in ("longest_first", "only_first", "only_second", "do_not_truncate")}
FRAMEWORKS: Final[Mapping[Any, Any]] = {name: name for name in (None, "np", "tf", "pt")}
NO_LIMIT: Final = 1_000_000  # tokens; transformers writes 1e30 for a tokenizer without a limit


@dataclasses.dataclass(frozen=True)
class Layout:
    """The options of a call, as documented in `TransformersTokenizer.__call__`.

    `padding` and `truncation` are converted to the names of strategies.

    Attributes:
        model_max_length: the default for `max_length`.
    """

    add_special_tokens: bool = True
    padding: bool | str = False
    truncation: bool | str | None = None
    max_length: int | None = None
    stride: int = 0
    is_split_into_words: bool = False
    pad_to_multiple_of: int | None = None
    padding_side: str = "right"
    truncation_side: Side = "right"
    split_special_tokens: bool = False
    return_tensors: str | None = None
    return_token_type_ids: bool | None = None
    return_attention_mask: bool | None = None
    return_offsets_mapping: bool = False
    return_overflowing_tokens: bool = False
    return_special_tokens_mask: bool = False
    return_length: bool = False
    verbose: bool = True
    model_max_length: int = NO_LIMIT

    def __post_init__(self) -> None:
        check_number("stride", self.stride, NOT_NEGATIVE)
        for name in ("max_length", "pad_to_multiple_of"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), COUNT)
        checked_side(self.padding_side)
        checked_side(self.truncation_side, "truncation_side")
        truncation = self.truncation
        if truncation is None:
            truncation = self.max_length is not None and self.padding is False
        for name, value, known in (
            ("padding", self.padding, PADDING_STRATEGIES),
            ("truncation", truncation, TRUNCATION_STRATEGIES),
            ("return_tensors", self.return_tensors, FRAMEWORKS),
        ):
            if value not in known:
                allowed = ", ".join(map(repr, known))
                raise ValueError(f"{name} must be one of {allowed}. Received: {short_repr(value)}.")
            object.__setattr__(self, name, known[value])

    @property
    def as_truncation(self) -> Truncation | None:
        """How to shorten texts, or None to keep all tokens."""
        if self.truncation == "do_not_truncate":
            return None
        stride = self.stride if self.return_overflowing_tokens else None
        strategy: Any = self.truncation
        return Truncation(self.length, strategy, self.truncation_side, stride)

    @property
    def length(self) -> int:
        """The number of tokens to truncate or pad to."""
        return self.model_max_length if self.max_length is None else self.max_length

    @property
    def features(self) -> list[str]:
        """The names of the requested features, except `length`."""
        requested = {
            "input_ids": True,
            "token_type_ids": self.return_token_type_ids is not False,
            "attention_mask": self.return_attention_mask is not False,
            "special_tokens_mask": self.return_special_tokens_mask,
            "offset_mapping": self.return_offsets_mapping,
            "overflow_to_sample_mapping": self.return_overflowing_tokens,
        }
        return [name for name, is_requested in requested.items() if is_requested]


OPTIONS: Final = frozenset(field.name for field in dataclasses.fields(Layout))
