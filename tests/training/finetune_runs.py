"""Fine-tunes on two devices in several ways: `finetune_runs.py DATA MODEL OUTPUT`.

Writes the model and the report of each run to a folder of its name: `one` device, `two` devices
with micro-batches, and `resumed`, the same after a crash in the second epoch.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from albert_tf.training.callbacks import Curve
from albert_tf.training.finetune import finetune

# 51 examples: the last batch has 3, which neither two devices nor three parts can share.
SETTINGS = {"task": "classify", "batch_size": 8, "max_length": 16, "vocab_size": 50, "epochs": 2}
ON_TWO = {"strategy": "mirrored", "micro_batches": 3}


def main(data, model, output):
    (device,) = tf.config.list_physical_devices("CPU")
    logical = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(device, logical)

    def run(name, **others):
        return finetune(
            data=data,
            model=model,
            output=output / name,
            learning_rate=1e-3,
            dropout=0.0,
            save_steps=4,
            **{**SETTINGS, **others},
        )

    run("one", strategy="none")
    run("two", **ON_TWO)
    act = Curve.on_train_batch_end

    def crash(curve, *given, **named):
        if curve.step == 9:
            raise InterruptedError
        act(curve, *given, **named)

    Curve.on_train_batch_end = crash
    try:
        run("resumed", **ON_TWO)
    except InterruptedError:
        Curve.on_train_batch_end = act
        run("resumed", **ON_TWO)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
