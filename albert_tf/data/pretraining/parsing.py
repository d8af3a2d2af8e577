"""Parses records in the graph: serialized examples become features and labels."""

from typing import Any, Final

import tensorflow as tf

from albert_tf.data import features
from albert_tf.data.pretraining import arrays_graph
from albert_tf.data.pretraining.masking import as_rows, mask
from albert_tf.data.pretraining.options import SPECIAL_COUNT
from albert_tf.data.pretraining.pairs import NO_LABEL, Pairs, swapped
from albert_tf.data.pretraining.sources import RecordFiles

_SWAP: Final = 0  # a stream of draws, besides those of `masking`
Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]

# No condition or loop depends on a tensor: without AutoGraph, tracing is quicker.
traced_as_written = tf.autograph.experimental.do_not_convert


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
    return parsed["segment_a"], parsed["segment_b"], parsed["next_sentence_labels"][:, 0]


@traced_as_written
def dynamic_batch(
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
