import numpy as np
import tensorflow as tf

from albert_tf.data.pretraining import rng, tf_ops


def test_the_stream_is_splitmix64():
    """Compares with the published first numbers of the generator for the seed 1234567."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert rng.fold_in(1234567, [0, 1, 2]).tolist() == published


def test_keys_never_change():
    assert rng.key(12345, "books/emma.txt", 70) == 2057914903974156592
    assert rng.key("1") != rng.key(1)
    assert rng.key("a", "b") != rng.key("ab")
    assert rng.key("a", 1) != rng.key(1, "a")


def test_numbers_depend_on_the_key_the_stream_and_the_place_alone():
    keys = np.array([3, 99, 2**63], np.uint64)
    whole = rng.uniform(keys, 4, np.arange(11))
    assert whole.shape == (3, 11)
    np.testing.assert_array_equal(rng.uniform(keys[1:2], 4, np.arange(7))[0], whole[1, :7])
    assert not np.intersect1d(whole, rng.uniform(keys, 5, np.arange(11))).size
    assert len(np.unique(whole)) == whole.size


def test_the_graph_draws_the_same_numbers():
    keys = np.array([0, 1, 2**63, 2**64 - 1, rng.key("a")], np.uint64)
    places = np.arange(5 * 11).reshape(5, 11)[:, ::-1]
    found = rng.uniform(tf.constant(keys), 7, places, tf_ops)
    np.testing.assert_array_equal(found, rng.uniform(keys, 7, places))
    numbers = np.array([0, 1, 5, 2**40, 3])
    np.testing.assert_array_equal(
        rng.fold_in(keys, numbers, 4, xp=tf_ops), rng.fold_in(keys, numbers, 4)
    )


def test_numbers_are_uniform_and_independent():
    """Allows five standard deviations; the numbers never change."""
    numbers = rng.uniform(np.arange(1000, dtype=np.uint64), 17, np.arange(200))
    counts = np.histogram(numbers, bins=50, range=(0, 1))[0]
    expected = numbers.size / 50
    assert counts.sum() == numbers.size
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
    for first, second in ((numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])):
        correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(first.size)
