"""Batches of pretraining examples, in an order that is a pure function of seed and epoch."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf

from albert_tf.data.pretraining import arrays_graph, draws
from albert_tf.data.pretraining.parsing import (
    Batch,
    dynamic_batch,
    row_lengths,
    static_batch,
    traced_as_written,
)
from albert_tf.data.pretraining.sources import Path, RecordFiles, find_records
from albert_tf.errors import UserError

FILES_AT_ONCE: Final = 64  # files that are interleaved: build-data shuffles within a file only
BLOCK: Final = 16  # records that are read from a file before the next one's turn
LENGTHS: Final = 8  # most lengths of batches with `length_buckets`, so that few shapes are traced


def pretraining_batches(
    source: Path | Sequence[Path] | RecordFiles,
    batch_size: int,
    seed: int = 0,
    start: int = 0,
    *,
    worker: int = 0,
    workers: int = 1,
    part: tuple[int, int] = (0, 1),
    shuffle_records: int = 10_000,
    length_buckets: bool = False,
) -> tf.data.Dataset:
    """Batches for `fit` of `AlbertForPreTraining`, without end.

    `AlbertForMaskedLM` refuses the sentence order's label, so give it
    `batches.map(lambda features, labels: (features, labels["labels"]))`. In every epoch the files
    come in another order, `FILES_AT_ONCE` of them are interleaved, and windows of records are
    shuffled. Dynamic records are masked and swapped anew, by draws that depend on the seed, the
    epoch and the record alone. A smaller last batch is dropped.

    Example:

    >>> from pathlib import Path
    >>> import albert_tf
    >>> _ = Path("corpus.txt").write_text("A boat left. It was calm.\\n\\n" * 99)
    >>> _ = albert_tf.build_data(input="corpus.txt", output="examples", vocab="small", workers=1)
    >>> model = albert_tf.AlbertForPreTraining.from_pretrained("small")
    >>> model.compile(albert_tf.AlbertAdamW(1e-4))
    >>> batches = albert_tf.pretraining_batches("examples", batch_size=8, length_buckets=True)
    >>> _ = model.fit(batches, steps_per_epoch=2, verbose=0)

    Args:
        source: a directory of `build-data`, paths or globs of the original code's files, or the
            result of `find_records`.
        batch_size: examples in a batch of one worker, B.
        start: number of batches to skip, to resume a run: they are neither parsed nor masked, and
            whole epochs are not read.
        worker: number of this reader, from 0.
        workers: number of readers. In each epoch they divide the records among them; all get
            equally many batches.
        part: `(index, count)`: the one of `count` equal parts of each batch to mask and yield, for
            hosts that train on one batch together. Its examples don't depend on `count`.
        shuffle_records: size of a window, rounded down to full batches.
        length_buckets: groups examples of similar lengths within a window, and pads them to the
            longest of a batch, rounded up to an eighth of `max_seq_length`.
    Returns:
        Features and labels (`features.py` has their names), int32: T is `max_seq_length` without
        `length_buckets`. `find_records(source).steps_per_epoch` is the length of an epoch.
    Raises:
        UserError: an error of `find_records`; too few records; an argument out of its range.
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

    @traced_as_written
    def batches_of(epoch: tf.Tensor) -> tf.data.Dataset:
        key = _child(draws.key(seed, "order"), epoch)
        order = _order(_child(key, 0), len(files.paths))
        records = _read(files, *_ranges(order, files, worker, workers), FILES_AT_ONCE)

        def shuffled(number: tf.Tensor, window: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
            lengths = row_lengths(files, window[1]) if length_buckets else None
            return _shuffled(_child(key, 1, number), window, batch_size, lengths)

        skip = tf.where(epoch == first, tf.constant(skipped, tf.int64), 0)
        windows = records.batch(in_window * batch_size).enumerate().skip(skip // in_window)
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
        source, batch_size: as for `pretraining_batches`; the last batch may be smaller.
        seed: seed of the masks.
    """
    files = source if isinstance(source, RecordFiles) else find_records(source)
    _check(batch_size=(batch_size, 1), seed=(seed, 0))
    records = _read(files, *_ranges(tf.range(len(files.paths)), files, 0, 1), files_at_once=1)
    raw = records.batch(batch_size).map(
        lambda numbers, records: (_keys(seed, tf.constant(0), numbers), records)
    )
    return _finished(raw, files, None, -(-sum(files.counts) // batch_size))


def _check(**least: tuple[int, int]) -> None:
    for name, (value, lowest) in least.items():
        if value < lowest:
            raise UserError(f"{name} must be {lowest} or more. Received: {value}.")


def _child(key: Any, *numbers: Any) -> tf.Tensor:
    return draws.child(key, *numbers, xp=arrays_graph)


def _order(key: tf.Tensor, count: Any) -> tf.Tensor:
    """int32 `[count]`: the numbers below `count` in an order that `key`, a scalar, decides."""
    return arrays_graph.argsort(draws.uniform(key[None], 0, tf.range(count), arrays_graph))[0]


def _keys(seed: int, epoch: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """uint64 `[B]`: the keys of the draws for records."""
    return _child(draws.key(seed, "masks"), epoch, numbers)


def _ranges(
    order: tf.Tensor, files: RecordFiles, worker: int, workers: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The records of a worker, if all files are read one after another in this order.

    Each worker gets an equal range, so that it shares only the files at both ends with others.

    Returns:
        int64: numbers of files, and the range of records of each, begin and end.
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
    files: RecordFiles, numbers: tf.Tensor, begin: tf.Tensor, end: tf.Tensor, files_at_once: int
) -> tf.data.Dataset:
    """Records with their numbers, counted over all files."""
    paths = tf.constant(files.paths)
    offsets = tf.cumsum(tf.constant(files.counts, tf.int64), exclusive=True)

    @traced_as_written
    def of_file(number: tf.Tensor, begin: tf.Tensor, end: tf.Tensor) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(offsets[number] + begin, offsets[number] + end)
        return tf.data.Dataset.zip(numbers, tf.data.TFRecordDataset(paths[number]).skip(begin))

    ranges = tf.data.Dataset.from_tensor_slices((numbers, begin, end))
    return ranges.interleave(
        of_file,
        cycle_length=files_at_once,
        block_length=BLOCK,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _shuffled(
    key: tf.Tensor, window: tuple[tf.Tensor, ...], batch_size: int, lengths: tf.Tensor | None
) -> tuple[tf.Tensor, ...]:
    """Columns `[N]` as shuffled batches `[N // B, B]`, sorted by lengths `[N]` where given."""
    count = tf.size(window[0]) // batch_size
    order = _order(_child(key, 0), tf.size(window[0]))[: count * batch_size]
    if lengths is not None:
        order = tf.gather(order, tf.argsort(tf.gather(lengths, order), stable=True))
    order = tf.reshape(order, [count, batch_size])
    order = tf.gather(order, _order(_child(key, 1), count))
    return tuple(tf.gather(column, order) for column in window)


def _finished(
    raw: tf.data.Dataset, files: RecordFiles, multiple: int | None, cardinality: Any
) -> tf.data.Dataset:
    """Keys and serialized records as features and labels.

    Args:
        multiple: pads to the longest of a batch, rounded up to it; None pads to `max_seq_length`.
    """
    parse: Callable[..., Batch] = dynamic_batch if files.dynamic else static_batch
    inputs = raw.map(
        lambda keys, records: parse(keys, records, files, multiple),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    options = tf.data.Options()
    options.deterministic = True
    # tf.data's tuner gains nothing here; on one core an iterator's end waits for it up to a minute.
    options.autotune.enabled = False
    # Workers divide the records above. tf.distribute would divide epochs.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    known = inputs.apply(tf.data.experimental.assert_cardinality(cardinality))
    return known.with_options(options).prefetch(tf.data.AUTOTUNE)
