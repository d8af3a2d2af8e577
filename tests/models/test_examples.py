"""The forms of examples, and checks of their values. The contract test passes them to fit."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertForTokenClassification
from albert_tf.models.batch import arrays_of, batch_of
from albert_tf.models.examples import (
    as_arrays,
    check_classes,
    check_types,
    class_weights,
    from_pandas,
    holds_strings,
    input_arrays,
    label_arrays,
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


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "int8[pyarrow]", "object"])
def test_numbers_in_pandas(dtype):
    """A missing number is none."""
    numbers = np.array([[0, 1], [1, 1], [0, 0]])
    frame = pd.DataFrame(numbers, columns=["a", "b"]).astype(dtype)
    arrays = as_arrays({"frame": frame, "column": frame["a"]})
    assert {array.dtype.kind for array in arrays.values()} <= set("iufb")
    np.testing.assert_array_equal(arrays["frame"], numbers)
    np.testing.assert_array_equal(arrays["column"], numbers[:, 0])
    frame.iloc[1, 0] = None
    with pytest.raises(UserError, match="Received: (<NA>|None), … as frame"):
        check_types(as_arrays({"frame": frame}))


ROWS = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    "rows",
    [
        *(form(ROWS) for form in (list, tuple, np.ndarray.tolist)),
        pd.Series(ROWS.tolist()),
        pd.Series(list(ROWS)),  # of a Parquet file
        tf.unstack(ROWS),
    ],
)
def test_rows_in_a_dict(rows):
    """They are stacked; outside a dict, a list of arrays could be a list of inputs."""
    np.testing.assert_array_equal(input_arrays({"input_ids": rows})["input_ids"], ROWS)
    uneven = [ROWS[0], ROWS[1, :2]]
    for given in (uneven, pd.Series(uneven), [row.tolist() for row in uneven]):
        with pytest.raises(UserError, match="rows of input_ids .* same length"):
            input_arrays({"input_ids": given})


def test_columns_of_rows():
    for form in (list, np.ndarray.tolist):
        np.testing.assert_array_equal(input_arrays(pd.Series(form(ROWS))), ROWS)
    with pytest.raises(ValueError, match="inputs by name"):
        input_arrays(list(ROWS))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_every_number_counts(shallow_config, small_features, dtype):
    """Only ids are ignored, whatever the type of their array."""
    labels = np.array([-100, 1], dtype)
    for fields, count in (({"num_labels": 1}, 2), ({"num_labels": 3}, 1)):
        model = AlbertForSequenceClassification(shallow_config.replace(**fields))
        counts = model.label_counts(batch_of(model, small_features, labels))
        assert float(counts["labels"]) == count


def test_numbers_beyond_int32(shallow_config, small_features):
    model = AlbertForSequenceClassification(shallow_config.replace(num_labels=1))
    found = label_arrays(model, [3_000_000_000, -100], small_features)
    assert found.dtype == "float32" and found.tolist() == [3e9, -100]


def test_keys_of_class_weights(shallow_config):
    """The labels are floats or label names."""
    model = AlbertForSequenceClassification(shallow_config)
    for given in ({np.float64(2): 5.0, 0.0: 3.0}, {"LABEL_2": 5.0, 0: 3.0}):
        found = class_weights(model, given)
        assert found == {0: 3.0, 1: 1.0, 2: 5.0} and {*map(type, found)} == {int}
    with pytest.raises(UserError, match="Received: 0.5"):
        class_weights(model, {0.5: 3.0})


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
        (np.array([1, None], object), "Received: None, … as labels. .* drop missing"),
        (np.array(["2020-01-01"], "datetime64[D]"), "Received: datetime.date.*Convert dates"),
        (tf.constant(["a"]), "Received: '…', … as labels"),
        (tf.ragged.constant([[1], []]), "a ragged tensor as labels"),
    ],
)
def test_values_that_no_layer_computes(values, message):
    with pytest.raises(UserError, match=message):
        check_types({"input_ids": np.ones((2, 3)), "labels": values})


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            pd.Series([5, 6], dtype=object),
            r"shape \(2,\), starting with np.int64\(5\).*astype\(str\)",
        ),
        (pd.to_datetime(pd.Series(["2020-01-01"])), "with np.datetime64"),
    ],
)
def test_columns_that_are_no_texts(x, message):
    assert not holds_strings(x)
    with pytest.raises(UserError, match=message):
        input_arrays(x)


def test_columns_of_pyarrow():
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (albert_tf[datasets])")
    assert from_pandas(pyarrow.array([1, 2])).tolist() == [1, 2]
    for values in (pyarrow.array(["a"]), pyarrow.chunked_array([["a"]]), pyarrow.array([["a"]])):
        for read in (holds_strings, from_pandas):
            with pytest.raises(UserError, match=r"Write column.to_pylist\(\)"):
                read(values)


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


class Column(Sequence):
    """A column of a Hugging Face dataset, which is neither a list nor an array."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]


