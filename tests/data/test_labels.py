import pytest

from albert_tf.data.labels import model_labels

MNLI = {0: "entailment", 1: "neutral", 2: "contradiction"}


@pytest.mark.parametrize(
    ("id2label", "expected"),
    [
        (MNLI, [0, 1, 2]),
        ({0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, [0, 1, 2]),
        ({0: "contradiction", 1: "entailment", 2: "neutral"}, [1, 2, 0]),
    ],
)
def test_classes_go_by_name_where_names_are_the_tasks(id2label, expected):
    numbers = model_labels(tuple(id2label.values()), "mnli").numbers
    assert [numbers[name] for name in MNLI.values()] == expected
