import math
from itertools import chain

import keras
import numpy as np
import pandas
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data import (
    classification_dataset,
    multiple_choice_dataset,
    question_answering_dataset,
    token_classification_dataset,
)
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.tasks import INPUTS

TEXTS = ["the old square " * (number % 5 + 1) for number in range(11)]
CONTEXT = "the old square on a hill, the old square. " * 3
ANSWERS = [{"text": ["hill"], "answer_start": [20]}, {"text": [], "answer_start": []}] * 2


@pytest.mark.filterwarnings("error:`shuffle=True`")
@pytest.mark.usefixtures("without_graphs")
def test_fit_and_predict(tiny_tokenizer):
    labels = [number % 2 for number in range(11)]
    dataset = classification_dataset(tiny_tokenizer, TEXTS, labels, batch_size=4, max_length=16)
    assert int(dataset.cardinality()) == 3
    sizes = {"vocab_size": tiny_tokenizer.vocab_size, "num_hidden_layers": 1}
    classifier = AlbertForSequenceClassification(AlbertConfig.from_size("tiny", **sizes))
    classifier.compile("adam", metrics=["accuracy"])
    assert classifier.fit(dataset, verbose=0).history.keys() == {"loss", "accuracy"}
    scored = classifier.evaluate(dataset, return_dict=True, verbose=0)
    unlabelled = classification_dataset(tiny_tokenizer, TEXTS, batch_size=4, max_length=16)
    logits = classifier.predict(unlabelled, verbose=0)["logits"]
    assert scored["accuracy"] == pytest.approx(np.mean(logits.argmax(-1) == labels))


def test_every_epoch_has_all_rows_in_another_order(tiny_tokenizer):
    columns = (tiny_tokenizer, TEXTS, range(11), TEXTS[::-1])
    dataset = classification_dataset(*columns, batch_size=4)
    first, second = ([*chain.from_iterable(labels.numpy() for _, labels in dataset)] for _ in "ab")
    assert sorted(first) == sorted(second) == list(range(11))
    assert first != second
    again = classification_dataset(*columns, batch_size=4)
    assert [*chain.from_iterable(labels.numpy() for _, labels in again)] == first
    assert next(iter(dataset))[0]["token_type_ids"].numpy().max() == 1


def test_weights_and_a_fixed_order(tiny_tokenizer):
    columns = (tiny_tokenizer, TEXTS, range(11))
    options = {"batch_size": 4, "sample_weight": np.arange(11) / 4}
    for _, labels, given in classification_dataset(*columns, **options):
        np.testing.assert_array_equal(given, labels / 4)
    dataset = classification_dataset(*columns, shuffle=False, **options)
    for _ in range(2):
        assert [*chain.from_iterable(batch[1].numpy() for batch in dataset)] == [*range(11)]


def test_columns_of_a_shuffled_data_frame(tiny_tokenizer):
    frame = pandas.DataFrame(
        {
            "word": ["old", "square", "hill"],
            "context": ["the old", "the old square", "a hill"],
            "answer": [{"text": ["the"], "answer_start": [0]}] * 2 + [ANSWERS[1]],
            "choices": [["old", "hill"], ["square", "hill"], ["hill", "old"]],
            "words": [["the", "old"], ["old", "square"], ["a", "hill"]],
            "tags": [[0, 0], [1, 0], [0, 0]],
            "label": [0, 1, 0],
        }
    ).loc[[2, 0, 1]]
    for make, names in (
        (classification_dataset, ("context", "label", "word")),
        (question_answering_dataset, ("word", "context", "answer")),
        (token_classification_dataset, ("words", "tags")),
        (multiple_choice_dataset, ("context", "choices", "label", "word")),
    ):
        ones = make(tiny_tokenizer, *(frame[name] for name in names), batch_size=3)
        others = make(tiny_tokenizer, *(frame[name].tolist() for name in names), batch_size=3)
        batches = next(iter(ones)), next(iter(others))
        keras.tree.map_structure(np.testing.assert_array_equal, *batches)


def test_questions_and_answers(tiny_tokenizer):
    """In each window with the whole answer, the labels are its first and last token."""
    columns = (tiny_tokenizer, ["where?", "who?"] * 2, [CONTEXT] * 4)
    plain = question_answering_dataset(*columns, ANSWERS, max_length=40).element_spec[1]
    assert plain.keys() == {"start_positions", "end_positions"}
    options = {"max_length": 40, "batch_size": 5, "answerability": True}
    found = []
    for features, labels in question_answering_dataset(*columns, ANSWERS, **options):
        assert labels.keys() == {*plain, "is_impossible"}
        assert features.keys() == {*(feature.name for feature in INPUTS), "start_positions"}
        places = labels["start_positions"], labels["end_positions"]
        for ids, start, end in zip(features["input_ids"].numpy(), *places, strict=True):
            found.append(tiny_tokenizer.decode(ids[start : end + 1]))
    assert len(found) > 4 and set(found) == {"hill", "[CLS]"}
    unlabelled = question_answering_dataset(*columns, max_length=40)
    assert next(iter(unlabelled)).keys() == {feature.name for feature in INPUTS}


