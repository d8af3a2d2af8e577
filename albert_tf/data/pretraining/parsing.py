"""Parses records in the graph: serialized examples become features and labels."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf

from albert_tf.data import features
from albert_tf.data.pretraining import arrays_graph
from albert_tf.data.pretraining.masking import as_rows, mask
from albert_tf.data.pretraining.options import SPECIAL_COUNT
from albert_tf.data.pretraining.pairs import IN_ORDER, NO_LABEL, SWAPPED, Pairs, swapped
from albert_tf.data.pretraining.records import RULE
from albert_tf.data.pretraining.sources import RecordFiles
from albert_tf.errors import UserError

_SWAP: Final = 0  # a stream of draws, besides those of `masking`
Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]

# No condition or loop depends on a tensor: without AutoGraph, tracing is quicker.
traced_as_written = tf.autograph.experimental.do_not_convert


# What TensorFlow says of a record that it can't parse.
_TENSORFLOWS: Final = re.compile(
    r"(?:Name|Key): .*|.*serialized [Ee]xample.*|corrupted record at \d+|truncated record at \d+"
)


@contextlib.contextmanager
def whole_records() -> Iterator[None]:
    """Turns errors of records while they are read into a `UserError`.

    `find_records` has looked at the first record of each file; those behind it may be others.
    """
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        ours = re.search(rf"{RULE} [^\]]+", error.message)
        if ours:
            raise UserError(ours[0]) from error
        if found := _TENSORFLOWS.search(error.message):
            raise UserError(
                f"{RULE} whole examples for pretraining, all of one size. Received: "
                f"{found[0]}. {_WAY_OUT}"
            ) from error
        raise


_WAY_OUT: Final = "Make them with albert-tf build-data, or copy them again."


def _checked(values: tf.Tensor, holds: tf.Tensor, rule: str, received: tf.Tensor) -> tf.Tensor:
    """`values`, if `holds` is true everywhere; otherwise an error that `whole_records` shows."""
    text = tf.strings.format(
        f"{RULE} examples for pretraining: {rule}. Received: {{}}. {_WAY_OUT}", received
    )
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
    for name in ("segment_a", "segment_b"):  # one that is missing is parsed as an empty one
        found = parsed[name]
        shortest = tf.reduce_min(found.row_lengths())
        values = _checked(found.values, shortest > 0, f"{name} must have pieces", shortest)
        parsed[name] = found.with_values(values)
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
        pairs = swapped(pairs, _SWAP, arrays_graph)
    lengths = first.row_lengths() + second.row_lengths() + SPECIAL_COUNT
    longest = tf.reduce_max(lengths)
    rule = f"a row must have at most {files.max_seq_length} pieces"
    pieces = _checked(pieces, longest <= files.max_seq_length, rule, longest)
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
        features.INPUT_IDS: parsed["input_ids"][:, :width],
        features.ATTENTION_MASK: parsed["input_mask"][:, :width],
        features.TOKEN_TYPE_IDS: parsed["segment_ids"][:, :width],
        features.MASKED_LM_POSITIONS: parsed["masked_lm_positions"],
    }
    is_label = weights > 0
    targets = {
        features.MASKED_LM_LABELS: tf.where(is_label, parsed["masked_lm_ids"], NO_LABEL),
        features.SENTENCE_ORDER_LABEL: _label(parsed["next_sentence_labels"]),
    }
    return _batch(inputs), _batch(targets)


def _label(labels: tf.Tensor) -> tf.Tensor:
    """The only label of each record, `[B, 1]` to `[B]`."""
    known = (labels == NO_LABEL) | (labels == IN_ORDER) | (labels == SWAPPED)
    rule = f"next_sentence_labels must be {IN_ORDER}, {SWAPPED} or {NO_LABEL}"
    worst = tf.reduce_max(tf.where(known, tf.int64.min, labels))
    return _checked(labels, known, rule, worst)[:, 0]


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
