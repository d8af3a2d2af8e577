"""Speed of reading pretraining examples beside a training step: interleaved medians, versions.

    python benchmarks/pretraining_input.py --dynamic DIR [--static DIR] [--size mini] \\
        [--batch-size 32] [--batches 40] [--steps 4] [--rounds 3]

The directories are outputs of `albert-tf build-data` with the same --max-seq-length. In turns it
reads batches of each, padded to the maximum and in length buckets, then trains on a single batch
that stays in memory, and on the dynamic ones as they are read.
On two busy cores, with --size mini on books at 128 pieces: 5,600 dynamic and
43,000 static examples a second are read, 14 are trained on, in memory or not; padding is 4.7 %, in
buckets 1.2 %. With --size tiny --batch-size 8 --batches 20 --steps 3 on documents of 250 words in
the median at 512 pieces: 390 read, 5.8 trained on in memory, 6.3 read and trained on, in buckets
8.0; padding 32 % and 4 %.
"""

import argparse
import os
import platform
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.batches import pretraining_batches
from albert_tf.data.pretraining.sources import find_records
from albert_tf.models import AlbertForPreTraining
from albert_tf.training.optimizers import AlbertAdamW

WARM_UP = 3  # steps that trace the graph and fill caches


class Clock(keras.callbacks.Callback):
    """Records the time at the end of each batch."""

    def __init__(self):
        super().__init__()
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())


def trained_per_second(model, dataset, options):
    """Examples a second that `fit` trains on."""
    clock = Clock()
    steps = options.steps + WARM_UP
    model.fit(dataset, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[clock])
    seconds = clock.times[-1] - clock.times[WARM_UP - 1]
    return options.steps * options.batch_size / seconds


def read_per_second(iterator, options):
    """Examples a second that are read, once the prefetched ones are consumed."""
    for _ in range(options.batches):
        next(iterator)
    start = time.perf_counter()
    for _ in range(options.batches):
        next(iterator)
    return options.batches * options.batch_size / (time.perf_counter() - start)


def padding_share(dataset, batches):
    """The share of padding in all positions."""
    masks = [inputs["attention_mask"].numpy() for inputs, _ in dataset.take(batches)]
    return 1 - sum(mask.sum() for mask in masks) / sum(mask.size for mask in masks)


def prepared_model(options, files):
    config = AlbertConfig.from_size(
        options.size,
        vocab_size=len(files.table.starts),
        max_position_embeddings=max(512, files.max_seq_length),
    )
    model = AlbertForPreTraining(config)
    model.compile(AlbertAdamW(1e-4))
    return model


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dynamic", required=True, help="a directory of build-data")
    parser.add_argument("--static", help="another one, of --mode static")
    parser.add_argument("--size", default="mini")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batches", type=int, default=40, help="batches read in a turn")
    parser.add_argument("--steps", type=int, default=4, help="steps trained in a turn")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def measured(options, files):
    """Examples per second of each way, and shares of padding of the datasets."""
    datasets = {
        f"{kind}, {way}": pretraining_batches(
            found, options.batch_size, seed=1, length_buckets=way == "buckets"
        )
        for kind, found in files.items()
        for way in ("maximum", "buckets")
    }
    padding = {name: padding_share(each, options.batches) for name, each in datasets.items()}
    in_memory = datasets["dynamic, maximum"].take(1).cache().repeat()
    trained = {
        "in memory, maximum": in_memory,
        **{name: each for name, each in datasets.items() if name.startswith("dynamic")},
    }
    iterators = {name: iter(each) for name, each in datasets.items()}
    model = prepared_model(options, files["dynamic"])
    speeds = {}
    for _ in range(options.rounds):
        for name, iterator in iterators.items():
            speeds.setdefault(f"read {name}", []).append(read_per_second(iterator, options))
        for name, dataset in trained.items():
            rate = trained_per_second(model, dataset, options)
            speeds.setdefault(f"train {name}", []).append(rate)
    return speeds, padding


def main():
    options = arguments()
    given = {"dynamic": options.dynamic, "static": options.static}
    files = {kind: find_records(path) for kind, path in given.items() if path}
    speeds, padding = measured(options, files)
    print(
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores; {options.size}, batches of "
        f"{options.batch_size}, at most {files['dynamic'].max_seq_length} pieces"
    )
    for name, values in speeds.items():
        print(
            f"{name:25} {statistics.median(values):8.1f} examples/s "
            f"({min(values):.1f} to {max(values):.1f})"
        )
    for name, share in padding.items():
        print(f"padding {name:25} {share:.1%}")


if __name__ == "__main__":
    main()
