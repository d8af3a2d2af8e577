"""The base of all pipelines: examples to windows, batches through the model, outputs to results."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, Final, Generic, TypeVar

import keras
import numpy as np

from albert_tf.errors import UserError, short_repr
from albert_tf.options import without_foreign
from albert_tf.pipelines.texts import FEATURES, Window, text_windows
from albert_tf.text.encoding import pad, padded_length
from albert_tf.text.tokenizer import check_fit

Options = TypeVar("Options")
Outputs = Mapping[str, np.ndarray]
SORTED: Final = 16  # Number of batches of a list whose rows are sorted by length together.
POSITIONS: Final = "masked_lm_positions"
_NESTED: Final = ("tokenizer_kwargs", "tokenize_kwargs")  # Hugging Face's dicts of options
_ALIASES: Final = {"topk": "top_k"}
_WITHOUT_EFFECT: Final = ("use_fast", "num_workers")  # Results are the same with any value.
_ON_DEVICE: Final = "Make and call the pipeline within keras.device('cpu:0'), or another device."
_OF_MODEL: Final = "Give a model instead of a name: {}."
# Other arguments of transformers' pipelines: the value that changes nothing, and the way out.
_FOREIGN: Final = {
    "device": (None, _ON_DEVICE),
    "device_map": (None, _ON_DEVICE),
    "framework": (
        {"tensorflow": "tf", "torch": "pt", "jax": "flax"}.get(keras.backend.backend()),
        "Set KERAS_BACKEND before the first import.",
    ),
    "dtype": (None, _OF_MODEL.format("from_pretrained(name, dtype='mixed_float16')")),
    "torch_dtype": (None, _OF_MODEL.format("from_pretrained(name, dtype='mixed_float16')")),
    "model_kwargs": (None, _OF_MODEL.format("from_pretrained(name, **options)")),
    "config": (None, _OF_MODEL.format("from_pretrained(name, config=config)")),
    "trust_remote_code": (False, "No code is loaded."),
    "binary_output": (False, "Results are lists and dicts."),
    "feature_extractor": (None, "A pipeline reads texts alone."),
    "image_processor": (None, "A pipeline reads texts alone."),
    "processor": (None, "A pipeline reads texts alone."),
}


class Pipeline(ABC, Generic[Options]):
    """A task from raw text to results.

    A list gives a list of results, in its order; rows of similar length share a batch, so that
    little is padded. A single example gives its result. Any other iterable (a generator, a
    `tf.data.Dataset`) gives an iterator, which reads `ahead` batches before their results. A
    special token that is written out in a text is plain text, except in "fill-mask".

    Args:
        model: one of `models`.
        tokenizer: the tokenizer that the model was trained with.
        batch_size: number of rows in a batch; a long text may be several rows.
        **options: options of the task; a call may override each.
    Attributes:
        ahead: 1; with more the rows of so many batches of an iterable are sorted by length, as a
            list's are.
    Raises:
        UserError: the model is another task's, or the tokenizer isn't the model's.
        TypeError: the task has no such option.
    """

    task: ClassVar[str]
    models: ClassVar[Any]
    options_type: ClassVar[type]
    ahead: int = 1

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 8, **options: Any):
        if not isinstance(model, self.models):
            names = " or ".join(each.__name__ for each in self.models)
            raise UserError(
                f"The model of {self.task!r} must be {names}. Received: {type(model).__name__}."
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
            return list(self._stream(inputs, chosen, size, SORTED * size))
        if inputs is None or isinstance(inputs, str | bytes | tuple | Mapping):
            return next(self._stream([inputs], chosen, size, size))
        if isinstance(inputs, Iterable):
            return self._stream(inputs, chosen, size, self.ahead * size)
        raise TypeError(
            f"{self.task!r} takes an example, a list of them, or an iterable. "
            f"Received: {short_repr(inputs)} of type {type(inputs).__name__}."
        )

    @abstractmethod
    def example(self, given: Any, options: Options) -> Any:
        """Returns a checked example from a caller's input."""

    def encode(self, examples: Sequence[Any], options: Any) -> Iterable[list[Window]]:
        """Returns the windows of each example; the default takes `Texts` and `TextOptions`."""
        return text_windows(self.tokenizer, examples, options, self.max_length)

    @abstractmethod
    def finish(
        self, example: Any, windows: Sequence[Window], found: Sequence[Outputs], options: Options
    ) -> Any:
        """Returns the result of an example from the model's outputs for its windows."""

    def _stream(
        self, inputs: Iterable[Any], options: Options, batch_size: int, ahead: int
    ) -> Iterator[Any]:
        """Yields results; encodes `ahead` examples, then computes their rows.

        Where the inputs end in an error, those before it are answered first.
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
            examples = [self.example(each, options) for each in given]
            encoded = list(self.encode(examples, options))
            found = iter(self._outputs([*chain.from_iterable(encoded)], batch_size))
            for example, windows in zip(examples, encoded, strict=True):
                yield self.finish(example, windows, list(islice(found, len(windows))), options)
        if failure is not None:
            raise failure

    def _outputs(self, windows: Sequence[Window], batch_size: int) -> list[Outputs]:
        """Returns the model's outputs for each window, from batches of similar lengths."""
        found: list[Outputs] = [{}] * len(windows)
        # The longest come first: what doesn't fit into memory fails at once.
        order = sorted(range(len(windows)), key=lambda each: -windows[each].length)
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            outputs = self.model.predict_on_batch(self._arrays([windows[each] for each in places]))
            for row, place in enumerate(places):
                found[place] = {name: values[row] for name, values in outputs.items()}
        return found

    def _arrays(self, windows: Sequence[Window]) -> dict[str, np.ndarray]:
        """Returns int32 `[B, T]` by name, padded on the right."""
        longest = max(each.length for each in windows)
        length = padded_length(longest, self.model.jit_compile)
        arrays = dict(
            self.tokenizer.pad(
                {name: [each.features[name] for each in windows] for name in FEATURES},
                "max_length",
                max_length=min(length, self.model.config.max_position_embeddings),
                padding_side="right",
                return_tensors="np",
            )
        )
        if POSITIONS in windows[0].features:
            positions = [list(each.features[POSITIONS]) for each in windows]
            most = max(map(len, positions))
            arrays[POSITIONS] = np.array([pad(each, most, 0) for each in positions], "int32")
        return arrays

    def _chosen(self, options: Mapping[str, Any]) -> Options:
        """Returns the pipeline's options, overridden by those of a call."""
        given = {
            _ALIASES.get(name, name): value
            for name, value in without_foreign(options, _FOREIGN).items()
            if name not in _WITHOUT_EFFECT
        }
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
