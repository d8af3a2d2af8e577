import numpy as np
from keras import ops

from albert_tf.layers.common import Dropout, replay_seeds

ONES = np.ones((40, 50), "float32")


def dropped(layer):
    return ops.convert_to_numpy(layer(ONES, training=True)) == 0


def test_replayed_dropout_drops_the_same_places():
    layers = [Dropout(0.4, seed=1), Dropout(0.4, seed=2)]
    seeds = [layer.seed_generator.next() for layer in layers]
    with replay_seeds(layers, seeds):
        first = [dropped(layer) for layer in layers]
        again = [dropped(layer) for layer in layers]
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any()
    assert 0.3 < first[0].mean() < 0.5
    assert (dropped(layers[0]) != first[0]).any()


def test_nothing_is_dropped_outside_training():
    layer = Dropout(0.4)
    with replay_seeds([layer], [layer.seed_generator.next()]):
        np.testing.assert_array_equal(layer(ONES, training=False), ONES)
