"""Texts that are longer than the model: cut, with a warning, or read in windows."""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from albert_tf.errors import UserError
from albert_tf.pipelines.batches import Row
from albert_tf.pipelines.inputs import Texts

FEATURES: Final = ("input_ids", "token_type_ids")
PAIR_SPECIAL: Final = 3  # [CLS] and two [SEP]


@dataclasses.dataclass(frozen=True)
class LengthOptions:
    """What happens to long texts.

    Attributes:
        truncation: True cuts what is too long, as the model's own training did, the longer text of
            a pair first; "only_first" and "only_second" say which. None does so too, with a
            warning. False refuses it.
        stride: read what is too long in windows that share so many pieces, instead of cutting it;
            of a pair the second text, or the one that `truncation` names.
        max_length: pieces of a row, special tokens included. Default: the most that the model and
            the tokenizer take.
        padding: for those who come from Hugging Face. Rows are padded as needed, whatever it says.
    """

    truncation: bool | str | None = None
    stride: int | None = None
    max_length: int | None = None
    padding: Any = None

    def __post_init__(self) -> None:
        if self.stride is not None and self.stride < 0:
            raise UserError(f"stride must be 0 or more. Received: {self.stride}.")


def row_length(options: LengthOptions, longest: int) -> int:
    """The most pieces of a row.

    Raises:
        UserError: `max_length` is more than the model or the tokenizer takes.
    """
    length = longest if options.max_length is None else options.max_length
    if not 3 <= length <= longest:
        raise UserError(
            f"max_length must lie between 3 and {longest}, the most that the model and the "
            f"tokenizer take. Received: {length}."
        )
    return length


def encode(
    tokenizer: Any, examples: Sequence[Texts], options: LengthOptions, longest: int
) -> Iterator[list[Row]]:
    """The rows of each text or pair: one, or its windows."""
    length = row_length(options, longest)
    for is_pair, group in groupby(examples, lambda each: each.text_pair is not None):
        texts = list(group)
        firsts = [each.text for each in texts]
        seconds = [each.text_pair for each in texts] if is_pair else None
        whole = tokenizer(firsts, seconds, truncation=False, split_special_tokens=True)
        for place, each in enumerate(texts):
            if len(whole["input_ids"][place]) <= length:
                yield [features(whole, place)]
            else:
                yield _shortened(tokenizer, each, options, length)


def _shortened(tokenizer: Any, texts: Texts, options: LengthOptions, length: int) -> list[Row]:
    if options.stride is not None:
        return _windows(tokenizer, texts, options, length)
    if options.truncation is False:
        raise UserError(
            f"With truncation=False a text must have {length} pieces at most. "
            f"Received: a longer one, {texts.text[:60]!r}…. Cut it with truncation=True, or read "
            "it in windows: stride=64."
        )
    if options.truncation is None:
        warnings.warn(
            f"Texts of more than {length} pieces are cut. truncation=True does so without a "
            "warning; stride=64 reads all of them, in windows.",
            stacklevel=2,
        )
    strategy = True if options.truncation is None else options.truncation
    cut = tokenizer(*texts, truncation=strategy, max_length=length, split_special_tokens=True)
    return [Row({name: cut[name] for name in FEATURES})]


def _windows(tokenizer: Any, texts: Texts, options: LengthOptions, length: int) -> list[Row]:
    is_pair = texts.text_pair is not None
    strategy = options.truncation if isinstance(options.truncation, str) else None
    if is_pair and strategy in (None, "only_second"):
        _check_first(tokenizer, texts.text, options, length)
    cut = windows(
        tokenizer,
        *texts,
        truncation=strategy or ("only_second" if is_pair else True),
        max_length=length,
        stride=options.stride,
    )
    return [features(cut, place) for place in range(len(cut["input_ids"]))]


def _check_first(tokenizer: Any, text: str, options: LengthOptions, length: int) -> None:
    """Refuses a first text that leaves no window of the second one any new pieces."""
    count = len(
        tokenizer(text, add_special_tokens=False, truncation=False, split_special_tokens=True)[
            "input_ids"
        ]
    )
    room = length - PAIR_SPECIAL - (options.stride or 0)
    if count >= room:
        raise UserError(
            "With stride only the second text of a pair is read in windows; the first must fit "
            f"into each, with stride pieces of the second and more. Received: {count} pieces, "
            f"stride={options.stride}, {length} a window. Without stride both texts are cut."
        )


def windows(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """The encoding of a text or pair in as many rows as it takes.

    Raises:
        UserError: the windows don't fit: the stride, or the text that isn't cut, is too long.
    """
    try:
        return tokenizer(
            *texts, return_overflowing_tokens=True, split_special_tokens=True, **options
        )
    except ValueError as error:
        raise UserError(str(error)) from error


def features(encoding: Mapping[str, Any], place: int, details: Any = None) -> Row:
    """One row of an encoding of several."""
    return Row({name: encoding[name][place] for name in FEATURES}, details)
