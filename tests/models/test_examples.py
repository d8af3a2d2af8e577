"""The forms of examples, and checks of their values. The contract test passes them to fit."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.models.examples import (
    check_classes,
    check_types,
    holds_strings,
    text_columns,
    two_columns,
)


def test_labels_that_are_no_probabilities():
    soft = np.array([[0.5, 0.5, 0.0], [0.9, 0.4, 0.0]], "float32")
    with pytest.raises(ValueError, match=r"sum to 1 over the classes. Received: \[0.9, 0.4, 0.0\]"):
        check_classes("labels", soft, 3, rank=1)
    check_classes("labels", soft[:1], 3, rank=1)
    check_classes("labels", np.full((1, 5, 3), -100.0), 3, rank=2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("a", True),
        (b"a", True),
        (["a", 1], True),
        ([[0], [[1, "a"]]], True),
        ([0, 1.5, 2, np.str_("a")], True),
        ([[0, 1, None], {2, "a"}], True),
        (np.array(["a"]), True),
        (np.array([None, "a"], object), True),
        (tf.constant(["a"]), True),
        ([[0.5, 1], []], False),
        (np.array([1, 2.5], object), False),
        (np.arange(3), False),
        (None, False),
    ],
)
def test_strings_are_found_in_nested_lists(values, expected):
    assert holds_strings(values) == expected


def test_each_type_of_number_in_a_list_is_checked_once(monkeypatch):
    checked = []

    class Kind(type):
        def __instancecheck__(cls, value):
            checked.append(value)
            return isinstance(value, int | float | np.generic)

    monkeypatch.setattr("albert_tf.models.examples.Number", Kind("Number", (), {}))
    assert not holds_strings([[0, 1, 2, 0.5, 3.5], [4, np.int64(5), np.int64(6)]])
    assert [value for value in checked if not isinstance(value, list)] == [0, 0.5, 4, 5]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array(["a"]), "Received: 'a', … as labels"),
        (np.array([1, None], object), "Received: None, … as labels"),
        (tf.constant(["a"]), "Received: '…', … as labels"),
        (tf.ragged.constant([[1], []]), "a ragged tensor as labels"),
    ],
)
def test_values_that_no_layer_computes(values, message):
    with pytest.raises(UserError, match=message):
        check_types({"input_ids": np.ones((2, 3)), "labels": values})


PAIRS = [("a", "b"), ("c", "d"), ("e", "f")]


@pytest.mark.parametrize("examples", [PAIRS, (["a", "c", "e"], ["b", "d", "f"])])
def test_pairs_by_row_and_by_column(examples):
    columns = [["a", "c", "e"], ["b", "d", "f"]]
    assert text_columns(examples) == list(two_columns(examples, "")) == columns


@pytest.mark.parametrize("examples", [(("a", "b"), ("c", "d")), ("a", "b"), 5])
def test_forms_that_are_no_columns(examples):
    with pytest.raises(UserError, match="Received: "):
        text_columns(examples)
    with pytest.raises(UserError, match=r"a list of \(a, b\) tuples"):
        two_columns(examples, "(a, b)")
