"""Texts and pairs for a pipeline, and their windows: the rows that go through the model."""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from albert_tf.errors import UserError, short_repr
from albert_tf.text.encoding import special_count

FEATURES: Final = ("input_ids", "token_type_ids")


class Texts(NamedTuple):
    """A text, or a pair of texts."""

    text: str
    text_pair: str | None = None


class Window(NamedTuple):
    """One row for the model: a text, a pair, or a part of a long one.

    Attributes:
        features: lists by name, of one length except `masked_lm_positions`.
        details: data that the task needs to read the model's outputs.
    """

    features: dict[str, Sequence[int]]
    details: Any = None

    @property
    def length(self) -> int:
        """Number of pieces, without padding."""
        return len(self.features["input_ids"])


@dataclasses.dataclass(frozen=True)
class WindowOptions:
    """The options of windows.

    Attributes:
        stride: number of pieces that the windows of a long text share. Default: depends on the
            task.
        max_length: maximum number of pieces in a row, special tokens included. Default: the most
            that the model and the tokenizer support.
        padding: accepted for compatibility with Hugging Face, and ignored; rows are padded as
            needed.
    """

    stride: int | None = None
    max_length: int | None = None
    padding: Any = None

    def __post_init__(self) -> None:
        if self.stride is not None and self.stride < 0:
            raise UserError(f"stride must be 0 or more. Received: {self.stride}.")


@dataclasses.dataclass(frozen=True)
class TextOptions(WindowOptions):
    """The options for texts that are longer than the model supports.

    Without `stride` a long text is truncated, with it the text is read in windows. The windows of a
    pair cut its second text, or the one that `truncation` names.

    Attributes:
        truncation: True truncates the longer text of a pair first, as in training; "only_first"
            and "only_second" name the text. None does so too, with a warning. False refuses long
            texts.
    """

    truncation: bool | str | None = None


def as_text(value: Any, name: str = "A text") -> str:
    """Returns a str from a str, bytes in UTF-8, or a tensor of either.

    Raises:
        TypeError: `value` is none of these.
    """
    given = value
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(
            f"{name} must be a str. Received: {short_repr(given)} of type {type(given).__name__}."
        )
    return value


def as_texts(example: Any) -> Texts:
    """Returns a text, a pair `(text, text_pair)`, or a dict with these keys as `Texts`.

    Raises:
        TypeError: `example` is none of these.
    """
    if isinstance(example, Mapping):
        unknown = set(example) - {"text", "text_pair"}
        if unknown or "text" not in example:
            raise TypeError(
                "A dict must have the keys text and text_pair. "
                f"Received: {', '.join(map(repr, example)) or 'an empty one'}."
            )
        example = (example["text"], example.get("text_pair"))
    if isinstance(example, list) or (isinstance(example, tuple) and len(example) != 2):
        raise TypeError(
            "A pair of texts must be a tuple of two, or a dict with text and text_pair. "
            f"Received: {short_repr(example)}."
        )
    if not isinstance(example, tuple):
        return Texts(as_text(example))
    text, pair = example
    return Texts(as_text(text), None if pair is None else as_text(pair, "A text_pair"))


def row_length(
    length: int | None, longest: int, name: str = "max_length", least: int = special_count(True)
) -> int:
    """Returns the maximum number of pieces in a row after checking it.

    Args:
        length: the requested length. Default: `longest`.
        longest: the most that the model and the tokenizer support.
        name: name of the option.
    """
    length = longest if length is None else length
    if not least <= length <= longest:
        raise UserError(
            f"{name} must be at least {least}, and at most {longest}, which the model and the "
            f"tokenizer support. Received: {length}."
        )
    return length


def text_windows(
    tokenizer: Any, examples: Sequence[Texts], options: TextOptions, longest: int
) -> Iterator[list[Window]]:
    """Yields the windows of each text or pair: one, unless the text is long."""
    length = row_length(options.max_length, longest)
    for is_pair, group in groupby(examples, lambda each: each.text_pair is not None):
        texts = list(group)
        firsts = [each.text for each in texts]
        seconds = [each.text_pair for each in texts] if is_pair else None
        whole = tokenizer(
            firsts, seconds, truncation=False, split_special_tokens=True, verbose=False
        )
        for index, each in enumerate(texts):
            if len(whole["input_ids"][index]) <= length:
                yield [window(whole, index)]
            elif options.stride is not None:
                yield _strided(tokenizer, each, options, length)
            else:
                yield [_truncated(tokenizer, each, options, length)]


def _truncated(tokenizer: Any, texts: Texts, options: TextOptions, length: int) -> Window:
    if options.truncation is False:
        raise UserError(
            f"With truncation=False a text must have at most {length} pieces. "
            f"Received: a longer one, {texts.text[:60]!r}…. Truncate it with truncation=True, or "
            "read it in windows with stride=64."
        )
    if options.truncation is None:
        warnings.warn(
            f"Texts of more than {length} pieces are truncated. truncation=True truncates without "
            "a warning; stride=64 reads the whole text in windows.",
            stacklevel=2,
        )
    strategy = True if options.truncation is None else options.truncation
    cut = tokenizer(*texts, truncation=strategy, max_length=length, split_special_tokens=True)
    return Window({name: cut[name] for name in FEATURES})


def _strided(tokenizer: Any, texts: Texts, options: TextOptions, length: int) -> list[Window]:
    is_pair = texts.text_pair is not None
    strategy = options.truncation if isinstance(options.truncation, str) else None
    if is_pair and strategy in (None, "only_second"):
        _check_first(tokenizer, texts.text, options, length)
    cut = encode_windows(
        tokenizer,
        *texts,
        truncation=strategy or ("only_second" if is_pair else True),
        max_length=length,
        stride=options.stride,
    )
    return [window(cut, index) for index in range(len(cut["input_ids"]))]


def _check_first(tokenizer: Any, text: str, options: TextOptions, length: int) -> None:
    """Checks that each window has room for new pieces of the second text."""
    ids = tokenizer(
        text,
        add_special_tokens=False,
        truncation=False,
        split_special_tokens=True,
        verbose=False,
    )
    count = len(ids["input_ids"])
    if count >= length - special_count(True) - (options.stride or 0):
        raise UserError(
            "With stride only the second text of a pair is read in windows; each window must have "
            "room for the whole first text, and more than stride pieces of the second. Received: "
            f"{count} pieces, stride={options.stride}, {length} a window. Without stride both "
            "texts are truncated."
        )


def encode_windows(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """Returns the encoding of a text or pair, in as many rows as needed, from its start to its end.

    Raises:
        UserError: the stride, or the text that isn't cut, is too long for a window.
    """
    try:
        return tokenizer(
            *texts,
            return_overflowing_tokens=True,
            truncation_side="right",
            split_special_tokens=True,
            **options,
        )
    except ValueError as error:
        raise UserError(str(error)) from error


def window(encoding: Mapping[str, Any], index: int, details: Any = None) -> Window:
    """Returns one row of a batch encoding."""
    return Window({name: encoding[name][index] for name in FEATURES}, details)
