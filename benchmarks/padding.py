"""Speed of training with three ways of padding: interleaved medians, with versions.

    python benchmarks/padding.py --data SST-2/train.tsv --vocab spiece.model [--size mini] \\
        [--task sst2] [--batch-size 64] [--max-length 128] [--steps 20] [--rounds 5]

Trains on the same number of random batches with each way of padding, in turns: "maximum" pads every
row to --max-length, "longest" to the longest row of a random batch, "buckets" to the longest row of
a batch of similar lengths, as `albert-tf finetune` does. On SST-2, with --steps 12, on two busy
cores: 0.60, 2.33 and 4.49 steps a second.
"""

import argparse
import os
import platform
import statistics
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.pipeline import batch_order
from albert_tf.data.tasks.glue import GLUE
from albert_tf.data.tasks.registry import task_of
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.optimizers import AlbertAdamW

WARM_UP = 3  # batches that trace the graph and fill caches


def maximum(data, rows, max_length):
    """A batch whose rows are all as long as rows may be."""
    batch, labels = data.batch(rows)
    missing = max_length - batch["input_ids"].shape[1]
    return {name: np.pad(ids, ((0, 0), (0, missing))) for name, ids in batch.items()}, labels


def drawn(data, options, seed):
    """The batches of each way of padding: equally many, from the same examples."""
    generator = np.random.default_rng(seed)
    count = options.steps + WARM_UP
    shuffled = np.array_split(generator.permutation(len(data))[: count * options.batch_size], count)
    return {
        "maximum": [maximum(data, rows, options.max_length) for rows in shuffled],
        "longest": [data.batch(rows) for rows in shuffled],
        "buckets": [
            data.batch(rows)
            for rows in batch_order(data.lengths, options.batch_size, seed, epoch=0)[:count]
        ],
    }


class Clock(keras.callbacks.Callback):
    """Notes when each batch ended."""

    def __init__(self):
        super().__init__()
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())


def batches_per_second(model, batches):
    """Speed of `fit` on batches, the first ones not counted."""
    specs = tf.nest.map_structure(
        lambda array: tf.TensorSpec([None] * array.ndim, array.dtype), batches[0]
    )
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=specs)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))
    clock = Clock()
    model.fit(dataset.prefetch(8), verbose=0, callbacks=[clock])
    return (len(batches) - WARM_UP) / (clock.times[-1] - clock.times[WARM_UP - 1])


def padding_share(batches):
    """The part of all places that holds nothing."""
    masks = [batch["attention_mask"] for batch, _ in batches]
    return 1 - sum(mask.sum() for mask in masks) / sum(mask.size for mask in masks)


def prepared(options):
    """The encoded examples, and a model that is compiled as in fine-tuning."""
    task = task_of(LabelledData(task=options.task, data=options.data))
    examples = task.read(options.data)
    tokenizer = AlbertTokenizer(options.vocab)
    config = AlbertConfig.from_size(
        options.size,
        vocab_size=tokenizer.vocab_size,
        max_position_embeddings=max(512, options.max_length),
        **task.config_fields(examples),
    )
    data = task.encode(examples, tokenizer, config, options.max_length)
    model = AlbertForSequenceClassification(config)
    model.compile(AlbertAdamW(1e-4))
    return data, model


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a file of GLUE")
    parser.add_argument("--task", default="sst2", choices=GLUE)
    parser.add_argument("--vocab", type=Path, required=True, help="spiece.model")
    parser.add_argument("--size", default="mini")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def main():
    options = arguments()
    data, model = prepared(options)
    speeds, shares = {}, {}
    for number in range(options.rounds):
        for name, batches in drawn(data, options, seed=number).items():
            speeds.setdefault(name, []).append(batches_per_second(model, batches))
            shares.setdefault(name, []).append(padding_share(batches))
    print(
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores; {options.size}, batches of "
        f"{options.batch_size}, at most {options.max_length} pieces"
    )
    slowest = statistics.median(speeds["maximum"])
    for name, values in speeds.items():
        median = statistics.median(values)
        print(
            f"{name:8} {median:6.2f} steps/s ({min(values):.2f} to {max(values):.2f}), "
            f"{median / slowest:.1f} times; padding {statistics.mean(shares[name]):.0%}"
        )


if __name__ == "__main__":
    main()
