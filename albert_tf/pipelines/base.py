"""Base class of all pipelines. It encodes texts, runs the model, and converts its outputs."""

import dataclasses
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from albert_tf.data.tasks.outputs import model_outputs
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError, short_repr
from albert_tf.huggingface import IGNORED_BY_PIPELINES, PIPELINE, own_options
from albert_tf.options import COUNT, NOT_NEGATIVE, Range, check_number
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.sequences import special_count
from albert_tf.text.tokenizer import check_fit, longest_sequence
from albert_tf.text.transformers_api import TransformersTokenizer
from albert_tf.text.windows import Truncation, make_sequences

Outputs = Mapping[str, np.ndarray]
SORTED: Final = 16  # number of batches whose texts are sorted by length together
_ALIASES: Final = {"topk": "top_k"}
_FRAMEWORKS: Final = {"tensorflow": "tf", "torch": "pt", "jax": "flax"}


class Texts(NamedTuple):
    """A text, or a pair of texts."""

    text: str
    text_pair: str | None = None


TRUNCATIONS: Final = (None, True, False, "longest_first", "only_first", "only_second")


@dataclasses.dataclass(frozen=True)
class TruncationOptions:
    """Options for truncating texts that are longer than the model supports.

    Attributes:
        max_length: maximum number of tokens in a sequence, including special tokens. Default: the
            maximum that the model and the tokenizer support.
        truncation: True truncates the longer text of a pair first, as in training. "only_first"
            and "only_second" name the text to truncate. None truncates like True, but with a
            warning. False raises an error for long texts.
    """

    max_length: int | None = None
    truncation: bool | str | None = None
    strategy: ClassVar[str] = "longest_first"  # the meaning of None and True

    def __post_init__(self) -> None:
        check_numbers(self, max_length=COUNT)
        if self.truncation == "do_not_truncate":  # transformers' name
            object.__setattr__(self, "truncation", False)
        if self.truncation not in TRUNCATIONS:
            raise UserError(
                f"truncation must be one of {', '.join(map(str, TRUNCATIONS))}. "
                f"Received: {self.truncation!r}."
            )


@dataclasses.dataclass(frozen=True)
class LongTextOptions(TruncationOptions):
    """Options for truncating or splitting texts that are longer than the model supports.

    A long text is split into windows if `stride` is set. For a pair, the second text is split
    unless `truncation` is "only_first".

    Attributes:
        stride: number of tokens by which the windows of a long text overlap.
    """

    stride: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, stride=NOT_NEGATIVE)


def check_numbers(options: Any, **ranges: Range) -> None:
    """Checks that option fields are None or integers within their ranges."""
    for name, allowed in ranges.items():
        if getattr(options, name) is not None:
            check_number(name, getattr(options, name), allowed)


