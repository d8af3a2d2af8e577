"""The encoder's states for each token of a text, or one vector for a text."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from albert_tf.errors import UserError
from albert_tf.pipelines.base import Outputs, Pipeline, TextOptions, Texts, Window, as_text
from albert_tf.tasks import ENCODER

POOLINGS: Final = (None, "mean", "cls", "pooler")
EDGE: Final = 1  # number of special tokens at each end of a row


class FeatureExtractionPipeline(Pipeline):
    """Returns nested lists `[1, T, H]` for a text, special tokens included; `[H]` with `pooling`.

    With `stride`, each token's state comes from the window in which it has more context, so that T
    is the length of the whole text; "cls" and "pooler" are the means over the windows.

    Example:

    >>> from albert_tf import pipeline
    >>> embed = pipeline("feature-extraction", "small", pooling="mean", return_tensors=True)
    >>> embed("A quiet delight.").shape
    (256,)

    Args: see `Pipeline`, and `Options` for the options. The pipeline uses the
        encoder of any task's model.
    """

    task = "feature-extraction"
    models = (ENCODER.model,)

    @dataclasses.dataclass(frozen=True)
    class Options(TextOptions):
        """The options of feature extraction.

        Attributes:
            return_tensors: return NumPy arrays instead of lists.
            pooling: None for the states of all positions, "mean" for their mean (special tokens
                included), "cls" for the state of `[CLS]`, "pooler" for the pooler's output.
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

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 8, **options: Any):
        super().__init__(getattr(model, "albert", model), tokenizer, batch_size, **options)
        self._whole = model

    def preprocess(self, given: Any, options: Options) -> Texts:
        if options.pooling == "pooler" and (
            self.model.pooler is None or "pooler" in self._whole.untrained_parts()
        ):
            raise UserError(
                "pooling='pooler' needs a checkpoint with a pooler. Received: one without. "
                "Use pooling='mean' or 'cls'. If you trained it, call "
                "model.newly_initialized.clear()."
            )
        return Texts(as_text(given))

    def postprocess(
        self,
        example: Texts,
        windows: Sequence[Window],
        found: Sequence[Outputs],
        options: Options,
    ) -> Any:
        states = [
            each["last_hidden_state"][: window.length]
            for window, each in zip(windows, found, strict=True)
        ]
        if options.pooling == "cls":
            features = np.mean([each[0] for each in states], axis=0)
        elif options.pooling == "pooler":
            features = np.mean([each["pooler_output"] for each in found], axis=0)
        else:
            features = _joined(states, options.stride or 0)
            features = features[None] if options.pooling is None else features.mean(axis=0)
        return features if options.return_tensors else features.tolist()


def _joined(windows: Sequence[np.ndarray], stride: int) -> np.ndarray:
    """Joins the states of windows that share `stride` tokens to a text's states `[T, H]`."""
    first_half = EDGE + stride // 2
    second_half = EDGE + stride - stride // 2
    last = len(windows) - 1
    return np.concatenate(
        [
            states[first_half if index else 0 : len(states) - (second_half if index < last else 0)]
            for index, states in enumerate(windows)
        ]
    )
