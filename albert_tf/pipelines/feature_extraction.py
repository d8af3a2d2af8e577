"""The encoder's states of texts, piece by piece or as one vector."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from albert_tf.errors import UserError
from albert_tf.models import AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.pipelines.base import Outputs, Pipeline
from albert_tf.pipelines.batches import Row
from albert_tf.pipelines.inputs import Texts, as_text
from albert_tf.pipelines.long_texts import LengthOptions, encode

POOLINGS: Final = (None, "mean", "cls", "pooler")
EDGE: Final = 1  # special tokens at each end of a row


@dataclasses.dataclass(frozen=True)
class FeatureExtractionOptions(LengthOptions):
    """What is given of a text.

    Attributes:
        return_tensors: NumPy arrays instead of lists.
        pooling: None for the states of all places; "mean" for their mean, special tokens included,
            "cls" for the state of `[CLS]`, "pooler" for the pooler's output.
    """

    return_tensors: bool | str = False
    pooling: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in POOLINGS:
            raise UserError(
                f"pooling must be one of {', '.join(map(str, POOLINGS))}. "
                f"Received: {self.pooling!r}."
            )


class FeatureExtractionPipeline(Pipeline[FeatureExtractionOptions]):
    """Nested lists `[1, T, H]` for a text, T places with `[CLS]` and `[SEP]`; `[H]` with `pooling`.

    Of a text read in windows (`stride`) each piece's state is taken from the window that shows more
    of what stands around it, so that T is the whole text's; "cls" and "pooler" are then the means
    of the windows'.

    Args: see `Pipeline`, and `FeatureExtractionOptions` for the options. The model may be any: its
        encoder is used.
    """

    task = "feature-extraction"
    models = (PreTrainedModel,)
    options_type = FeatureExtractionOptions

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 8, **options: Any):
        super().__init__(getattr(model, "albert", model), tokenizer, batch_size, **options)

    def example(self, given: Any, options: FeatureExtractionOptions) -> Texts:
        if options.pooling == "pooler" and not _has_pooler(self.model):
            raise UserError(
                "pooling='pooler' needs a checkpoint with a pooler. Received: one without. "
                "Take pooling='mean' or 'cls'."
            )
        return Texts(as_text(given))

    def encode(
        self, examples: Sequence[Texts], options: FeatureExtractionOptions
    ) -> Iterable[list[Row]]:
        return encode(self.tokenizer, examples, options, self.max_length)

    def finish(
        self,
        example: Texts,
        rows: Sequence[Row],
        found: Sequence[Outputs],
        options: FeatureExtractionOptions,
    ) -> Any:
        states = [
            each["last_hidden_state"][: row.length] for row, each in zip(rows, found, strict=True)
        ]
        if options.pooling == "cls":
            features = np.mean([each[0] for each in states], axis=0)
        elif options.pooling == "pooler":
            features = np.mean([each["pooler_output"] for each in found], axis=0)
        else:
            features = _joined(states, options.stride or 0)
            features = features[None] if options.pooling is None else features.mean(axis=0)
        return features if options.return_tensors else features.tolist()


def _has_pooler(model: AlbertModel) -> bool:
    return model.pooler is not None and "pooler" not in model.fresh_parts


def _joined(windows: Sequence[np.ndarray], stride: int) -> np.ndarray:
    """States `[T, H]` of a whole text from those of its windows, which share `stride` pieces."""
    first_half = EDGE + stride // 2
    second_half = EDGE + stride - stride // 2
    last = len(windows) - 1
    return np.concatenate(
        [
            states[first_half if place else 0 : len(states) - (second_half if place < last else 0)]
            for place, states in enumerate(windows)
        ]
    )
