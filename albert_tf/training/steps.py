"""One training step and one evaluation, for whichever backend Keras runs on.

Each backend's module offers the same three names:

- `TrainingStep(model, strategy, micro_batches, jit_compile, signature, class_weights)`:
  `step(batch)` updates a compiled model and returns the batch's totals from before the update.
  Each mean in the loss is over all replicas and micro-batches; gradients are summed over both, then
  clipped, then applied once. `Model.fit` does otherwise: it averages means over unequal counts,
  clips on each replica, and counts micro-batches as steps of the schedule and of the weights'
  average.
- `Evaluation(model, strategy)`: `evaluation(dataset)` returns the totals of a whole dataset.
- `batches(dataset, strategy, batch_size)`: iterates over this host's part of each batch, in the
  form that the step takes.
"""

import importlib
from typing import Any

import keras

_backend: Any = importlib.import_module(f"albert_tf.training.steps_{keras.backend.backend()}")
TrainingStep = _backend.TrainingStep
Evaluation = _backend.Evaluation
batches = _backend.batches
