"""Batches of pretraining examples, in an order that is a pure function of seed and epoch."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf

from albert_tf.data import features
from albert_tf.data.pretraining import arrays_graph, draws
from albert_tf.data.pretraining.masking import as_rows, mask
from albert_tf.data.pretraining.options import SPECIAL_COUNT
from albert_tf.data.pretraining.pairs import NO_LABEL, Pairs, swapped
from albert_tf.data.pretraining.sources import Path, RecordFiles, find_records
from albert_tf.errors import UserError

FILES_AT_ONCE: Final = 64  # files that are interleaved: build-data shuffles within a file only
BLOCK: Final = 16  # records that are read from a file before the next one's turn
LENGTHS: Final = 8  # most lengths of batches with `length_buckets`, so that few shapes are traced
_SWAP: Final = 0  # a stream of draws, besides those of `masking`
Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]

# No condition or loop below depends on a tensor: without AutoGraph, tracing is quicker.
_traced_as_written = tf.autograph.experimental.do_not_convert


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
    """Batches for `fit` of `AlbertForPreTraining` or `AlbertForMaskedLM`, without end.

    In every epoch the files come in another order, `FILES_AT_ONCE` of them are interleaved, and
    windows of records are shuffled. Dynamic records are masked and swapped anew, by draws that
    depend on the seed, the epoch and the record alone. A smaller last batch is dropped.

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
        worker, workers: number of this reader, and how many there are. In each epoch they divide
            the records among them; all get equally many batches.
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

    @_traced_as_written
    def batches_of(epoch: tf.Tensor) -> tf.data.Dataset:
        key = _child(draws.key(seed, "order"), epoch)
        order = _order(_child(key, 0), len(files.paths))
        records = _read(files, *_ranges(order, files, worker, workers), FILES_AT_ONCE)

        def shuffled(number: tf.Tensor, window: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
            lengths = _lengths(files, window[1]) if length_buckets else None
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

    @_traced_as_written
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
    parse: Callable[..., Batch] = _dynamic if files.dynamic else _static
    inputs = raw.map(
        lambda keys, records: parse(keys, records, files, multiple),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    options = tf.data.Options()
    options.deterministic = True
    # Workers divide the records above. tf.distribute would divide epochs.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    known = inputs.apply(tf.data.experimental.assert_cardinality(cardinality))
    return known.with_options(options).prefetch(tf.data.AUTOTUNE)


def _lengths(files: RecordFiles, records: tf.Tensor) -> tf.Tensor:
    """int64 `[N]`: the number of pieces of serialized records, up to a constant."""
    if not files.dynamic:
        row = tf.io.FixedLenFeature([files.max_seq_length], tf.int64)
        return tf.reduce_sum(
            tf.io.parse_example(records, {"input_mask": row})["input_mask"], axis=1
        )
    first, second, _ = _segments(records)
    return first.row_lengths() + second.row_lengths()


def _segments(records: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Both segments of dynamic records, int64 `[B, …]`, and their labels `[B]`."""
    segment = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    label = tf.io.FixedLenFeature([1], tf.int64)
    parsed = tf.io.parse_example(
        records, {"segment_a": segment, "segment_b": segment, "next_sentence_labels": label}
    )
    return parsed["segment_a"], parsed["segment_b"], parsed["next_sentence_labels"][:, 0]


@_traced_as_written
def _dynamic(
    keys: tf.Tensor, records: tf.Tensor, files: RecordFiles, multiple: int | None
) -> Batch:
    assert files.dynamic
    assert files.table
    first, second, labels = _segments(records)
    pieces = tf.cast(tf.concat([first.values, second.values], 0), tf.int32)
    offset = tf.size(first.values, tf.int64)
    pairs = Pairs(keys, _bounds(first), _bounds(second) + offset, labels)
    if files.dynamic.pair_task == "sop":
        pairs = swapped(pairs, _SWAP, arrays_graph)
    lengths = first.row_lengths() + second.row_lengths() + SPECIAL_COUNT
    width = _width(lengths, files, multiple)
    rows = as_rows(pairs, pieces, files.table, width, arrays_graph)
    masked = mask(rows, keys, files.table, files.dynamic, arrays_graph)
    at, lengths = tf.range(tf.shape(rows.ids)[1]), rows.lengths[:, None]
    inputs = {
        features.INPUT_IDS: masked.ids,
        features.ATTENTION_MASK: at < lengths,
        features.TOKEN_TYPE_IDS: (at >= rows.first[:, None]) & (at < lengths),
        features.MASKED_LM_POSITIONS: masked.positions,
    }
    is_label = tf.range(files.predictions) < masked.counts[:, None]
    targets = {
        features.MASKED_LM_LABELS: tf.where(is_label, masked.labels, NO_LABEL),
        features.SENTENCE_ORDER_LABEL: pairs.labels,
    }
    return _batch(inputs), _batch(targets)


@_traced_as_written
def _static(keys: tf.Tensor, records: tf.Tensor, files: RecordFiles, multiple: int | None) -> Batch:
    row = tf.io.FixedLenFeature([files.max_seq_length], tf.int64)
    prediction = tf.io.FixedLenFeature([files.predictions], tf.int64)
    parsed = tf.io.parse_example(
        records,
        {
            **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), row),
            **dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), prediction),
            "masked_lm_weights": tf.io.FixedLenFeature([files.predictions], tf.float32),
            "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
        },
    )
    width = _width(tf.reduce_sum(parsed["input_mask"], axis=1), files, multiple)
    inputs = {
        features.INPUT_IDS: parsed["input_ids"][:, :width],
        features.ATTENTION_MASK: parsed["input_mask"][:, :width],
        features.TOKEN_TYPE_IDS: parsed["segment_ids"][:, :width],
        features.MASKED_LM_POSITIONS: parsed["masked_lm_positions"],
    }
    is_label = parsed["masked_lm_weights"] > 0
    targets = {
        features.MASKED_LM_LABELS: tf.where(is_label, parsed["masked_lm_ids"], NO_LABEL),
        features.SENTENCE_ORDER_LABEL: parsed["next_sentence_labels"][:, 0],
    }
    return _batch(inputs), _batch(targets)


def _bounds(segments: tf.RaggedTensor) -> tf.Tensor:
    """int64 `[B, 2]`: begin and end of each row in the values."""
    return tf.stack([segments.row_starts(), segments.row_limits()], axis=1)


def _width(lengths: tf.Tensor, files: RecordFiles, multiple: int | None) -> Any:
    """T of a batch of examples with these lengths."""
    if multiple is None:
        return files.max_seq_length
    longest = tf.cast(tf.reduce_max(lengths), tf.int32)
    return tf.minimum(-(-longest // multiple) * multiple, files.max_seq_length)


def _batch(columns: dict[features.Feature, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {feature.name: tf.cast(column, feature.dtype) for feature, column in columns.items()}
