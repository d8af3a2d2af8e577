"""Batches of pretraining examples, in an order that is a pure function of seed and epoch.

Reads records, shuffles them, and parses them in the graph to features and labels. A run may take
its batches from several sets of records.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import tensorflow as tf

from albert_tf.data.pretraining import rng, tf_ops
from albert_tf.data.pretraining.masking import as_rows, mask
from albert_tf.data.pretraining.options import IN_ORDER, NO_LABEL, SPECIAL_COUNT, SWAPPED
from albert_tf.data.pretraining.pairs import Pairs, swapped
from albert_tf.data.pretraining.records import RULE
from albert_tf.data.pretraining.sources import (
    Path,
    RecordFiles,
    find_records,
    stored_records,
)
from albert_tf.errors import UserError
from albert_tf.options import COUNT, NOT_NEGATIVE, check_number, checks_numbers
from albert_tf.tasks import (
    ATTENTION_MASK,
    INPUT_IDS,
    MASKED_LM_LABELS,
    MASKED_LM_POSITIONS,
    SENTENCE_ORDER_LABEL,
    TOKEN_TYPE_IDS,
    Feature,
)

FILES_AT_ONCE: Final = 64  # files that are interleaved: build-data shuffles within a file only
BLOCK: Final = 16  # records that are read from a file before the next one's turn
CHECKED_AT_ONCE: Final = 256  # records
LENGTHS: Final = 8  # most lengths of batches with `length_buckets`, so that few shapes are traced
_WAY_OUT: Final = "Make them with albert-tf build-data, or copy them again."
# Messages about a record: those of `_checked`, and TensorFlow's.
_ABOUT_RECORDS: Final = re.compile(
    rf"{RULE} [^\]']+|Name: [^,]*, ((?:Key|Feature): .*?)\.?(?: \[Op:.*)?$|"
    r"Could not parse example|[Ee]xample serialized|serialized [Ee]xample|"
    r"(?:corrupted|truncated) record at \d+",
    re.MULTILINE,
)
Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]

# No condition or loop depends on a tensor: without AutoGraph, tracing is quicker.
traced_as_written = tf.autograph.experimental.do_not_convert


@checks_numbers(batch_size=COUNT, seed=NOT_NEGATIVE, start=NOT_NEGATIVE, shuffle_records=COUNT)
def pretraining_batches(
    source: Path | Sequence[Path] | RecordFiles,
    batch_size: int,
    seed: int = 0,
    start: int = 0,
    *,
    part: tuple[int, int] = (0, 1),
    shuffle_records: int = 10_000,
    length_buckets: bool = False,
) -> tf.data.Dataset:
    """Returns batches for `fit` of `AlbertForPreTraining`, without end.

    `AlbertForMaskedLM` refuses the sentence order's label, so give it
    `batches.map(lambda features, labels: (features, labels["labels"]))`. In every epoch the files
    come in another order, `FILES_AT_ONCE` of them are interleaved, and windows of records are
    shuffled. Records of `build-data` are masked and swapped anew, by draws that depend on the seed,
    the epoch and the record alone. A smaller last batch is dropped.

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
        source: one or several directories of `build-data`, paths or globs of the original code's
            files, or the result of `find_records`.
        batch_size: examples in a batch, B.
        start: number of batches to skip, to resume a run: they are neither parsed nor masked, and
            whole epochs are not read.
        part: `(index, count)`: yields slice `index` of the `count` equal slices of each batch, for
            hosts that train on one batch together. The examples don't depend on `count`.
        shuffle_records: size of a window, rounded down to full batches.
        length_buckets: groups examples of similar lengths within a window, and pads them to the
            longest of a batch, rounded up to an eighth of `max_seq_length`.
    Returns:
        Features and labels (`albert_tf.tasks` has their names), int32: T is `max_seq_length`
        without `length_buckets`. `find_records(source).steps_per_epoch` is the length of an epoch.
    Raises:
        UserError: an error of `find_records`; too few records; an argument out of its range.
    """
    files = source if isinstance(source, RecordFiles) else find_records(source)
    index, count = part
    for number in part:
        check_number("part", number, NOT_NEGATIVE)
    if not 0 <= index < count or batch_size % count:
        raise UserError(
            "part must be (index, count) with an index in [0, count), and batch_size a multiple of "
            f"count. Received: part={part}, batch_size={batch_size}."
        )
    own = slice(index * batch_size // count, (index + 1) * batch_size // count)
    steps = files.steps_per_epoch(batch_size)
    first, skipped = divmod(start, steps)
    in_window = max(1, shuffle_records // batch_size)

    @traced_as_written
    def batches_of(epoch: tf.Tensor) -> tf.data.Dataset:
        key = _child(rng.key(seed, "order"), epoch)
        records = _read(files, _order(_child(key, 0), len(files.paths)), FILES_AT_ONCE)

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
    return _parsed(raw, files, multiple, tf.data.INFINITE_CARDINALITY)


@checks_numbers(batch_size=COUNT, seed=NOT_NEGATIVE)
def evaluation_batches(
    source: Path | Sequence[Path] | RecordFiles, batch_size: int, seed: int = 0
) -> tf.data.Dataset:
    """Returns every example once, in the files' order and with the same masks each time.

    Args:
        source, batch_size: as for `pretraining_batches`; the last batch may be smaller.
        seed: seed of the masks.
    """
    files = source if isinstance(source, RecordFiles) else find_records(source)
    records = _read(files, tf.range(len(files.paths)), files_at_once=1)
    raw = records.batch(batch_size).map(
        lambda numbers, records: (_keys(seed, tf.constant(0), numbers), records)
    )
    return _parsed(raw, files, None, -(-sum(files.counts) // batch_size))


def mixed_batches(
    sources: Sequence[RecordFiles], batch_size: int, seed: int, start: int, part: tuple[int, int]
) -> tf.data.Dataset:
    """Yields batches without end, from one source after another.

    Args:
        start: number of batches to skip, to resume a run.
        part: as for `pretraining_batches`.
    Returns:
        Features and labels; T and P are those of the batch's source.
    """
    begin = batches_per_source(len(sources), start)
    datasets = [
        pretraining_batches(source, batch_size, seed + number, begin[number], part=part)
        for number, source in enumerate(sources)
    ]
    if len(datasets) == 1:
        return datasets[0]
    turns = tf.data.Dataset.range(start, tf.int64.max).map(lambda step: step % len(sources))
    return tf.data.Dataset.choose_from_datasets(datasets, turns)


def batches_per_source(sources: int, steps: int) -> list[int]:
    """Returns the number of batches of each source among the first `steps` batches."""
    return [(steps + sources - 1 - number) // sources for number in range(sources)]


@contextlib.contextmanager
def whole_records(*sources: RecordFiles) -> Iterator[None]:
    """Turns an error about a record into a `UserError` that names the record and its file.

    Args:
        *sources: the files that the block reads.
    """
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        if _ABOUT_RECORDS.search(error.message):
            _check_records(sources)
        raise
    except UnicodeDecodeError:  # TensorFlow quotes a record that isn't an example
        _check_records(sources)
        raise


def _check_records(sources: Sequence[RecordFiles]) -> None:
    """Reads all records again, in the order of the files.

    Raises:
        UserError: names the first record that can't be parsed.
    """
    for files in sources:
        for path in files.paths:
            numbered = enumerate(stored_records(path))
            while batch := list(itertools.islice(numbered, CHECKED_AT_ONCE)):
                if not _fault([record for _, record in batch], files):
                    continue
                for number, record in batch:
                    if fault := _fault([record], files):
                        raise UserError(f"{fault}, in record {number} of {path}. {_WAY_OUT}")


def _fault(records: list[bytes], files: RecordFiles) -> str | None:
    """Returns what is wrong with one of the records, or None."""
    keys = tf.zeros([len(records)], tf.uint64)
    parse = dynamic_batch if files.dynamic else static_batch
    try:
        parse(keys, tf.constant(records), files, None)
    except tf.errors.InvalidArgumentError as error:
        fault = _ABOUT_RECORDS.search(error.message)
        if fault and fault[0].startswith(RULE):
            return fault[0]
        received = fault[1] if fault and fault[1] else "no tf.train.Example"
    except UnicodeDecodeError:
        received = "no tf.train.Example"
    else:
        return None
    return f"{RULE} whole examples for pretraining, all of one size. Received: {received}"


def _child(key: Any, *numbers: Any) -> tf.Tensor:
    return rng.fold_in(key, *numbers, xp=tf_ops)


def _order(key: tf.Tensor, count: Any) -> tf.Tensor:
    """Returns the numbers below `count` in an order that `key` decides: int32 `[count]`."""
    return tf_ops.argsort(rng.uniform(key[None], 0, tf.range(count), tf_ops))[0]


def _keys(seed: int, epoch: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """Returns the keys of the draws for records: uint64 `[B]`."""
    return _child(rng.key(seed, "masks"), epoch, numbers)


def _read(files: RecordFiles, order: tf.Tensor, files_at_once: int) -> tf.data.Dataset:
    """Returns the records of files in this order, with their numbers, counted over all files."""
    paths, counts = tf.constant(files.paths), tf.constant(files.counts, tf.int64)
    ends = tf.cumsum(counts)

    @traced_as_written
    def of_file(file: tf.Tensor) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(ends[file] - counts[file], ends[file])
        return tf.data.Dataset.zip(numbers, tf.data.TFRecordDataset(paths[file]))

    full = tf.boolean_mask(order, tf.gather(counts, order) > 0)
    return tf.data.Dataset.from_tensor_slices(full).interleave(
        of_file,
        cycle_length=files_at_once,
        block_length=BLOCK,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _shuffled(
    key: tf.Tensor, window: tuple[tf.Tensor, ...], batch_size: int, lengths: tf.Tensor | None
) -> tuple[tf.Tensor, ...]:
    """Turns columns `[N]` into shuffled batches `[N // B, B]`, sorted by lengths `[N]` if given."""
    count = tf.size(window[0]) // batch_size
    order = _order(_child(key, 0), tf.size(window[0]))[: count * batch_size]
    if lengths is not None:
        order = tf.gather(order, tf.argsort(tf.gather(lengths, order), stable=True))
    order = tf.reshape(order, [count, batch_size])
    order = tf.gather(order, _order(_child(key, 1), count))
    return tuple(tf.gather(column, order) for column in window)


def _parsed(
    raw: tf.data.Dataset, files: RecordFiles, multiple: int | None, cardinality: Any
) -> tf.data.Dataset:
    """Parses keys and serialized records to features and labels.

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
    # Hosts divide each batch above. tf.distribute would divide epochs.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    known = inputs.apply(tf.data.experimental.assert_cardinality(cardinality))
    return known.with_options(options).prefetch(tf.data.AUTOTUNE)


