"""Measures how long `fit` takes to the first training step, and how long later steps take.

    python -m benchmarks.first_step [--rounds 3] [--sizes 2x64 12x128] [--shape 8x64] [--steps 12]

Each case trains a classifier of two classes with AdamW and dropout on meaningless ids, in a process
of its own, and the cases take turns. "to the first step" is the time from the call of `fit` to the
end of its first step: tracing, TensorFlow's optimizer of graphs, and the step. "start" also counts
Python's start, imports, and the model. "operations" counts those created in graphs, and "MB" is the
process's peak. "each layer traced" is this package without `traced_once`. KerasHub's rows require
the extra `peers`; otherwise they are omitted. benchmarks/RESULTS.md has results.
"""

import importlib.util
import statistics
import time
from functools import partial

from benchmarks import harness

PACKAGES = ("tensorflow", "keras", "keras-hub", "numpy")
VOCABULARY = 1000
SIZES = ("2x64", "12x128", "12x768")  # layers and width
PEER = "KerasHub"
OURS = "albert_tf"
UNROLLED = "albert_tf, each layer traced"


def ours(layers, width, ids):
    """Returns a classifier, and features for it."""
    from albert_tf import AlbertConfig, AlbertForSequenceClassification

    config = AlbertConfig(
        vocab_size=VOCABULARY,
        embedding_size=min(128, width),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    return AlbertForSequenceClassification(config), {"input_ids": ids}


def of_keras_hub(layers, width, ids):
    """Returns KerasHub's classifier of the same size, and features for it."""
    import keras_hub
    import numpy as np

    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=layers,
        num_heads=width // 64,
        embedding_dim=min(128, width),
        hidden_dim=width,
        intermediate_dim=4 * width,
        dropout=0.1,
    )
    model = keras_hub.models.AlbertTextClassifier(backbone, num_classes=2, preprocessor=None)
    ones = np.ones_like(ids)
    return model, {"token_ids": ids, "segment_ids": 0 * ones, "padding_mask": ones}


def measure(started, program, layers, width, batch_size, length, steps):
    """Trains in this process, which started at the time `started`, and returns a row's figures."""
    import keras
    import numpy as np
    import tensorflow as tf

    if program == UNROLLED:
        from albert_tf.layers import encoder

        encoder.traced_once = lambda function: function
    keras.utils.set_random_seed(1)
    generator = np.random.default_rng(1)
    ids = generator.integers(5, VOCABULARY, (steps * batch_size, length)).astype("int32")
    labels = generator.integers(0, 2, steps * batch_size)
    model, features = (of_keras_hub if program == PEER else ours)(layers, width, ids)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if program == PEER:
        model.compile(keras.optimizers.AdamW(1e-4), loss)
    else:
        model.compile(keras.optimizers.AdamW(1e-4))

    created = [0]
    create = tf.Graph._create_op_internal

    def counted(*args, **kwargs):
        created[0] += 1
        return create(*args, **kwargs)

    tf.Graph._create_op_internal = counted
    ends = []
    at_the_end = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: ends.append(time.time())
    )
    begin = time.time()
    history = model.fit(features, labels, batch_size, callbacks=[at_the_end], verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    return {
        "first": ends[0] - begin,
        "start": ends[0] - started,
        "operations": created[0],
        "step": 1000 * statistics.median(np.diff(ends)),
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
    programs = [OURS, UNROLLED]
    if importlib.util.find_spec("keras_hub"):
        programs.insert(0, PEER)

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
            f"{figures['operations']:,.0f}",
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
