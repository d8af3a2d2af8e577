"""Batches of pretraining examples, in an order that depends only on the seed and the epoch.

Reads records, shuffles them, and parses them into features and labels in the graph. A run can draw
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
from albert_tf.data.pretraining.options import IN_ORDER, SPECIAL_COUNT, SWAPPED
from albert_tf.data.pretraining.pairs import Pairs, swapped
from albert_tf.data.pretraining.sources import Path, RecordFiles, find_records, stored_records
from albert_tf.errors import UserError
from albert_tf.options import COUNT, NOT_NEGATIVE, check_number, checks_numbers
from albert_tf.tasks import (
    ATTENTION_MASK,
    IGNORED,
    INPUT_IDS,
    MASKED_LM_LABELS,
    MASKED_LM_POSITIONS,
    SENTENCE_ORDER_LABEL,
    TOKEN_TYPE_IDS,
    Feature,
)

FILES_AT_ONCE: Final = 64  # files to interleave, because build-data shuffles only within a file
BLOCK: Final = 16  # records read from a file before the next file's turn
CHECKED_AT_ONCE: Final = 256  # records
LENGTHS: Final = 8  # maximum number of lengths with `length_buckets`; each one is traced separately
_INVALID: Final = "Invalid pretraining record:"  # prefix of `_check`'s messages
_WAY_OUT: Final = "Copy the files again, or create them with albert-tf build-data."
# Messages about a record, from `_check` or TensorFlow.
_ABOUT_RECORDS: Final = re.compile(
    rf"{_INVALID} [^\]']+|Name: [^,]*, ((?:Key|Feature): .*?)\.?(?: \[Op:.*)?$|"
    r"Could not parse example|[Ee]xample serialized|serialized [Ee]xample|"
    r"(?:corrupted|truncated) record at \d+",
    re.MULTILINE,
)
Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]

# No condition or loop depends on a tensor, so tracing needs no AutoGraph and is faster without it.
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
    """Returns an infinite dataset of batches for `AlbertForPreTraining.fit`.

    In every epoch, the files are shuffled, 64 at a time are interleaved, and windows of records are
    shuffled. The order depends only on the seed and the epoch. Records from `build-data` are masked
    and swapped again in every epoch; the draws depend only on the seed, the epoch, and the record.
    An incomplete last batch is dropped.

    To resume, pass `start`, or restore a `tf.train.Checkpoint` of the iterator. To mask on other
    machines, apply `tf.data.experimental.service.distribute`. All workers need the files at the
    same path. With one worker per trainer and `ShardingPolicy.OFF`, the batches and their order
    don't change. With several workers, use `ShardingPolicy.DYNAMIC`: they process different epochs,
    and their batches arrive in any order.

    `AlbertForMaskedLM` rejects the sentence-order label. Drop the label with `batches.map(lambda
    features, labels: (features, labels["labels"]))`.

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
        source: one or more `build-data` directories, paths or globs of files written by the
            original code, or the result of `find_records`.
        batch_size: number of examples in a batch, B.
        seed: seed for the order, the masks, and the swaps.
        start: number of batches to skip when a run resumes. Skipped batches are neither parsed nor
            masked, and skipped epochs aren't read at all.
        part: `(index, count)`, the index of this host and the number of hosts. Each host gets a
            different `1/count` of every global batch. The examples in a global batch don't depend
            on `count`.
        shuffle_records: number of records in a window, rounded down to full batches.
        length_buckets: whether to group examples of similar lengths within a window, and to pad
            them only to the longest one in the batch, rounded up to a multiple of
            `max_seq_length / 8`.
    Returns:
        int32 features and labels, named as in `albert_tf.tasks`. Without `length_buckets`, T is
        `max_seq_length`. An epoch has `find_records(source).steps_per_epoch(batch_size)` batches.
    Raises:
        UserError: see `find_records`; or there are too few records, or an argument is out of range.
    """
    files = source if isinstance(source, RecordFiles) else find_records(source)
    index, count = part
    for number in part:
        check_number("part", number, NOT_NEGATIVE)
    if not 0 <= index < count or batch_size % count:
        raise UserError(
            "part must be (index, count) with 0 <= index < count, and count must divide "
            f"batch_size. Received: part={part}, batch_size={batch_size}."
        )
    share = slice(index * batch_size // count, (index + 1) * batch_size // count)
    steps = files.steps_per_epoch(batch_size)
    first, skipped = divmod(start, steps)
    in_window = max(1, shuffle_records // batch_size)

    @traced_as_written
    def batches_of(epoch: tf.Tensor) -> tf.data.Dataset:
        key = _child(rng.key(seed, "order"), epoch)
        records = _read(files, _order(_child(key, 0), len(files.paths)), FILES_AT_ONCE)

        def shuffle(number: tf.Tensor, window: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
            lengths = row_lengths(files, window[1]) if length_buckets else None
            return _shuffle(_child(key, 1, number), window, batch_size, lengths)

        skip = tf.where(epoch == first, tf.constant(skipped, tf.int64), 0)
        windows = records.batch(in_window * batch_size).enumerate().skip(skip // in_window)
        batches = windows.map(shuffle).prefetch(1).unbatch()
        batches = batches.skip(skip % in_window).take(steps - skip)
        return batches.map(
            lambda numbers, records: (_keys(seed, epoch, numbers[share]), records[share])
        )

    raw = tf.data.Dataset.range(first, tf.int64.max).flat_map(batches_of)
    multiple = max(1, files.max_seq_length // LENGTHS) if length_buckets else None
    return _parse(raw, files, multiple, tf.data.INFINITE_CARDINALITY)


@checks_numbers(batch_size=COUNT, seed=NOT_NEGATIVE)
def evaluation_batches(
    source: Path | Sequence[Path] | RecordFiles, batch_size: int, seed: int = 0
) -> tf.data.Dataset:
    """Returns a dataset that yields each example once, in file order, with masks that never change.

    Args:
        source, batch_size: see `pretraining_batches`. The last batch may be smaller.
        seed: seed for the masks.
    """
    files = source if isinstance(source, RecordFiles) else find_records(source)
    records = _read(files, tf.range(len(files.paths)), files_at_once=1)
    raw = records.batch(batch_size).map(
        lambda numbers, records: (_keys(seed, tf.constant(0), numbers), records)
    )
    return _parse(raw, files, None, -(-sum(files.counts) // batch_size))


def mixed_batches(
    sources: Sequence[RecordFiles], batch_size: int, seed: int, start: int, part: tuple[int, int]
) -> tf.data.Dataset:
    """Returns an infinite dataset that takes a batch from each source in turn.

    Args:
        start: number of batches to skip when a run resumes.
        part: see `pretraining_batches`.
    Returns:
        Features and labels. T and P depend on the source of the batch.
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
    """Returns how many of the first `steps` batches come from each source."""
    return [(steps + sources - 1 - number) // sources for number in range(sources)]


@contextlib.contextmanager
def whole_records(*sources: RecordFiles) -> Iterator[None]:
    """Turns an error about a record into a `UserError` that names the record and its file.

    Args:
        *sources: the files that are read within the block.
    """
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        if _ABOUT_RECORDS.search(error.message):
            _check_records(sources)
        raise
    except UnicodeDecodeError:  # TensorFlow's message quotes a record that isn't an example
        _check_records(sources)
        raise


def _check_records(sources: Sequence[RecordFiles]) -> None:
    """Reads all records again in file order, and raises an error for the first invalid record."""
    for files in sources:
        for path in files.paths:
            numbered = enumerate(stored_records(path))
            while batch := list(itertools.islice(numbered, CHECKED_AT_ONCE)):
                if not _fault([record for _, record in batch], files):
                    continue
                for number, record in batch:
                    if fault := _fault([record], files):
                        raise UserError(f"{fault} (record {number} of {path}). {_WAY_OUT}")


def _fault(records: list[bytes], files: RecordFiles) -> str | None:
    """Returns what is wrong with the first invalid record, or None if all are valid."""
    keys = tf.zeros([len(records)], tf.uint64)
    parse = dynamic_batch if files.dynamic else static_batch
    try:
        parse(keys, tf.constant(records), files, None)
    except tf.errors.InvalidArgumentError as error:
        fault = _ABOUT_RECORDS.search(error.message)
        if fault and fault[0].startswith(_INVALID):
            return fault[0]
        received = fault[1] if fault and fault[1] else "no tf.train.Example"
    except UnicodeDecodeError:
        received = "no tf.train.Example"
    else:
        return None
    return f"{_INVALID} examples must be complete and of the same size. Received: {received}"


def _child(key: Any, *numbers: Any) -> tf.Tensor:
    return rng.fold_in(key, *numbers, xp=tf_ops)


def _order(key: tf.Tensor, count: Any) -> tf.Tensor:
    """Returns a permutation of the numbers below `count`, drawn with `key`: int32 `[count]`."""
    return tf_ops.argsort(rng.uniform(key[None], 0, tf.range(count), tf_ops))[0]


def _keys(seed: int, epoch: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """Returns the random keys for masking records: uint64 `[B]`."""
    return _child(rng.key(seed, "masks"), epoch, numbers)


def _read(files: RecordFiles, order: tf.Tensor, files_at_once: int) -> tf.data.Dataset:
    """Returns a dataset of `(index, record)` from the files in this order.

    The index counts records across all files.
    """
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


def _shuffle(
    key: tf.Tensor, window: tuple[tf.Tensor, ...], batch_size: int, lengths: tf.Tensor | None
) -> tuple[tf.Tensor, ...]:
    """Turns columns `[N]` into shuffled batches `[N // B, B]`.

    Args:
        lengths: `[N]`, the lengths by which examples are grouped into batches, or None.
    """
    count = tf.size(window[0]) // batch_size
    order = _order(_child(key, 0), tf.size(window[0]))[: count * batch_size]
    if lengths is not None:
        order = tf.gather(order, tf.argsort(tf.gather(lengths, order), stable=True))
    order = tf.reshape(order, [count, batch_size])
    order = tf.gather(order, _order(_child(key, 1), count))
    return tuple(tf.gather(column, order) for column in window)


def _parse(
    raw: tf.data.Dataset, files: RecordFiles, multiple: int | None, cardinality: Any
) -> tf.data.Dataset:
    """Parses keys and serialized records into features and labels.

    Args:
        multiple: examples are padded to the length of the longest one in the batch, rounded up to
            a multiple of this number. If it is None, they are padded to `max_seq_length`.
    """
    parse: Callable[..., Batch] = dynamic_batch if files.dynamic else static_batch
    inputs = raw.map(
        lambda keys, records: parse(keys, records, files, multiple),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    options = tf.data.Options()
    options.deterministic = True
    # Autotuning gains nothing, and can delay the end of an iterator by a minute on one core.
    options.autotune.enabled = False
    # Each host has already taken its share of every batch, so tf.distribute must not shard.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    known = inputs.apply(tf.data.experimental.assert_cardinality(cardinality))
    return known.with_options(options).prefetch(tf.data.AUTOTUNE)


def _check(values: tf.Tensor, holds: tf.Tensor, rule: str, received: tf.Tensor) -> tf.Tensor:
    """Returns `values`, or fails if `holds` is False anywhere; see `whole_records`."""
    text = tf.strings.format(f"{_INVALID} {rule}. Received: {{}}", received)
    # Later operations must wait for the check, or they fail first with a less helpful message.
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(holds), [text], summarize=1)]):
        return tf.identity(values)


