"""Labels and probabilities for a stream of texts."""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from keras import ops

from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer


class Prediction(NamedTuple):
    """What a model says of one text.

    Attributes:
        label: the likeliest class, or the name of the score.
        value: its probability, or the score.
        probabilities: of every label by name; independent of each other for several labels.
        logits: `[C]`.
    """

    label: str
    value: float
    probabilities: dict[str, float]
    logits: list[float]


def predict(
    model: AlbertForSequenceClassification,
    tokenizer: AlbertTokenizer,
    texts: Iterable[str | tuple[str, str]],
    batch_size: int = 32,
    max_length: int | None = None,
) -> Iterator[Prediction]:
    """Yields a prediction for each text, in order, reading `batch_size` texts ahead at most.

    Args:
        model, tokenizer: of one model directory.
        texts: texts, or pairs of them; any iterable, however long.
        max_length: longest row in pieces; the tokenizer's `model_max_length` if None.
    """
    labels = model.config.labels
    stream = iter(texts)
    while batch := [
        (each,) if isinstance(each, str) else each for each in itertools.islice(stream, batch_size)
    ]:
        features = tokenizer(
            [each[0] for each in batch],
            [each[-1] for each in batch] if len(batch[0]) == 2 else None,
            padding=True,
            truncation=True,
            max_length=max_length,
            pad_to_multiple_of=8,
            split_special_tokens=True,
            return_tensors="np",
        )
        logits = model.predict_on_batch(dict(features))["logits"]
        for row, odds in zip(
            logits, ops.convert_to_numpy(model.probabilities(logits)), strict=True
        ):
            best = int(np.argmax(odds))
            yield Prediction(
                labels[best],
                float(odds[best]),
                dict(zip(labels, map(float, odds), strict=True)),
                [float(value) for value in row],
            )
