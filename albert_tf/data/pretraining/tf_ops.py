"""TensorFlow versions of the array operations in `numpy_ops`, with the same results."""

import tensorflow as tf

any, max, sum = tf.reduce_any, tf.reduce_max, tf.reduce_sum
round, shape, take = tf.round, tf.shape, tf.gather
arange, cast, maximum, minimum, where = tf.range, tf.cast, tf.maximum, tf.minimum, tf.where
shift_right, while_loop = tf.bitwise.right_shift, tf.while_loop


def argsort(values: tf.Tensor) -> tf.Tensor:
    return tf.argsort(values, axis=1, stable=True)


def cumsum(values: tf.Tensor) -> tf.Tensor:
    return tf.cumsum(tf.cast(values, tf.int32), axis=1)


def gather(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    return tf.gather(values, indices, axis=1, batch_dims=1)


def scatter(values: tf.Tensor, indices: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    rows = tf.broadcast_to(tf.range(tf.shape(values)[0])[:, None], tf.shape(indices))
    return tf.tensor_scatter_nd_update(values, tf.stack([rows, indices], axis=-1), new)


def positions(chosen: tf.Tensor, width: int | None = None) -> tf.Tensor:
    at = tf.broadcast_to(tf.range(tf.shape(chosen)[1]), tf.shape(chosen))
    return tf.ragged.boolean_mask(at, chosen).to_tensor(shape=[chosen.shape[0], width])
