"""Computes a model's outputs for rows, in batches of similar lengths.

Models are Keras models or exported files, which run without Keras.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from albert_tf.data.tasks.base import Outputs
from albert_tf.data.tasks.rows import Rows, evaluation_order
from albert_tf.probabilities import reject_nan

PREDICTED: Final = 64  # rows predicted at once


def model_outputs(
    rows: Rows,
    model: Any,
    batch_size: int = PREDICTED,
    at: Callable[[int], None] = lambda done: None,
) -> Outputs:
    """Returns the model's outputs for each row; they may include padding.

    Predicts the longest rows first, so that a call that needs too much memory fails early.

    Args:
        model: a `PreTrainedModel` or an `ExportedModel`. If its `parallel_batches` is greater than
            1, that many batches are computed at the same time.
        at: function that is called after each batch with the number of finished rows.
    Raises:
        UserError: if an output is NaN.
    """

    def predict(batch: np.ndarray) -> dict[str, np.ndarray]:
        return model.predict_on_batch(rows.inputs(batch, model.jit_compile))

    outputs: list[dict[str, np.ndarray]] = [{}] * len(rows)
    done, order = 0, evaluation_order(rows.lengths, batch_size)[::-1]
    found = _in_threads(predict, order, model.parallel_batches)
    for batch, batch_outputs in zip(order, found, strict=True):
        reject_nan(batch_outputs)
        for position, row in enumerate(batch):
            outputs[row] = {
                name: values[position] for name, values in batch_outputs.items() if values.ndim
            }
        done += len(batch)
        at(done)
    return outputs


def _in_threads(
    predict: Callable[[np.ndarray], dict[str, np.ndarray]], order: Sequence[np.ndarray], count: int
) -> Iterator[dict[str, np.ndarray]]:
    yield from map(predict, order[:1])  # traces the graph in this thread
    if count == 1 or len(order) == 1:
        yield from map(predict, order[1:])
        return
    with ThreadPoolExecutor(count) as pool:
        yield from pool.map(predict, order[1:])