def test_tags(tiny_tokenizer):
    words = [["the", "old", "harbour", "square"][: number % 4 + 1] * 3 for number in range(11)]
    tags = [[number % 3 for number in range(len(sentence))] for sentence in words]
    dataset = token_classification_dataset(tiny_tokenizer, words, tags, batch_size=4)
    found = [row[row != -100].tolist() for _, labels in dataset for row in labels.numpy()]
    assert sorted(found) == sorted(tags)
    unlabelled = token_classification_dataset(tiny_tokenizer, words, batch_size=4)
    ids = np.concatenate([features["input_ids"] for features in unlabelled])
    whole = tiny_tokenizer(words, is_split_into_words=True, padding=True).input_ids
    np.testing.assert_array_equal(ids, whole)


def test_a_sentence_without_words(tiny_tokenizer):
    dataset = token_classification_dataset(tiny_tokenizer, [["Ada", "ran"], []], [[1, 0], []])
    _, labels = next(iter(dataset))
    assert sorted(map(max, labels.numpy())) == [-100, 1]


def test_questions_to_predict_have_one_length(tiny_tokenizer):
    contexts = ["The boat.", "The boat is old. " * 3, "A boat."]
    rows = question_answering_dataset(tiny_tokenizer, ["Who?"] * 3, contexts, batch_size=1)
    assert len({features["input_ids"].shape for features in rows}) == 1


def test_choices_unlike_in_number(tiny_tokenizer):
    """A choice without attention is padding."""
    choices = [["fresh bread", "the square", "smoke"][: 2 + number % 2] for number in range(11)]
    columns = (TEXTS, choices, [1 + number % 2 for number in range(11)], ["a"] * 11)
    for features, labels in multiple_choice_dataset(tiny_tokenizer, *columns, batch_size=4):
        given = features["attention_mask"].numpy().any(axis=-1).sum(axis=-1)
        np.testing.assert_array_equal(given, labels.numpy() + 1)
    for features in multiple_choice_dataset(tiny_tokenizer, TEXTS[:3], choices[:3], batch_size=1):
        assert features["input_ids"].shape[1] == 3, "`predict` concatenates batches"


def test_weights_without_labels(tiny_tokenizer):
    with pytest.raises(UserError, match="sample_weight"):
        classification_dataset(tiny_tokenizer, ["a"], sample_weight=[2.0])


WRONG = {
    classification_dataset: [
        ((TEXTS, [0, 1]), "one value per example. Received: 11 texts, 2 labels"),
        (("ab", [0, 1]), "texts must be a list. Received: 'ab'"),
        (([], None), "Received: 0 texts"),
        ((TEXTS, ["good"] * 11), "labels must be class ids.* Received: 'good'"),
        ((["a", math.nan], [0, 1]), "texts must not contain .* nan in row 1. Drop"),
    ],
    question_answering_dataset: [
        ((["?"], ["hill"], [("moon", 3)]), "1 questions without one, such as 'number 0'"),
        # A string would be read as one answer per character.
        ((["?"], ["hill"], [{"text": "hill", "answer_start": 0}]), "must be .*'hill'.* in row 0"),
        ((["?"], ["hill"], [{"text": "hill", "answer_start": [0]}]), "must be .*'hill'.* in row 0"),
        ((["?"], ["hill"], [{"text": ["hill"], "answer_start": 0}]), "must be .*'hill'.* in row 0"),
    ],
    token_classification_dataset: [
        ((["a b"], [[0, 1, 2]]), "must be a list of words.* Received: 'a b' with"),
        (([["a", "b"]], [[0]]), r"Received: \['a', 'b'\] with \[0\]"),
        (([["a"]], [["O"]]), r"class ids. Received: \['O'\]"),
        (([["a"]], [[0], [1]]), "Received: 1 words, 2 tags"),
        (([["a"], ["b", math.nan]], [[0], [0, 1]]), r"nan in sentence 1, \['b', nan\]"),
    ],
    multiple_choice_dataset: [
        ((["A."], [["one"]], [0]), "with label 0 in example 0"),
        ((["A."], ["one"], [0]), "with label 0 in example 0"),
        ((["A."], [["one", "two"]], [2]), "with label 2 in example 0"),
        ((["A."], [["one", "two"]], [-1]), "with label -1 in example 0"),
        ((["A."], [["one", "two"]], [0.5]), "with label 0.5 in example 0"),
        ((["A."], [["one", "two"]], ["two"]), "with label two in example 0"),
    ],
}


@pytest.mark.parametrize(
    ("make", "columns", "message"),
    [(make, *case) for make, cases in WRONG.items() for case in cases],
)
def test_wrong_columns(tiny_tokenizer, make, columns, message):
    with pytest.raises(UserError, match=message):
        make(tiny_tokenizer, *columns)
