"""Serialized records to what models take, a batch at a time, as TensorFlow's graph operators."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import tensorflow as tf

from albert_tf.data import features
from albert_tf.data.pretraining import draws_graph, masking_graph
from albert_tf.data.pretraining.masking import Rows
from albert_tf.data.pretraining.pairs import NO_LABEL
from albert_tf.data.pretraining.sources import RecordFiles

Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]
_SWAP: Final = 0  # a stream of draws, as those of `masking_graph`


def inputs_of(files: RecordFiles, multiple: int | None) -> Callable[[Any, Any], Batch]:
    """A function from keys uint64 `[B]` and serialized records `[B]` to features and labels.

    Args:
        files: where the records are from.
        multiple: pad to the longest of a batch, rounded up to it; None pads to `max_seq_length`.
    """

    def static(keys: tf.Tensor, records: tf.Tensor) -> Batch:
        return _static(records, files, multiple)

    def dynamic(keys: tf.Tensor, records: tf.Tensor) -> Batch:
        return _dynamic(keys, records, files, multiple)

    return dynamic if files.dynamic else static


def lengths_of(files: RecordFiles, records: tf.Tensor) -> tf.Tensor:
    """int64 `[N]`: how many pieces serialized records have, but for a constant."""
    if not files.dynamic:
        row = tf.io.FixedLenFeature([files.max_seq_length], tf.int64)
        return tf.reduce_sum(
            tf.io.parse_example(records, {"input_mask": row})["input_mask"], axis=1
        )
    segment = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    parsed = tf.io.parse_example(records, {"segment_a": segment, "segment_b": segment})
    return parsed["segment_a"].row_lengths() + parsed["segment_b"].row_lengths()


def _static(records: tf.Tensor, files: RecordFiles, multiple: int | None) -> Batch:
    row = tf.io.FixedLenFeature([files.max_seq_length], tf.int64)
    predictions = [files.predictions]
    parsed = tf.io.parse_example(
        records,
        {
            "input_ids": row,
            "input_mask": row,
            "segment_ids": row,
            "masked_lm_positions": tf.io.FixedLenFeature(predictions, tf.int64),
            "masked_lm_ids": tf.io.FixedLenFeature(predictions, tf.int64),
            "masked_lm_weights": tf.io.FixedLenFeature(predictions, tf.float32),
            "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
        },
    )
    counts = parsed["masked_lm_weights"] > 0
    if multiple:
        width = _width(tf.reduce_sum(parsed["input_mask"], axis=1), multiple, files)
        for name in ("input_ids", "input_mask", "segment_ids"):
            parsed[name] = parsed[name][:, :width]
    return _batch(
        {
            features.INPUT_IDS.name: parsed["input_ids"],
            features.ATTENTION_MASK.name: parsed["input_mask"],
            features.TOKEN_TYPE_IDS.name: parsed["segment_ids"],
            features.MASKED_LM_POSITIONS.name: parsed["masked_lm_positions"],
        },
        tf.where(counts, parsed["masked_lm_ids"], NO_LABEL),
        parsed["next_sentence_labels"][:, 0],
    )


def _dynamic(
    keys: tf.Tensor, records: tf.Tensor, files: RecordFiles, multiple: int | None
) -> Batch:
    assert files.dynamic
    assert files.table
    segment = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    label = tf.io.FixedLenFeature([1], tf.int64)
    parsed = tf.io.parse_example(
        records, {"segment_a": segment, "segment_b": segment, "next_sentence_labels": label}
    )
    pair, labels = (parsed["segment_a"], parsed["segment_b"]), parsed["next_sentence_labels"][:, 0]
    if files.dynamic.pair_task == "sop":
        swap = draws_graph.uniform(keys, _SWAP, 1)[:, 0] < 0.5
        pair, labels = _swapped(pair, swap), tf.cast(swap, tf.int64)
    rows = _laid_out(pair, records.shape[0], files, multiple)
    drawn = masking_graph.draw(keys, tf.shape(rows.ids)[1])
    masked = masking_graph.mask(rows, drawn, files.table, files.dynamic)
    at, lengths = tf.range(tf.shape(rows.ids)[1]), rows.lengths[:, None]
    counts = tf.range(files.predictions) < masked.counts[:, None]
    return _batch(
        {
            features.INPUT_IDS.name: masked.ids,
            features.ATTENTION_MASK.name: at < lengths,
            features.TOKEN_TYPE_IDS.name: (at >= rows.first[:, None]) & (at < lengths),
            features.MASKED_LM_POSITIONS.name: masked.positions,
        },
        tf.where(counts, masked.labels, NO_LABEL),
        labels,
    )


def _swapped(pair: tuple[Any, Any], swap: tf.Tensor) -> tuple[Any, Any]:
    """Ragged segments `[B, …]`, those of each other where `swap` `[B]` is True."""
    both, size = tf.concat(pair, axis=0), tf.size(swap)
    first = tf.range(size) + tf.where(swap, size, 0)
    return tf.gather(both, first), tf.gather(both, (first + size) % (2 * size))


def _laid_out(
    pair: tuple[Any, Any], count: int | None, files: RecordFiles, multiple: int | None
) -> Rows:
    """`[CLS] A [SEP] B [SEP]` and padding, `count` rows where that is known."""
    assert files.table
    classify, separate = (
        tf.fill([pair[0].nrows(), 1], tf.constant(piece, tf.int64))
        for piece in (files.table.classify_id, files.table.separate_id)
    )
    ids = tf.concat([classify, pair[0], separate, pair[1], separate], axis=1)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    width = _width(lengths, multiple, files) if multiple else files.max_seq_length
    dense = ids.to_tensor(default_value=files.table.pad_id, shape=tf.stack([-1, width]))
    dense = tf.ensure_shape(dense, [count, None if multiple else width])
    first = tf.cast(pair[0].row_lengths(), tf.int32) + 2
    return Rows(
        tf.cast(dense, tf.int32), tf.ensure_shape(lengths, [count]), tf.ensure_shape(first, [count])
    )


def _width(lengths: tf.Tensor, multiple: int, files: RecordFiles) -> tf.Tensor:
    longest = tf.reduce_max(lengths)
    return tf.minimum(
        -(-longest // multiple) * multiple, tf.cast(files.max_seq_length, longest.dtype)
    )


def _batch(inputs: Mapping[str, tf.Tensor], labels: tf.Tensor, order: tf.Tensor) -> Batch:
    targets = {features.MASKED_LM_LABELS.name: labels, features.SENTENCE_ORDER_LABEL.name: order}
    return (
        {name: tf.cast(tensor, tf.int32) for name, tensor in inputs.items()},
        {name: tf.cast(tensor, tf.int32) for name, tensor in targets.items()},
    )
