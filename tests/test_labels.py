import pytest

from albert_tf.config import AlbertConfig


def test_labels():
    assert AlbertConfig().num_labels == 2
    assert AlbertConfig().labels == ("LABEL_0", "LABEL_1")
    config = AlbertConfig(id2label={1: "good", 0: "bad"})
    assert list(config.id2label.items()) == [(0, "bad"), (1, "good")]
    assert config.to_dict()["label2id"] == {"bad": 0, "good": 1}


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({}, ("bad", "good")),
        ({"num_labels": 2}, ("bad", "good")),
        ({"num_labels": 3}, ("LABEL_0", "LABEL_1", "LABEL_2")),
        ({"id2label": {"1": "b", "0": "a"}}, ("a", "b")),
        ({"label2id": {"b": 1, "a": 0}}, ("a", "b")),
        ({"id2label": {"1": "b", "0": "a"}, "label2id": {"a": 0, "b": 1}}, ("a", "b")),
        ({"id2label": None}, ("LABEL_0", "LABEL_1")),
        ({"id2label": {"0": 0, "1": 1}}, ("0", "1")),
        ({"label2id": {0.5: 0, True: 1}}, ("0.5", "True")),
        ({"id2label": {0: 0, 1: 1}, "label2id": {"0": 0, "1": 1}}, ("0", "1")),
    ],
)
def test_labels_are_replaced(changes, labels):
    config = AlbertConfig(id2label={0: "bad", 1: "good"})
    assert config.replace(**changes).labels == labels


def test_labels_in_files():
    assert AlbertConfig.from_dict({"num_labels": 3}).labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert AlbertConfig.from_dict({"num_labels": 3, "id2label": None}).num_labels == 3
    assert AlbertConfig.from_dict({"_num_labels": 5}).num_labels == 5  # an old name
    read = AlbertConfig.from_dict({"num_labels": 5, "id2label": {"1": "good", "0": "bad"}})
    assert read.labels == ("bad", "good")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_labels": True}, "num_labels must be a whole number.* Received: True"),
        ({"num_labels": 3, "id2label": {0: "a"}}, "names in id2label. Received: num_labels=3"),
        ({"id2label": {0: "a", 1: "b"}, "label2id": {"a": 1, "b": 0}}, "inverse of .*{'a': 1, 'b"),
        ({"id2label": {0: "a", 1: "b"}, "label2id": {"a": 0}}, "inverse of id2label"),
        ({"label2id": {"a": 0, "b": 0, "c": 1}}, "different class id. Received: .*'b': 0"),
        ({"label2id": ["a", "b"]}, r"different class id. Received: \['a', 'b'\]"),
        ({"id2label": {0: "a", 2: "b"}}, "without gaps"),
        ({"id2label": {0: "a", 1: "a"}}, "must be unique"),
        ({"id2label": {"a": "b"}}, "id2label must map class ids to names"),
        ({"id2label": ["a", "b"]}, "id2label must map class ids to names"),
        ({"id2label": {"0": ["a"]}}, "names in id2label must be valid strings"),
        ({"id2label": {"0": "\ud800"}}, "names in id2label must be valid strings"),
    ],
)
def test_labels_that_contradict(values, message):
    for create in (AlbertConfig().replace, AlbertConfig):
        with pytest.raises(ValueError, match=message):
            create(**values)