def _checked(values: tf.Tensor, holds: tf.Tensor, rule: str, received: tf.Tensor) -> tf.Tensor:
    """Returns `values` if `holds` is true everywhere; otherwise raises for `whole_records`."""
    text = tf.strings.format(f"{RULE} examples for pretraining: {rule}. Received: {{}}", received)
    # Later operations must wait for the check: they would fail too, in other words.
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(holds), [text], summarize=1)]):
        return tf.identity(values)


def _in_range(name: str, values: tf.Tensor, limit: int) -> tf.Tensor:
    low, high = tf.reduce_min(values), tf.reduce_max(values)
    empty = tf.equal(tf.size(values), 0)
    worst = tf.where(low < 0, low, high)
    rule = f"{name} must be from 0 to {limit - 1}"
    return _checked(values, empty | ((low >= 0) & (high < limit)), rule, worst)


def row_lengths(files: RecordFiles, records: tf.Tensor) -> tf.Tensor:
    """Returns the lengths of serialized records in tokens, up to a constant: int64 `[N]`."""
    if not files.dynamic:
        row = tf.io.FixedLenFeature([files.max_seq_length], tf.int64)
        return tf.reduce_sum(
            tf.io.parse_example(records, {"input_mask": row})["input_mask"], axis=1
        )
    first, second, _ = _segments(records)
    return first.row_lengths() + second.row_lengths()


