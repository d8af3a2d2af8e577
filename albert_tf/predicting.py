"""Computes a model's outputs for rows, in batches of similar lengths.

Models are Keras models or exported files, which run without Keras.
"""

import sys
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

    The longest rows come first, so that running out of memory ends the call early. TensorFlow
    computes several batches in parallel.

    Args:
        model: a `PreTrainedModel` or an `ExportedModel`.
        at: called after each batch with the number of finished rows.
    Raises:
        UserError: if an output is NaN.
    """

    def predict(batch: np.ndarray) -> dict[str, np.ndarray]:
        return model.predict_on_batch(rows.inputs(batch, model.jit_compile))

    outputs: list[dict[str, np.ndarray]] = [{}] * len(rows)
    done, order = 0, evaluation_order(rows.lengths, batch_size)[::-1]
    for batch, batch_outputs in zip(order, _predict_batches(predict, order), strict=True):
        reject_nan(batch_outputs)
        for position, row in enumerate(batch):
            outputs[row] = {
                name: values[position] for name, values in batch_outputs.items() if values.ndim
            }
        done += len(batch)
        at(done)
    return outputs


def _predict_batches(
    predict: Callable[[np.ndarray], dict[str, np.ndarray]], order: Sequence[np.ndarray]
) -> Iterator[dict[str, np.ndarray]]:
    keras = sys.modules.get("keras")  # exported models don't import it
    if len(order) < 2 or keras is None or keras.backend.backend() != "tensorflow":
        yield from map(predict, order)
        return
    from albert_tf.models.steps_tensorflow import has_accelerator

    yield from map(predict, order[:1])  # traces the graph in this thread
    with ThreadPoolExecutor(1 if has_accelerator() else 2) as pool:
        yield from pool.map(predict, order[1:])
