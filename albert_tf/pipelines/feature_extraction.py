"""The feature extraction pipeline."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints.sentence_transformers import FOLDER, POOLINGS, SentenceEmbedding, chosen
from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError
from albert_tf.pipelines.base import (
    LongTextOptions,
    Outputs,
    Pipeline,
    Texts,
    as_text,
    window_rows,
)
from albert_tf.tasks import ENCODER
from albert_tf.text.sequences import EncodedSequence, Positions
from albert_tf.text.transformers_api import TransformersTokenizer

CHOICES: Final = (FOLDER, None, *POOLINGS)
EDGE: Final = 1  # number of special tokens at each end of a sequence


class FeatureExtractionPipeline(Pipeline):
    """Feature extraction pipeline, which returns the encoder's states or an embedding of each text.

    The result for a text is a nested list `[1, T, H]`, including special tokens, or a list `[H]` if
    `pooling` is set. For a sentence-transformers folder, the result is the embedding `[H]` that
    sentence-transformers returns. The text is truncated to the maximum length set in the folder.

    With `stride`, T is the length of the whole text, and each token's state comes from the window
    in which the token has more context. With "cls" pooling, the result is the mean over the
    windows.

    Example:

    >>> from albert_tf import pipeline
    >>> embed = pipeline("feature-extraction", "small", pooling="mean", return_tensors=True)
    >>> embed("A quiet delight.").shape
    (384,)

    Args: see `Pipeline` and `Options`. The model can belong to any task; only its encoder is used.
    """

    task = "feature-extraction"
    models = (ENCODER.model,)

    @dataclasses.dataclass(frozen=True)
    class Options(LongTextOptions):
        """Options for feature extraction.

        Attributes:
            return_tensors: whether to return NumPy arrays instead of lists.
            pooling: None for the states of all positions, "mean" for their mean (including special
                tokens), "cls" for the state of `[CLS]`, or "max" for the maximum of each dimension.
                Default: the pooling of the sentence-transformers folder, if any, otherwise None.
            normalize: whether to scale embeddings to unit length. Default: as configured in the
                sentence-transformers folder, if any, otherwise False.
        """

        return_tensors: bool | str = False
        pooling: str | None = FOLDER
        normalize: bool | None = None

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.pooling not in CHOICES:
                raise UserError(
                    f"pooling must be one of {', '.join(map(str, CHOICES))}. "
                    f"Received: {self.pooling!r}."
                )

    def __init__(
        self, model: Any, tokenizer: TransformersTokenizer, batch_size: int = 8, **options: Any
    ):
        super().__init__(getattr(model, "albert", model), tokenizer, batch_size, **options)
        self._read_folder = functools.cache(model.sentence_embedding)
        self.embedding(self.options)  # fails now if the folder can't be read

    def embedding(self, options: Options) -> SentenceEmbedding | None:
        """Returns how to compute a text's embedding, or None to return the states of its tokens."""
        return chosen(self._read_folder, options.pooling, options.normalize)

    def preprocess(self, given: Any, options: Options) -> Texts:
        return Texts(as_text(given))

    def encode(self, examples: Sequence[Texts], options: Options) -> Rows:
        embedding, longest = self.embedding(options), self.max_length
        if embedding is not None and options.max_length is None:
            longest = min(longest, embedding.max_length or longest)
        return window_rows(self.tokenizer, examples, options, longest)

    def postprocess(
        self, example: Texts, windows: Sequence[tuple[EncodedSequence, Outputs]], options: Options
    ) -> Any:
        states = [
            outputs["last_hidden_state"][: Positions([window]).lengths[0]].astype("float32")
            for window, outputs in windows
        ]
        features = _join_windows(states, options.stride or 0)[None]
        if (embedding := self.embedding(options)) is not None:
            if embedding.pooling == "cls":
                features = np.mean([each[:1] for each in states], axis=0)[None]
            mask = np.ones(features.shape[:2], features.dtype)
            features = embedding(features, mask)[0]
        return features if options.return_tensors else features.tolist()


def _join_windows(windows: Sequence[np.ndarray], stride: int) -> np.ndarray:
    """Merges states of windows that overlap by `stride` into the states `[T, H]` of the text."""
    first_half = EDGE + stride // 2
    second_half = EDGE + stride - stride // 2
    last = len(windows) - 1
    return np.concatenate(
        [
            states[first_half if index else 0 : len(states) - (second_half if index < last else 0)]
            for index, states in enumerate(windows)
        ]
    )