def _in_range(name: str, values: tf.Tensor, limit: int) -> tf.Tensor:
    low, high = tf.reduce_min(values), tf.reduce_max(values)
    empty = tf.equal(tf.size(values), 0)
    worst = tf.where(low < 0, low, high)
    rule = f"{name} must be from 0 to {limit - 1}"
    return _check(values, empty | ((low >= 0) & (high < limit)), rule, worst)


def row_lengths(files: RecordFiles, records: tf.Tensor) -> tf.Tensor:
    """Returns the length of each serialized record, for sorting only: int64 `[N]`."""
    if not files.dynamic:
        row = tf.io.FixedLenFeature([files.max_seq_length], tf.int64)
        return tf.reduce_sum(
            tf.io.parse_example(records, {"input_mask": row})["input_mask"], axis=1
        )
    first, second, _ = _segments(records)
    return first.row_lengths() + second.row_lengths()


def _segments(records: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Parses records from `build-data`: two segments, int64 `[B, …]`, and labels `[B]`."""
    segment = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    label = tf.io.FixedLenFeature([1], tf.int64)
    parsed = tf.io.parse_example(
        records, {"segment_a": segment, "segment_b": segment, "next_sentence_labels": label}
    )
    for name in ("segment_a", "segment_b"):  # a missing segment is parsed as an empty one
        ragged = parsed[name]
        shortest = tf.reduce_min(ragged.row_lengths())
        values = _check(ragged.values, shortest > 0, f"{name} must contain tokens", shortest)
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
    tokens = tf.cast(_in_range("segment_a and segment_b", ids, known), tf.int32)
    offset = tf.size(first.values, tf.int64)
    pairs = Pairs(keys, _bounds(first), _bounds(second) + offset, labels)
    if files.dynamic.pair_task == "sop":
        pairs = swapped(pairs, tf_ops)
    lengths = first.row_lengths() + second.row_lengths() + SPECIAL_COUNT
    longest = tf.reduce_max(lengths)
    rule = f"an example can have at most {files.max_seq_length} tokens"
    tokens = _check(tokens, longest <= files.max_seq_length, rule, longest)
    width = _width(lengths, files, multiple)
    rows = as_rows(pairs, tokens, files.table, width, tf_ops)
    masked = mask(rows, keys, files.table, files.dynamic, tf_ops)
    at, lengths = tf.range(tf.shape(rows.ids)[1]), rows.lengths[:, None]
    inputs = {
        INPUT_IDS: masked.ids,
        ATTENTION_MASK: at < lengths,
        TOKEN_TYPE_IDS: (at >= rows.first[:, None]) & (at < lengths),
        MASKED_LM_POSITIONS: masked.positions,
    }
    targets = {MASKED_LM_LABELS: masked.labels, SENTENCE_ORDER_LABEL: pairs.labels}
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
    rule = "masked_lm_weights must be finite and non-negative"
    weights = _check(weights, is_number, rule, tf.reduce_min(weights))
    width = _width(tf.reduce_sum(parsed["input_mask"], axis=1), files, multiple)
    inputs = {
        INPUT_IDS: parsed["input_ids"][:, :width],
        ATTENTION_MASK: parsed["input_mask"][:, :width],
        TOKEN_TYPE_IDS: parsed["segment_ids"][:, :width],
        MASKED_LM_POSITIONS: parsed["masked_lm_positions"],
    }
    is_label = weights > 0
    targets = {
        MASKED_LM_LABELS: tf.where(is_label, parsed["masked_lm_ids"], IGNORED),
        SENTENCE_ORDER_LABEL: _label(parsed["next_sentence_labels"]),
    }
    return _batch(inputs), _batch(targets)


def _label(labels: tf.Tensor) -> tf.Tensor:
    """Checks the labels `[B, 1]`, and returns them as `[B]`."""
    known = (labels == IGNORED) | (labels == IN_ORDER) | (labels == SWAPPED)
    rule = f"next_sentence_labels must be {IN_ORDER}, {SWAPPED}, or {IGNORED}"
    worst = tf.reduce_max(tf.where(known, tf.int64.min, labels))
    return _check(labels, known, rule, worst)[:, 0]


def _bounds(segments: tf.RaggedTensor) -> tf.Tensor:
    """Returns the start and end of each row in the flat values: int64 `[B, 2]`."""
    return tf.stack([segments.row_starts(), segments.row_limits()], axis=1)


def _width(lengths: tf.Tensor, files: RecordFiles, multiple: int | None) -> Any:
    """Returns T for a batch of examples with these lengths; for `multiple`, see `_parse`."""
    if multiple is None:
        return files.max_seq_length
    longest = tf.cast(tf.reduce_max(lengths), tf.int32)
    return tf.minimum(-(-longest // multiple) * multiple, files.max_seq_length)


def _batch(columns: dict[Feature, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {feature.name: tf.cast(column, feature.dtype) for feature, column in columns.items()}