CLASSES, NAMES = np.array([2, 1, 2, 0]), ["a", "c", "a", "b"]
ONE_HOT, FRAME = np.eye(3)[CLASSES], pd.get_dummies(pd.Series(NAMES))  # a column for each label
SEVERAL = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]])
SEVERAL_NAMES = [["b"], ["a", "c"], [], ["c", "a", "b"]]
FORMS = {
    "classes": (
        None,
        CLASSES,
        [
            *(form(CLASSES) for form in (list, tuple, np.ndarray.tolist, Column)),
            CLASSES[:, None],
            *(form(NAMES) for form in (list, np.array, Column)),
            *(pd.Series(values, dtype="category") for values in (CLASSES, NAMES)),
            *([CLASSES], {"labels": NAMES}, {"logits": NAMES}),
        ],
    ),
    "probabilities": (None, ONE_HOT, [{"labels": ONE_HOT}, FRAME.astype(float)]),
    "a matrix": (
        "multi_label_classification",
        ONE_HOT,
        [FRAME, FRAME.astype("Int64"), FRAME.astype(float), {"labels": ONE_HOT}, Column(ONE_HOT)],
    ),
    "several names": (
        "multi_label_classification",
        SEVERAL,
        [
            *(SEVERAL_NAMES, Column(SEVERAL_NAMES), [set(names) for names in SEVERAL_NAMES]),
            [np.array(names, object) for names in SEVERAL_NAMES],  # of a Parquet file
        ],
    ),
    "no names": (
        "multi_label_classification",
        np.zeros((4, 3)),
        [
            *([form() for _ in range(4)] for form in (list, tuple, set)),
            *(form([[]] * 4) for form in (Column, pd.Series)),
            [np.array([], object)] * 4,
        ],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_labels(shallow_config, tiny_tokenizer, form):
    """They are the same labels for arrays and for texts."""
    problem_type, expected, forms = FORMS[form]
    model = AlbertForSequenceClassification(
        shallow_config.replace(
            vocab_size=len(tiny_tokenizer),
            id2label={0: "b", 1: "c", 2: "a"},
            problem_type=problem_type,
        )
    )
    model.compile()
    texts = ["a film", "she came", "a quiet delight", "no"]
    features = dict(tiny_tokenizer(texts, padding=True, return_tensors="np"))
    for given in forms:
        found = [arrays_of(model, features, given).labels["labels"]]
        for each in (texts, Column(texts)):
            found.append(model.encode_examples(each, given, tiny_tokenizer, 11).labels["labels"])
        for labels in map(np.asarray, found):
            np.testing.assert_array_equal(
                labels, expected.reshape(labels.shape), err_msg=repr(given)
            )
    if form == "classes":
        found = arrays_of(model, {**features, "labels": NAMES}).labels["labels"]
        np.testing.assert_array_equal(found, CLASSES)


def test_labels_of_pieces_as_a_list_of_rows(shallow_config, small_features):
    model, rows = AlbertForTokenClassification(shallow_config), small_features["input_ids"] % 3
    for form in (list, np.ndarray.tolist, lambda rows: pd.Series(list(rows))):
        np.testing.assert_array_equal(label_arrays(model, form(rows), small_features), rows)
    with pytest.raises(UserError, match="rows of labels .* same length"):
        label_arrays(model, [rows[0], rows[1, :2]], small_features)