def _segments(records: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Returns both segments of `build-data`'s records, int64 `[B, …]`, and their labels `[B]`."""
    segment = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    label = tf.io.FixedLenFeature([1], tf.int64)
    parsed = tf.io.parse_example(
        records, {"segment_a": segment, "segment_b": segment, "next_sentence_labels": label}
    )
    for name in ("segment_a", "segment_b"):  # a missing segment is parsed as an empty one
        ragged = parsed[name]
        shortest = tf.reduce_min(ragged.row_lengths())
        values = _checked(ragged.values, shortest > 0, f"{name} must have pieces", shortest)
        parsed[name] = ragged.with_values(values)
    labels = _label(parsed["next_sentence_labels"])
    return parsed["segment_a"], parsed["segment_b"], labels


@traced_as_written
def dynamic_batch(
    keys: tf.Tensor, records: tf.Tensor, files: RecordFiles, multiple: int | None
) -> Batch:
    assert files.dynamic
    assert files.table
    first, second, labels = _segments(records)
    known = min(files.vocab_size, len(files.table.starts))
    ids = tf.concat([first.values, second.values], 0)
    pieces = tf.cast(_in_range("segment_a and segment_b", ids, known), tf.int32)
    offset = tf.size(first.values, tf.int64)
    pairs = Pairs(keys, _bounds(first), _bounds(second) + offset, labels)
    if files.dynamic.pair_task == "sop":
        pairs = swapped(pairs, tf_ops)
    lengths = first.row_lengths() + second.row_lengths() + SPECIAL_COUNT
    longest = tf.reduce_max(lengths)
    rule = f"a row must have at most {files.max_seq_length} pieces"
    pieces = _checked(pieces, longest <= files.max_seq_length, rule, longest)
    width = _width(lengths, files, multiple)
    rows = as_rows(pairs, pieces, files.table, width, tf_ops)
    masked = mask(rows, keys, files.table, files.dynamic, tf_ops)
    at, lengths = tf.range(tf.shape(rows.ids)[1]), rows.lengths[:, None]
    inputs = {
        INPUT_IDS: masked.ids,
        ATTENTION_MASK: at < lengths,
        TOKEN_TYPE_IDS: (at >= rows.first[:, None]) & (at < lengths),
        MASKED_LM_POSITIONS: masked.positions,
    }
    is_label = tf.range(files.predictions) < masked.counts[:, None]
    targets = {
        MASKED_LM_LABELS: tf.where(is_label, masked.labels, NO_LABEL),
        SENTENCE_ORDER_LABEL: pairs.labels,
    }
    return _batch(inputs), _batch(targets)


@traced_as_written
def static_batch(
    keys: tf.Tensor, records: tf.Tensor, files: RecordFiles, multiple: int | None
) -> Batch:
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
    limits = {
        **dict.fromkeys(("input_ids", "masked_lm_ids"), files.vocab_size),
        **dict.fromkeys(("input_mask", "segment_ids"), 2),
        "masked_lm_positions": files.max_seq_length,
    }
    parsed |= {name: _in_range(name, parsed[name], limit) for name, limit in limits.items()}
    weights = parsed["masked_lm_weights"]
    is_number = (weights >= 0) & (weights < float("inf"))
    rule = "masked_lm_weights must be numbers, 0 or more"
    weights = _checked(weights, is_number, rule, tf.reduce_min(weights))
    width = _width(tf.reduce_sum(parsed["input_mask"], axis=1), files, multiple)
    inputs = {
        INPUT_IDS: parsed["input_ids"][:, :width],
        ATTENTION_MASK: parsed["input_mask"][:, :width],
        TOKEN_TYPE_IDS: parsed["segment_ids"][:, :width],
        MASKED_LM_POSITIONS: parsed["masked_lm_positions"],
    }
    is_label = weights > 0
    targets = {
        MASKED_LM_LABELS: tf.where(is_label, parsed["masked_lm_ids"], NO_LABEL),
        SENTENCE_ORDER_LABEL: _label(parsed["next_sentence_labels"]),
    }
    return _batch(inputs), _batch(targets)


def _label(labels: tf.Tensor) -> tf.Tensor:
    """Returns the only label of each record, `[B, 1]` to `[B]`."""
    known = (labels == NO_LABEL) | (labels == IN_ORDER) | (labels == SWAPPED)
    rule = f"next_sentence_labels must be {IN_ORDER}, {SWAPPED} or {NO_LABEL}"
    worst = tf.reduce_max(tf.where(known, tf.int64.min, labels))
    return _checked(labels, known, rule, worst)[:, 0]


def _bounds(segments: tf.RaggedTensor) -> tf.Tensor:
    """Returns the begin and end of each row in the values: int64 `[B, 2]`."""
    return tf.stack([segments.row_starts(), segments.row_limits()], axis=1)


def _width(lengths: tf.Tensor, files: RecordFiles, multiple: int | None) -> Any:
    """Returns T for a batch of examples with these lengths."""
    if multiple is None:
        return files.max_seq_length
    longest = tf.cast(tf.reduce_max(lengths), tf.int32)
    return tf.minimum(-(-longest // multiple) * multiple, files.max_seq_length)


def _batch(columns: dict[Feature, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {feature.name: tf.cast(column, feature.dtype) for feature, column in columns.items()}
