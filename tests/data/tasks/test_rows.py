import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.rows import Rows, padded_length
from albert_tf.tasks import INPUTS
from tests.data.conftest import task, write

IDS = [[2, 5, 6, 3], [2, 7, 3], [2, *range(4, 13), 3]]
TYPES = [[0] * len(row) for row in IDS]
PAD = 9


def rows(labels, **others):
    return Rows({"input_ids": IDS, "token_type_ids": TYPES}, {"labels": labels}, PAD, **others)


LONG = "a " * 50


@pytest.mark.parametrize(
    ("name", "table", "target", "labels", "shape"),
    [
        ("classify", f"text,label\n{LONG},yes\nb,no\n", "labels", [1, 0], (2,)),
        ("similarity", f"text,text_pair,score\n{LONG},b,2\nc,d,4\n", "labels", [0.5, 1], (2, 2)),
        # The first and the third row share "a", the second and the fourth "B".
        ("similarity", f"text,text_pair\na,{LONG}\nb,B\na,C\nd,B", "groups", [0, 1, 0, 1], (4, 2)),
        ("similarity", f"anchor,positive,negative\na,b,x\nc,{LONG},y", "groups", [0, 1], (2, 3)),
    ],
)
def test_rows_of_each_task(tmp_path, tiny_tokenizer, name, table, target, labels, shape):
    given = task(name, write(tmp_path / "a.csv", table))
    examples = given.read(given.options.data)
    config = AlbertConfig(**given.config_fields(examples))
    encoded = given.encode(examples, tiny_tokenizer, config, 12)
    features, found, _ = encoded.batch(np.arange(len(encoded)))
    assert features["input_ids"].shape == (*shape, 12)
    assert found.keys() == {target} and found[target].tolist() == labels
    assert encoded.cut == 1


def test_batches_follow_the_schema():
    inputs, labels, _ = rows([4, 0, 1]).batch(np.array([0, 2]))
    assert inputs.keys() == {feature.name for feature in INPUTS}
    assert {array.dtype.name for array in inputs.values()} == {"int32"}
    assert inputs["input_ids"][0].tolist() == [2, 5, 6, 3, *[PAD] * 7]
    assert inputs["attention_mask"].sum(axis=1).tolist() == [4, 11]
    assert labels["labels"].tolist() == [4, 1] and labels["labels"].dtype == "int32"


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ([4, 0, 1], "int32"),
        ([0.5, 1.0, 2.0], "float32"),
        ([[0, 1, 1]] * 3, "int32"),  # several labels are not padded
        ([[0.0, 1.0, 1.0]] * 3, "float32"),
        # Numbers that int32 lacks are floats. So are all others, because a batch has one type.
        ([3_000_000_000, -7, 0], "float32"),
        ([1, 2.5, 3], "float32"),
    ],
)
def test_types_of_labels(labels, dtype):
    found = rows(labels).batch(np.arange(3))[1]["labels"]
    assert found.dtype == dtype and found.tolist() == labels


def test_tags_are_padded_as_the_features():
    tags = rows([[1] * len(row) for row in IDS], tags=True).batch(np.array([0, 1]))[1]["labels"]
    assert tags.tolist() == [[1] * 4, [1] * 3 + [-100]]


def test_masked_positions_are_padded_to_their_own_length():
    positions = {"masked_lm_positions": [[1], [1, 0], [7]]}
    data = Rows({"input_ids": IDS, "token_type_ids": TYPES, **positions}, {}, PAD)
    inputs = data.inputs(np.array([1, 2]))
    assert inputs["masked_lm_positions"].tolist() == [[1, 0], [7, 0]]
    assert inputs["input_ids"].shape == (2, 11)


def test_the_rows_of_each_example():
    data = rows([4, 0, 1], examples=[1, 0, 1], details="abc")
    data.count = 3
    assert data.by_example([7, 8, 9]) == [[("b", 8)], [("a", 7), ("c", 9)], []]


def test_choices_are_padded_in_number_and_length():
    arrays = {name: [[[2, 3]], [[2, 5, 3], [2, 6, 3]]] for name in ("input_ids", "token_type_ids")}
    inputs, _, _ = Rows(arrays, {"labels": [0, 1]}, PAD).batch(np.array([0, 1]))
    assert inputs["attention_mask"].sum(axis=-1).tolist() == [[2, 0], [3, 3]]
    assert inputs["input_ids"][0].tolist() == [[2, 3, PAD], [PAD] * 3]


def test_labels_that_the_model_needs_are_features_of_training_alone():
    data = rows([4, 0, 1], label_inputs=("labels",))
    features, labels, _ = data.batch(np.array([0, 2]))
    assert features["labels"].tolist() == labels["labels"].tolist() == [4, 1]
    assert "labels" not in data.inputs(np.array([0, 2]))


def test_lengths_are_rounded_up_to_the_longest_of_all_rows():
    """For example, a model with 11 positions can't take 16 tokens.

    The pipelines raise `longest` to the model's maximum, so that texts compile few programs.
    """
    data, each = rows([4, 0, 1]), np.split(np.arange(3), 3)
    assert [data.inputs(row)["input_ids"].shape[1] for row in each] == [4, 3, 11]
    for longest, expected in ((11, [8, 8, 11]), (43, [8, 8, 16])):
        data.longest = longest
        for_xla = [data.inputs(row, jit_compile=True)["input_ids"] for row in each]
        assert [ids.shape[1] for ids in for_xla] == expected
    assert for_xla[0][0].tolist() == [2, 5, 6, 3, *[PAD] * 4]


def test_lengths_for_xla_are_multiples_of_8():
    assert [padded_length(length, jit_compile=True) for length in (1, 8, 9)] == [8, 8, 16]
    assert padded_length(9, jit_compile=False) == 9
