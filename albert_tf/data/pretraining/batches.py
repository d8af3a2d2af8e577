"""Batches of pretraining examples, in an order that is a pure function of seed and epoch."""

from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from albert_tf.data.pretraining import draws, draws_graph
from albert_tf.data.pretraining.inputs_graph import inputs_of, lengths_of
from albert_tf.data.pretraining.sources import Path, RecordFiles, find_records
from albert_tf.errors import UserError

AT_ONCE: Final = 16  # files that are read in turns
BLOCK: Final = 16  # records of a file in a turn
LENGTHS: Final = 8  # most lengths of batches with `length_buckets`, so that few shapes are traced


def pretraining_batches(
    source: Path | Sequence[Path] | RecordFiles,
    batch_size: int,
    seed: int,
    start: int = 0,
    *,
    worker: int = 0,
    workers: int = 1,
    part: tuple[int, int] = (0, 1),
    shuffle_records: int = 10_000,
    length_buckets: bool = False,
) -> tf.data.Dataset:
    """Batches without end for `fit` of `AlbertForPreTraining` or `AlbertForMaskedLM`.

    In every epoch the files come in another order, `AT_ONCE` of them are read in turns, and what
    is read is shuffled in windows. Dynamic records are masked and swapped anew, by draws that
    depend on the seed, the epoch and the record alone. A last, smaller batch is left out.

    Args:
        source: a directory of `build-data`, paths or globs of the original code's files, or what
            `find_records` found.
        batch_size: examples of a batch of one worker, B.
        start: number of batches that were consumed before. Those before it are neither parsed nor
            masked; whole epochs are not read.
        worker, workers: this reader's number and how many there are. In each epoch they share the
            records out among them; all get equally many batches.
        part: `(index, count)`: which of `count` equal parts of each batch to mask and to yield, so
            that several hosts train on one batch whose examples don't depend on their number.
        shuffle_records: size of a window, rounded down to full batches.
        length_buckets: puts examples of like lengths of a window together, and pads them to the
            longest of a batch, rounded up to an eighth of `max_seq_length`.
    Returns:
        features and labels (`features.py` has their names), int32: T is `max_seq_length` unless
        there are `length_buckets`. `find_records(source).steps_per_epoch` tells what is an epoch.
    Raises:
        UserError: what `find_records` refuses; too few records; an argument out of its range.
    """
    files = source if isinstance(source, RecordFiles) else find_records(source)
    _check(batch_size=(batch_size, 1), workers=(workers, 1), start=(start, 0), seed=(seed, 0))
    if not 0 <= worker < workers:
        raise UserError(f"worker must be in [0, workers). Received: {worker}, {workers}.")
    index, count = part
    if not 0 <= index < count or batch_size % count:
        raise UserError(
            "part must be (index, count) with an index in [0, count), and batch_size a multiple of "
            f"count. Received: part={part}, batch_size={batch_size}."
        )
    own = slice(index * batch_size // count, (index + 1) * batch_size // count)
    steps = files.steps_per_epoch(batch_size, workers)
    first, skipped = divmod(start, steps)
    in_window = max(1, shuffle_records // batch_size)

    def batches_of(epoch: tf.Tensor) -> tf.data.Dataset:
        key = draws_graph.child(draws.key(seed, "order"), epoch)
        rows = _rows(files, draws_graph.child(key, 0), worker, workers)

        def shuffled(number: tf.Tensor, rows: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
            lengths = lengths_of(files, rows[1]) if length_buckets else None
            return _batches(draws_graph.child(key, 1, number), rows, batch_size, lengths)

        skip = tf.where(epoch == first, tf.constant(skipped, tf.int64), 0)
        windows = rows.batch(in_window * batch_size).enumerate().skip(skip // in_window)
        batches = windows.map(shuffled).prefetch(1).unbatch()
        batches = batches.skip(skip % in_window).take(steps - skip)
        return batches.map(
            lambda numbers, records: (_keys(seed, epoch, numbers[own]), records[own])
        )

    raw = tf.data.Dataset.range(first, tf.int64.max).flat_map(batches_of)
    multiple = max(1, files.max_seq_length // LENGTHS) if length_buckets else None
    return _finished(raw, files, multiple, tf.data.INFINITE_CARDINALITY)


def evaluation_batches(
    source: Path | Sequence[Path] | RecordFiles, batch_size: int, seed: int = 0
) -> tf.data.Dataset:
    """Every example once, in the files' order and with the same masks each time.

    Args:
        source, batch_size: as of `pretraining_batches`; the last batch may be smaller.
        seed: of the masks.
    """
    files = source if isinstance(source, RecordFiles) else find_records(source)
    _check(batch_size=(batch_size, 1), seed=(seed, 0))
    rows = _read(files, *_parts(tf.range(len(files.paths)), files, 0, 1), at_once=1)
    raw = rows.batch(batch_size).map(
        lambda numbers, records: (_keys(seed, tf.constant(0), numbers), records)
    )
    return _finished(raw, files, None, -(-sum(files.counts) // batch_size))


def _check(**least: tuple[int, int]) -> None:
    for name, (value, lowest) in least.items():
        if value < lowest:
            raise UserError(f"{name} must be {lowest} or more. Received: {value}.")


def _keys(seed: int, epoch: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """uint64 `[B]`: what the draws for records depend on."""
    return draws_graph.child(draws.key(seed, "masks"), epoch, numbers)


def _rows(files: RecordFiles, key: tf.Tensor, worker: int, workers: int) -> tf.data.Dataset:
    """A worker's records with their numbers, of files in an order that `key` decides."""
    order = draws_graph.order(key, len(files.paths))
    return _read(files, *_parts(order, files, worker, workers), at_once=AT_ONCE)


def _parts(
    order: tf.Tensor, files: RecordFiles, worker: int, workers: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """What a worker reads, of the records of all files one after another in this order.

    The worker-th of as many equal parts, so that only the files at its ends are read by others too.

    Returns:
        int64: numbers of files, and of each the records from where to before where.
    """
    total = sum(files.counts)
    low, high = (total * number // workers for number in (worker, worker + 1))
    counts = tf.gather(tf.constant(files.counts, tf.int64), order)
    before = tf.cumsum(counts, exclusive=True)
    begin = tf.clip_by_value(low - before, 0, counts)
    end = tf.clip_by_value(high - before, 0, counts)
    own = begin < end
    return order[own], begin[own], end[own]


def _read(
    files: RecordFiles, numbers: tf.Tensor, begin: tf.Tensor, end: tf.Tensor, at_once: int
) -> tf.data.Dataset:
    """Numbers of records in all files, and the records."""
    paths = tf.constant(files.paths)
    offsets = tf.cumsum(tf.constant(files.counts, tf.int64), exclusive=True)

    def of_file(number: tf.Tensor, begin: tf.Tensor, end: tf.Tensor) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(offsets[number] + begin, offsets[number] + end)
        return tf.data.Dataset.zip(numbers, tf.data.TFRecordDataset(paths[number]).skip(begin))

    parts = tf.data.Dataset.from_tensor_slices((numbers, begin, end))
    return parts.interleave(
        of_file,
        cycle_length=at_once,
        block_length=BLOCK,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _batches(
    key: tf.Tensor, rows: tuple[tf.Tensor, ...], batch_size: int, lengths: tf.Tensor | None
) -> tuple[tf.Tensor, ...]:
    """Rows `[N]` in batches `[N // B, B]`, shuffled; given lengths `[N]`, like ones together."""
    count = tf.size(rows[0]) // batch_size
    order = draws_graph.order(draws_graph.child(key, 0), tf.size(rows[0]))[: count * batch_size]
    if lengths is not None:
        order = tf.gather(order, tf.argsort(tf.gather(lengths, order), stable=True))
    order = tf.reshape(order, [count, batch_size])
    order = tf.gather(order, draws_graph.order(draws_graph.child(key, 1), count))
    return tuple(tf.gather(column, order) for column in rows)


def _finished(
    raw: tf.data.Dataset, files: RecordFiles, multiple: int | None, cardinality: Any
) -> tf.data.Dataset:
    inputs = raw.map(inputs_of(files, multiple), num_parallel_calls=tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.deterministic = True
    # The records are shared out here. tf.distribute would share out epochs.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    known = inputs.apply(tf.data.experimental.assert_cardinality(cardinality))
    return known.with_options(options).prefetch(tf.data.AUTOTUNE)
