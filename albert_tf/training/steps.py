"""One training step and one evaluation, for whichever backend Keras runs on.

Each backend's module offers the same three names:

- `TrainingStep(model, strategy, micro_batches, jit_compile, signature, loss)`: `step(batch)`
  updates a compiled model and returns the batch's totals from before the update. Each mean in
  the loss is over all replicas and micro-batches; gradients are summed over both, then clipped,
  then applied once. `Model.fit` does otherwise: it averages means over unequal counts, clips on
  each replica, and counts micro-batches as steps of the schedule and of the weights' average.
- `Evaluation(model, strategy)`: `evaluation(dataset)` returns the totals of a whole dataset.
- `batches(dataset, strategy, batch_size)`: iterates over this host's part of each batch, in the
  form that the step takes.

`SampledDepthStep` trains at one depth a step, on each of them.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras
import numpy as np

from albert_tf.models.base import PreTrainedModel
from albert_tf.training.loss import Batch, Totals

_backend: Any = importlib.import_module(f"albert_tf.training.steps_{keras.backend.backend()}")
TrainingStep = _backend.TrainingStep
Evaluation = _backend.Evaluation
batches = _backend.batches
_DEPTHS: Final = 1  # keeps their random numbers apart from those of the order of examples


def sampled_depth(depths: Sequence[int], seed: int, step: int) -> int:
    """Returns the depth of training step `step` (from 0), a pure function of its arguments.

    Of D depths each is trained once in every D steps, in an order that is drawn anew each time, so
    that all depths have the same share of a run of any length.
    """
    round_number, position = divmod(step, len(depths))
    order = np.random.default_rng((seed, round_number, _DEPTHS)).permutation(len(depths))
    return depths[order[position]]


class SampledDepthStep:
    """A training step at one of several depths; layers after the drawn one are not computed.

    Each depth has a step of its own, so that each is traced and compiled once.

    Args:
        depths: numbers of layers.
        seed: of the draws.
        first: number of the next step, from 0.
        make_step: returns a `TrainingStep` of the model.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        depths: Sequence[int],
        seed: int,
        first: int,
        make_step: Callable[[], Any],
    ):
        self.encoder = model._backbone().encoder
        self.depths, self.seed, self.number = depths, seed, first
        self.steps = {depth: make_step() for depth in depths}

    def __call__(self, batch: Batch) -> Totals:
        depth = sampled_depth(self.depths, self.seed, self.number)
        self.number += 1
        self.encoder.depths = (depth,)  # read while the step is traced
        return self.steps[depth](batch)
