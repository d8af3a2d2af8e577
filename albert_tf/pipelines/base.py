"""What all pipelines share: examples in, batches through the model, results out, in a stream."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from albert_tf.errors import UserError
from albert_tf.pipelines.batches import Row, outputs
from albert_tf.text.tokenizer import check_fit

Options = TypeVar("Options")
Outputs = Mapping[str, np.ndarray]
_NESTED = ("tokenizer_kwargs", "tokenize_kwargs")  # Hugging Face's names for options in a dict


class Pipeline(ABC, Generic[Options]):
    """A task from raw text to results.

    A list gives a list of results; a single example, its result; anything else that can be
    iterated over (a generator, a `tf.data.Dataset`) an iterator, which reads `batch_size` examples
    ahead at most. Texts are plain text: a special token that is written out in one is no special
    token, except in "fill-mask".

    Args:
        model: one of `models`.
        tokenizer: the one that the model was trained with.
        batch_size: rows that go through the model at once; a long text may be several rows.
        **options: of the task; each can be given in a call instead.
    Raises:
        UserError: the model is another task's, or the tokenizer isn't the model's.
        TypeError: an option that the task doesn't have.
    """

    task: ClassVar[str]
    models: ClassVar[Any]
    options_type: ClassVar[type]

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 8, **options: Any):
        if not isinstance(model, self.models):
            raise UserError(
                f"The model of {self.task!r} must be {_alternatives(self.models)}. "
                f"Received: {type(model).__name__}."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = min(tokenizer.model_max_length, model.config.max_position_embeddings)
        check_fit(tokenizer, model.config, self.max_length)
        self.batch_size = _checked_size(batch_size)
        self.options: Options = self.options_type()
        self.options = self._chosen(options)

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        size = self.batch_size if batch_size is None else _checked_size(batch_size)
        chosen = self._chosen(options)
        if isinstance(inputs, list):
            return list(self._stream(inputs, chosen, size))
        if inputs is None or self.is_example(inputs):
            return next(self._stream([inputs], chosen, size))
        if isinstance(inputs, Iterable):
            return self._stream(inputs, chosen, size)
        raise TypeError(
            f"{self.task!r} takes an example, a list of them, or an iterable. "
            f"Received: {inputs!r} of type {type(inputs).__name__}."
        )

    def is_example(self, inputs: Any) -> bool:
        """Whether it is one example, and not several."""
        return isinstance(inputs, str | bytes | tuple | Mapping)

    @abstractmethod
    def example(self, given: Any, options: Options) -> Any:
        """A checked example from what a caller gave."""

    @abstractmethod
    def encode(self, examples: Sequence[Any], options: Options) -> Iterable[list[Row]]:
        """The rows of each example."""

    @abstractmethod
    def finish(
        self, example: Any, rows: Sequence[Row], found: Sequence[Outputs], options: Options
    ) -> Any:
        """The result of an example from what the model says of its rows."""

    def _stream(self, inputs: Iterable[Any], options: Options, batch_size: int) -> Iterator[Any]:
        stream = iter(inputs)
        while given := list(islice(stream, batch_size)):
            examples = [self.example(each, options) for each in given]
            encoded = list(self.encode(examples, options))
            flat = (row for rows in encoded for row in rows)
            found = outputs(self.model, flat, batch_size, self.tokenizer.pad_token_id)
            for example, rows in zip(examples, encoded, strict=True):
                yield self.finish(example, rows, list(islice(found, len(rows))), options)

    def _chosen(self, options: Mapping[str, Any]) -> Options:
        """The pipeline's options with those of a call."""
        given = dict(options)
        for name in _NESTED:
            given |= given.pop(name, None) or {}
        known = [field.name for field in dataclasses.fields(self.options)]  # type: ignore[arg-type]
        if unknown := given.keys() - set(known):
            raise TypeError(
                f"The options of {self.task!r} are {', '.join(known)} and batch_size. "
                f"Received: {', '.join(sorted(unknown))}."
            )
        return dataclasses.replace(self.options, **given)  # type: ignore[type-var]


def _checked_size(batch_size: int) -> int:
    if batch_size < 1:
        raise UserError(f"batch_size must be 1 or more. Received: {batch_size}.")
    return batch_size


def _alternatives(models: Sequence[type]) -> str:
    return " or ".join(model.__name__ for model in models)