class Pipeline(ABC):
    """Base class of all pipelines.

    A call with a single example returns a single result. A call with a list, tuple, array, or
    pandas Series returns a list of results in the same order. Sequences of similar length share a
    batch to reduce padding. A call with any other iterable (a generator or a `tf.data.Dataset`)
    returns an iterator. Special tokens that occur in a text are treated as plain text, except in
    "fill-mask".

    Args:
        model: an instance of a class in `models`, or an `ExportedModel` of one.
        tokenizer: the tokenizer that the model was trained with.
        batch_size: number of sequences in a batch. A long text can be split into several sequences.
        **options: fields of the class's `Options`, which a call can override.
    Attributes:
        ahead: number of batches to read from an iterable and sort by length together. Default: 1.
    Raises:
        UserError: if the model is for a different task or doesn't match the tokenizer.
        TypeError: if the task doesn't support an option.
    """

    task: ClassVar[str]
    models: ClassVar[tuple[str, ...]]  # names of classes in `albert_tf.models`
    Options: ClassVar[Any]  # a frozen dataclass
    takes_pairs: ClassVar[bool] = False  # whether a tuple of two texts is one example
    length_option: ClassVar[str] = "max_length"  # the option that limits a sequence's length
    shortest: ClassVar[int] = special_count(True)  # the smallest value of this option
    ahead: int = 1

    def __init__(
        self, model: Any, tokenizer: TransformersTokenizer, batch_size: int = 8, **options: Any
    ):
        task = getattr(model, "task", None)
        name = type(model).__name__ if task is None else task.model
        if name not in self.models:
            raise UserError(
                f"{self.task!r} requires a model of class {' or '.join(self.models)}. "
                f"Received: {name}."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = longest_sequence(tokenizer, model.config)
        check_fit(tokenizer, model.config, self.max_length)
        check_number("batch_size", batch_size, COUNT)
        self.batch_size = batch_size
        self.options = self.Options()
        self.options = self._merge_options(options)

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        size = self.batch_size if batch_size is None else batch_size
        check_number("batch_size", size, COUNT)
        chosen = self._merge_options(options)
        is_example = is_text(inputs) or isinstance(inputs, Mapping) or self._is_pair(inputs)
        if inputs is None or is_example:
            return next(self._stream([inputs], chosen, size, size))
        if (column := as_column(inputs)) is not None:
            return list(self._stream(column, chosen, size, SORTED * size))
        if isinstance(inputs, Iterable):
            return self._stream(inputs, chosen, size, self.ahead * size)
        raise TypeError(
            f"{self.task!r} takes an example, or an iterable of examples. "
            f"Received: {short_repr(inputs)} of type {type(inputs).__name__}."
        )

    @abstractmethod
    def preprocess(self, given: Any, options: Any) -> Any:
        """Converts an input from the caller to an example, after checking it."""

    def encode(self, examples: Sequence[Any], options: Any) -> Rows:
        """Returns the windows of each example as rows. By default, examples are `Texts`."""
        return window_rows(self.tokenizer, examples, options, self.max_length)

    @abstractmethod
    def postprocess(
        self, example: Any, windows: Sequence[tuple[Any, Outputs]], options: Any
    ) -> Any:
        """Returns the result for an example, given the details and the outputs of its windows."""

    def _is_pair(self, inputs: Any) -> bool:
        is_tuple = self.takes_pairs and isinstance(inputs, tuple) and len(inputs) == 2
        return is_tuple and not any(isinstance(each, tuple | list | Mapping) for each in inputs)

    def _stream(
        self, inputs: Iterable[Any], options: Any, batch_size: int, ahead: int
    ) -> Iterator[Any]:
        """Yields results, computed for `ahead` examples at a time.

        If reading the inputs fails, the results for the earlier inputs are yielded before the error
        is raised.
        """
        stream, failure = iter(inputs), None
        while failure is None:
            given: list[Any] = []
            try:
                for each in islice(stream, ahead):
                    given.append(each)
            except Exception as error:
                failure = error
            if not given:
                break
            examples = [self.preprocess(each, options) for each in given]
            rows = self.encode(examples, options)
            rows.longest = self.model.config.max_position_embeddings
            outputs = model_outputs(rows, self.model, batch_size)
            for example, windows in zip(examples, rows.by_example(outputs), strict=True):
                yield self.postprocess(example, windows, options)
        if failure is not None:
            raise failure

    def _merge_options(self, options: Mapping[str, Any]) -> Any:
        """Returns the pipeline's options, overridden by the options of a call."""
        keras = sys.modules.get("keras")  # exported models don't import it
        framework = _FRAMEWORKS.get(keras.backend.backend()) if keras else None
        way_out = "Set KERAS_BACKEND before the first import."
        foreign = {**PIPELINE, "framework": (framework, way_out)}
        own = own_options(options, foreign, IGNORED_BY_PIPELINES)
        given = {_ALIASES.get(name, name): value for name, value in own.items()}
        known = [field.name for field in dataclasses.fields(self.options)]
        if unknown := given.keys() - set(known):
            raise TypeError(
                f"Unknown option {', '.join(sorted(unknown))}. The options of {self.task!r} are "
                f"{', '.join(known)} and batch_size."
            )
        chosen = dataclasses.replace(self.options, **given)
        length = getattr(chosen, self.length_option)
        if length is not None and not self.shortest <= length <= self.max_length:
            raise UserError(
                f"{self.length_option} must be between {self.shortest} and {self.max_length}, the "
                f"maximum that the model and the tokenizer support. Received: {length}."
            )
        return chosen


def is_text(inputs: Any) -> bool:
    """Returns whether the input of a call is a single text that `as_text` accepts."""
    return isinstance(inputs, str | bytes) or getattr(inputs, "shape", None) == ()


def as_column(values: Any) -> list[Any] | None:
    """Converts a list, tuple, array, tensor, or Series to a list. Returns None for other values."""
    if isinstance(values, set | frozenset):
        raise TypeError("Examples must have an order. Received: a set. Pass sorted(examples).")
    axes = len(getattr(values, "shape", ()))
    if axes > 1:
        raise TypeError(
            "Examples must be a single column, such as frame['text']. "
            f"Received: {type(values).__name__} of shape {tuple(values.shape)}."
        )
    is_sequence = isinstance(values, Sequence) and not isinstance(values, str | bytes)
    return list(values) if is_sequence or axes == 1 else None


def as_text(value: Any, name: str = "A text") -> str:
    """Converts a str, UTF-8 bytes, or a tensor of either to a str."""
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
    """Converts a text, a pair `(text, text_pair)`, or a dict with these keys to `Texts`."""
    if isinstance(example, Mapping):
        unknown = set(example) - {"text", "text_pair"}
        if unknown or "text" not in example:
            raise TypeError(
                "A dict must have the key 'text', and may have the key 'text_pair'. "
                f"Received: {', '.join(map(repr, example)) or 'an empty dict'}."
            )
        example = (example["text"], example.get("text_pair"))
    if isinstance(example, list) or (isinstance(example, tuple) and len(example) != 2):
        raise TypeError(
            "A text pair must be a tuple of two texts or a dict with 'text' and 'text_pair'. "
            f"Received: {short_repr(example)}."
        )
    if not isinstance(example, tuple):
        return Texts(as_text(example))
    text, pair = example
    return Texts(as_text(text), None if pair is None else as_text(pair, "A text_pair"))


def window_rows(
    tokenizer: BaseTokenizer, examples: Sequence[Texts], options: Any, longest: int
) -> Rows:
    """Returns the windows of each text or pair as rows. A short text has a single window.

    Args:
        options: `TruncationOptions` or `LongTextOptions`.
        longest: the default for `options.max_length`.
    """
    length = options.max_length or longest
    given = [[text for text in example if text is not None] for example in examples]
    encoded = iter(tokenizer.tokens_of([*chain(*given)]))
    windows = []
    for texts in given:
        tokens = [next(encoded) for _ in texts]
        lengths = [len(each.ids) for each in tokens]
        truncation = None
        if sum(lengths) + tokenizer.num_special_tokens_to_add(len(texts) == 2) > length:
            truncation = _truncation(texts, lengths, options, length, tokenizer)
        second = tokens[1:] or None
        windows.append(make_sequences(tokens[:1], second, tokenizer.special, truncation))
    return Rows.of_windows(windows, tokenizer.pad_token_id)


def _truncation(
    texts: Sequence[str],
    lengths: Sequence[int],
    options: Any,
    length: int,
    tokenizer: BaseTokenizer,
) -> Truncation:
    """Returns how to truncate or split a text or pair longer than `length`.

    Args:
        lengths: number of tokens in each text.
        tokenizer: its `truncation_side` is the side on which tokens are dropped. It has no effect
            on windows; the first one always starts at the beginning of the text.
    """
    stride, strategy = getattr(options, "stride", None), options.truncation
    if stride is None:
        or_split = ", or stride=64 to split long texts into windows" * hasattr(options, "stride")
        if strategy is False:
            raise UserError(
                f"With truncation=False, a text can have at most {length} tokens. "
                f"Received: {texts[0][:60]!r}…. Pass truncation=True to truncate it{or_split}."
            )
        if strategy is None:
            warnings.warn(
                f"Texts of more than {length} tokens are truncated. In Python, pass "
                f"truncation=True to avoid this warning{or_split}.",
                stacklevel=3,
            )
        strategy = options.strategy if strategy in (None, True) else strategy
        return Truncation(length, strategy, tokenizer.truncation_side)
    is_pair = len(texts) == 2
    if strategy is None or isinstance(strategy, bool):
        strategy = "only_second" if is_pair else "longest_first"
    # Room for the first text if the second is split.
    room = length - tokenizer.num_special_tokens_to_add(pair=True) - stride
    if is_pair and strategy == "only_second" and lengths[0] >= room:
        raise UserError(
            f"The first text of a pair has {lengths[0]} tokens, so windows of {length} tokens with "
            f"stride={stride} have no room for the second. Reduce stride, or omit it to truncate "
            "both texts."
        )
    return Truncation(length, strategy, stride=stride)
