"""Truncation against the original's loop."""

import pytest

from albert_tf.text.rows import kept_lengths, windows


def original_loop(first, second, room):
    """google-research/albert `_truncate_seq_pair`."""
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_longest_first_is_the_original_loop():
    for first in range(14):
        for second in range(14):
            for room in range(20):
                kept = kept_lengths(first, second, room, "longest_first")
                assert kept == original_loop(first, second, room)


def test_windows():
    assert list(windows(11, 4, 1)) == [(0, 4), (3, 7), (6, 10), (9, 11)]
    assert list(windows(8, 4, 0)) == [(0, 4), (4, 8)]
    assert list(windows(3, 4, 9)) == [(0, 3)]
    with pytest.raises(ValueError, match="stride must be at least 0.*stride=4, 4 pieces"):
        list(windows(5, 4, 4))
