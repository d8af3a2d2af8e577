"""Compares the speed of training with rows padded to the maximum, or batched by length.

    python -m benchmarks.padding finetuning --data SST-2/train.tsv --vocab spiece.model \\
        [--task sst2] [--size mini] [--batch-size 64] [--max-length 128] [--steps 20] [--rounds 3]
    python -m benchmarks.padding pretraining --data examples [--size mini] [--batch-size 32]

Calls `fit` on the same number of random batches with each way of padding, in fresh processes that
take turns. "maximum" pads every row to the maximum length, "longest" to the longest row in a random
batch, and "buckets" to the longest row in a batch of similar lengths, like `albert-tf finetune` and
`pretraining_batches` with `length_buckets=True`. For pretraining, --data is a folder written by
`build-data`, and the reading rate is measured on batches without training.
"""

import time
from functools import partial
from pathlib import Path

from benchmarks import harness

PACKAGES = ("tensorflow", "keras")
WARM_UP = 3  # batches that trace the graph and fill caches
WAYS = {"finetuning": ("maximum", "longest", "buckets"), "pretraining": ("maximum", "buckets")}


def batches_per_second(model, dataset, steps):
    """Returns the speed of `fit`, without the first batches."""
    import keras

    times = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: times.append(time.perf_counter())
    )
    model.fit(dataset, steps_per_epoch=steps + WARM_UP, shuffle=False, verbose=0, callbacks=[note])
    return steps / (times[-1] - times[WARM_UP - 1])


def padding_share(masks):
    """Returns the share of padding positions in attention masks."""
    masks = list(masks)
    return 1 - float(sum(mask.sum() for mask in masks) / sum(mask.size for mask in masks))


def finetuning(way, seed, *, data, task, vocab, size, batch_size, max_length, steps):
    """Returns the speed on GLUE examples, and the share of padding."""
    import numpy as np
    import tensorflow as tf

    from albert_tf import AlbertConfig, AlbertForSequenceClassification, AlbertTokenizer
    from albert_tf.data.options import LabelledData
    from albert_tf.data.pipeline import batch_order
    from albert_tf.data.tasks.registry import task_of
    from albert_tf.optimizers import AlbertAdamW

    task = task_of(LabelledData(task=task, data=Path(data)))
    examples, tokenizer = task.read(Path(data)), AlbertTokenizer(vocab)
    config = AlbertConfig.from_size(
        size,
        vocab_size=tokenizer.vocab_size,
        max_position_embeddings=max(512, max_length),
        **task.config_fields(examples),
    )
    encoded = task.encode(examples, tokenizer, config, max_length)
    count = steps + WARM_UP
    if way == "buckets":
        order = batch_order(encoded.lengths, batch_size, seed, epoch=0)[:count]
    else:
        shuffled = np.random.default_rng(seed).permutation(len(encoded))
        order = np.array_split(shuffled[: count * batch_size], count)
    batches = [encoded.batch(rows)[:2] for rows in order]
    if way == "maximum":
        batches = [
            (
                {
                    name: np.pad(ids, ((0, 0), (0, max_length - ids.shape[1])))
                    for name, ids in inputs.items()
                },
                labels,
            )
            for inputs, labels in batches
        ]
    specs = tf.nest.map_structure(
        lambda array: tf.TensorSpec([None] * array.ndim, array.dtype), batches[0]
    )
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=specs)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(count)).prefetch(8)
    model = AlbertForSequenceClassification(config)
    model.compile(AlbertAdamW(1e-4))
    rate = batches_per_second(model, dataset, steps)
    return {"rate": rate, "padding": padding_share(x["attention_mask"] for x, _ in batches)}


def pretraining(way, seed, *, data, size, batch_size, steps, **_):
    """Returns the speed on records, the speed of only reading them, and the share of padding."""
    from albert_tf import AlbertConfig, AlbertForPreTraining
    from albert_tf.data.pretraining.batches import pretraining_batches
    from albert_tf.data.pretraining.sources import find_records
    from albert_tf.optimizers import AlbertAdamW

    files = find_records(data)
    dataset = pretraining_batches(files, batch_size, seed=seed, length_buckets=way == "buckets")
    iterator = iter(dataset)
    masks = [next(iterator)[0]["attention_mask"].numpy() for _ in range(10 * steps)]
    start = time.perf_counter()
    for _ in range(10 * steps):  # consumes the batches that were read ahead
        next(iterator)
    reading = 10 * steps / (time.perf_counter() - start)
    model = AlbertForPreTraining(
        AlbertConfig.from_size(
            size,
            vocab_size=len(files.table.starts),
            max_position_embeddings=max(512, files.max_seq_length),
        )
    )
    model.compile(AlbertAdamW(1e-4))
    rate = batches_per_second(model, dataset, steps)
    return {"rate": rate, "padding": padding_share(masks), "reading": reading}


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("training", choices=WAYS)
    parser.add_argument("--data", required=True, help="GLUE file, or folder written by build-data")
    parser.add_argument("--task", default="sst2", help="of GLUE")
    parser.add_argument("--vocab", help="spiece.model; required for fine-tuning")
    parser.add_argument("--size", default="mini")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    measure = globals()[options.training]
    names = ("data", "task", "vocab", "size", "batch_size", "max_length", "steps")
    given = {name: getattr(options, name) for name in names}
    ways = WAYS[options.training]
    cases = {way: partial(harness.fresh, measure, way, 1, **given) for way in ways}
    rounds = harness.take_turns(cases, options.rounds)

    def cells(figures):
        rates = [figures["rate"], options.batch_size * figures["rate"]]
        if "reading" in figures:
            rates.append(options.batch_size * figures["reading"])
        return [*(f"{rate:,.2f}" for rate in rates), f"{figures['padding']:.1%}"]

    reading = ["examples/s, reading alone"] * (options.training == "pretraining")
    heads = ["", "steps/s", "examples/s", *reading, "padding"]
    table = harness.table(heads, harness.rows(rounds, cells))
    harness.report(options, PACKAGES, [table], rounds)


if __name__ == "__main__":
    main()
