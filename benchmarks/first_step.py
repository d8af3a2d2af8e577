"""Measures the time from the call to `fit` to the end of its first step, and that of later steps.

    python -m benchmarks.first_step [--rounds 3] [--sizes 2x64 12x128] [--shape 8x64] [--steps 12]

Each case trains a classifier of two classes with AdamW and dropout on meaningless ids, in a process
of its own, and the cases take turns. "to the first step" is the time from the call to `fit` to the
end of its first step: tracing, TensorFlow's graph optimizer, and the step. "start" also counts
Python's start, imports, and the model. "operations" counts those created in graphs, and "MB" is the
process's peak. "each layer traced" is this package without `traced_once`. transformers trains in a
torch loop, which traces nothing. The rows of KerasHub and transformers are omitted without the
extra `peers`. benchmarks/RESULTS.md contains the results.
"""

import importlib.util
import itertools
import statistics
import time
from functools import partial

from benchmarks import harness

PACKAGES = ("tensorflow", "keras", "keras-hub", "torch", "transformers", "numpy")
VOCABULARY = 1000
DROPOUT = 0.1
SIZES = ("2x64", "12x128", "12x768")  # layers and width
KERAS_HUB = "KerasHub"
TRANSFORMERS = "transformers"
PEERS = {KERAS_HUB: "keras_hub", TRANSFORMERS: "transformers"}
OURS = "albert_tf"
UNROLLED = "albert_tf, each layer traced"


def sizes(layers, width):
    """Returns the arguments of `AlbertConfig`, which are the same in transformers."""
    return {
        "vocab_size": VOCABULARY,
        "embedding_size": min(128, width),
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
        "hidden_dropout_prob": DROPOUT,
        "attention_probs_dropout_prob": DROPOUT,
    }


def ours(layers, width, ids):
    """Returns a classifier and features for it."""
    from albert_tf import AlbertConfig, AlbertForSequenceClassification

    config = AlbertConfig(**sizes(layers, width))
    return AlbertForSequenceClassification(config), {"input_ids": ids}


def of_keras_hub(layers, width, ids):
    """Returns KerasHub's classifier of the same size and features for it."""
    import keras_hub
    import numpy as np

    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=layers,
        num_heads=width // 64,
        embedding_dim=min(128, width),
        hidden_dim=width,
        intermediate_dim=4 * width,
        dropout=DROPOUT,
    )
    model = keras_hub.models.AlbertTextClassifier(backbone, num_classes=2, preprocessor=None)
    ones = np.ones_like(ids)
    return model, {"token_ids": ids, "segment_ids": 0 * ones, "padding_mask": ones}


def train_in_torch(layers, width, ids, labels, batch_size):
    """Trains transformers' classifier and returns when it started and when each step ended."""
    import torch
    from transformers import AlbertConfig, AlbertForSequenceClassification

    config = AlbertConfig(**sizes(layers, width))
    model = AlbertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    times = [time.time()]
    for start in range(0, len(ids), batch_size):
        rows = slice(start, start + batch_size)
        batch = torch.tensor(ids[rows]).long()
        model(batch, torch.ones_like(batch), labels=torch.tensor(labels[rows])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.time())
    return times


def train_in_keras(program, layers, width, ids, labels, batch_size):
    """Trains with `fit` and returns when it started and when each step ended."""
    import keras

    if program == UNROLLED:
        from albert_tf.layers import encoder

        encoder.traced_once = lambda function, calls: function
    model, features = (of_keras_hub if program == KERAS_HUB else ours)(layers, width, ids)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-4), loss)
    times = [time.time()]
    at_the_end = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: times.append(time.time())
    )
    model.fit(features, labels, batch_size, callbacks=[at_the_end], verbose=0)
    return times


def count_operations():
    """Returns a function that counts the operations that have been created in graphs since then."""
    import tensorflow as tf

    created = itertools.count()
    create = tf.Graph._create_op_internal

    def counted(*args, **kwargs):
        next(created)
        return create(*args, **kwargs)

    tf.Graph._create_op_internal = counted
    return lambda: next(created)


def measure(started, program, layers, width, batch_size, length, steps):
    """Trains in this process and returns the figures of a row.

    Args:
        started: time at which the process was started, in seconds since the epoch.
    """
    import numpy as np

    generator = np.random.default_rng(1)
    ids = generator.integers(5, VOCABULARY, (steps * batch_size, length)).astype("int32")
    labels = generator.integers(0, 2, steps * batch_size)
    if program == TRANSFORMERS:
        operations, times = None, train_in_torch(layers, width, ids, labels, batch_size)
    else:
        created = count_operations()
        times = train_in_keras(program, layers, width, ids, labels, batch_size)
        operations = created()
    return {
        "first": times[1] - times[0],
        "start": times[1] - started,
        "operations": operations,
        "step": 1000 * statistics.median(np.diff(times[1:])),
        "peak": harness.memory("VmHWM"),
    }


def pair(text):
    """Returns the two numbers of an argument such as 12x128."""
    first, second = map(int, text.split("x"))
    return first, second


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--sizes", nargs="+", type=pair, default=[*map(pair, SIZES)])
    parser.add_argument("--shape", type=pair, default=(8, 64), help="examples x tokens of a batch")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    peers = [name for name, package in PEERS.items() if importlib.util.find_spec(package)]
    programs = [*peers, UNROLLED, OURS]

    def run(*case):
        return harness.fresh(measure, time.time(), *case, *options.shape, options.steps)

    cases = {
        (f"{layers} × {width}", program): partial(run, program, layers, width)
        for layers, width in options.sizes
        for program in programs
    }
    rounds = harness.take_turns(cases, options.rounds)

    def cells(figures):
        return [
            f"{figures['first']:.1f}",
            f"{figures['start']:.1f}",
            "" if figures["operations"] is None else f"{figures['operations']:,.0f}",
            f"{figures['step']:,.0f}",
            f"{figures['peak']:,.0f}",
        ]

    heads = [
        "layers × width",
        "",
        "s to the first step",
        "s from start",
        "operations",
        "ms per step",
        "MB",
    ]
    tables = [harness.table(heads, harness.rows(rounds, cells), names=2)]
    harness.report(options, PACKAGES, tables, rounds)


if __name__ == "__main__":
    main()
