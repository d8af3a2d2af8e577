import math
from itertools import chain

import keras
import numpy as np
import pandas
import pytest

from albert_tf import EntityF1, ExactMatch
from albert_tf.config import AlbertConfig
from albert_tf.data import (
    classification_dataset,
    multiple_choice_dataset,
    question_answering_dataset,
    token_classification_dataset,
)
from albert_tf.errors import UserError
from albert_tf.evaluation.entities import entity_scores
from albert_tf.models import (
    AlbertForMultipleChoice,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
)
from albert_tf.tasks import INPUTS

TEXTS = ["the old square " * (number % 5 + 1) for number in range(11)]
CONTEXT = "the old square on a hill, the old square. " * 3
ANSWERS = [{"text": ["hill"], "answer_start": [20]}, {"text": [], "answer_start": []}] * 2


def config_of(tokenizer, **fields):
    sizes = {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 1}
    return AlbertConfig.from_size("tiny", **sizes, **fields)


@pytest.mark.filterwarnings("error:`shuffle=True`")
@pytest.mark.usefixtures("without_graphs")
def test_fit_and_predict(tiny_tokenizer):
    labels = [number % 2 for number in range(11)]
    dataset = classification_dataset(tiny_tokenizer, TEXTS, labels, batch_size=4, max_length=16)
    assert int(dataset.cardinality()) == 3
    classifier = AlbertForSequenceClassification(config_of(tiny_tokenizer))
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


@pytest.mark.parametrize(
    ("labels", "dtype"), [([0.5, 2.5], "float32"), ([[1, 0], [1, 1]], "int32")]
)
def test_scores_and_several_labels(tiny_tokenizer, labels, dtype):
    dataset = classification_dataset(tiny_tokenizer, TEXTS[:2], labels, shuffle=False)
    ((_, found),) = dataset
    assert found.numpy().tolist() == labels and found.dtype == dtype


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (TEXTS, [0, 1], "one value per example. Received: 11 texts, 2 labels"),
        ("ab", [0, 1], "texts must be a list. Received: 'ab'"),
        ([], None, "Received: 0 texts"),
        (TEXTS, ["good"] * 11, "labels must be class ids.* Received: 'good'"),
        (["a", math.nan], [0, 1], "texts must not contain .* nan in row 1. Drop"),
    ],
)
def test_wrong_columns(tiny_tokenizer, texts, labels, message):
    with pytest.raises(UserError, match=message):
        classification_dataset(tiny_tokenizer, texts, labels)


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


def test_questions_and_answers(tiny_tokenizer, scrambled):
    columns = ["where?", "who?"] * 2, [CONTEXT] * 4
    given = (tiny_tokenizer, *columns, ANSWERS)
    plain = question_answering_dataset(*given, max_length=40).element_spec[1]
    assert plain.keys() == {"start_positions", "end_positions"}
    options = {"max_length": 40, "batch_size": 5, "answerability": True}
    dataset = question_answering_dataset(*given, **options)
    assert dataset.element_spec[1].keys() == {*plain, "is_impossible"}
    config = config_of(tiny_tokenizer, answerability=True)
    answerer = scrambled(AlbertForQuestionAnswering(config))
    answerer.compile("adam", metrics=[ExactMatch(), "accuracy"], run_eagerly=True)
    scored = answerer.evaluate(dataset, return_dict=True, verbose=0)
    assert {"exact_match", "accuracy", "loss"} <= scored.keys()
    right = []
    for features, labels in dataset:
        outputs = answerer(features)
        start, end = (
            outputs[answerer.targets[name].output].numpy().argmax(-1) == labels[name].numpy()
            for name in ("start_positions", "end_positions")
        )
        right.extend(start & end)
    assert len(right) > 4  # windows
    assert scored["exact_match"] == pytest.approx(np.mean(right))
    unlabelled = question_answering_dataset(tiny_tokenizer, *columns, max_length=40)
    assert next(iter(unlabelled)).keys() == {feature.name for feature in INPUTS}


def test_answers_that_are_nowhere(tiny_tokenizer):
    lost = [{"text": ["moon"], "answer_start": [3]}]
    with pytest.raises(UserError, match="1 questions without one, such as 'number 0'"):
        question_answering_dataset(tiny_tokenizer, ["where?"], [CONTEXT], lost)


@pytest.mark.usefixtures("without_graphs")
def test_tags(tiny_tokenizer, scrambled):
    names = ["O", "B-X", "I-X"]
    words = [["the", "old", "harbour", "square"][: number % 4 + 1] * 3 for number in range(11)]
    tags = [[number % 3 for number in range(len(sentence))] for sentence in words]
    config = config_of(tiny_tokenizer, id2label=dict(enumerate(names)))
    tagger = scrambled(AlbertForTokenClassification(config), seed=4)
    tagger.compile(metrics=[EntityF1(names)])
    dataset = token_classification_dataset(tiny_tokenizer, words, tags, batch_size=4)
    scored = tagger.evaluate(dataset, return_dict=True, verbose=0)["entity_f1"]
    unlabelled = token_classification_dataset(tiny_tokenizer, words, batch_size=4)
    logits = tagger.predict(unlabelled, verbose=0)["logits"]
    assert len(logits) == len(words)
    found = []
    for sentence, row in zip(words, logits, strict=True):
        origins = tiny_tokenizer([sentence], is_split_into_words=True).word_ids(0)
        firsts = [origins.index(word) for word in range(len(sentence))]
        found.append([names[tag] for tag in row[firsts].argmax(-1)])
    expected = [[names[tag] for tag in row] for row in tags]
    assert scored > 0
    assert scored == pytest.approx(entity_scores(expected, found, names)["f1"], abs=1e-6)


@pytest.mark.parametrize(
    ("words", "tags", "message"),
    [
        (["a b"], [[0, 1, 2]], "must be a list of words.* Received: 'a b' with"),
        ([["a", "b"]], [[0]], r"Received: \['a', 'b'\] with \[0\]"),
        ([["a"]], [["O"]], r"class ids. Received: \['O'\]"),
        ([["a"]], [[0], [1]], "Received: 1 words, 2 tags"),
        ([["a"], ["b", math.nan]], [[0], [0, 1]], r"Received: nan in sentence 1, \['b', nan\]"),
    ],
)
def test_wrong_tags(tiny_tokenizer, words, tags, message):
    with pytest.raises(UserError, match=message):
        token_classification_dataset(tiny_tokenizer, words, tags)


def test_a_sentence_without_words(tiny_tokenizer):
    dataset = token_classification_dataset(tiny_tokenizer, [["Ada", "ran"], []], [[1, 0], []])
    _, labels = next(iter(dataset))
    assert sorted(map(max, labels.numpy())) == [-100, 1]


def test_questions_to_predict_have_one_length(tiny_tokenizer):
    contexts = ["The boat.", "The boat is old. " * 3, "A boat."]
    rows = question_answering_dataset(tiny_tokenizer, ["Who?"] * 3, contexts, batch_size=1)
    assert len({features["input_ids"].shape for features in rows}) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "sails", "answer_start": 0},
        {"text": "sails", "answer_start": [0]},
        {"text": ["sails"], "answer_start": 0},
    ],
)
def test_answers_that_are_not_lists(tiny_tokenizer, answer):
    """A string would be read as one answer per character."""
    with pytest.raises(UserError, match="An answer must be .*Received: .*'sails'.* in row 0"):
        question_answering_dataset(tiny_tokenizer, ["Who?"], ["sails came."], [answer])


def test_weights_without_labels(tiny_tokenizer):
    with pytest.raises(UserError, match="sample_weight"):
        classification_dataset(tiny_tokenizer, ["a"], sample_weight=[2.0])


def test_choices_unlike_in_number(tiny_tokenizer):
    choices = [["fresh bread", "the square", "smoke"][: 2 + number % 2] for number in range(11)]
    columns = (TEXTS, choices, [number % 2 for number in range(11)], ["a"] * 11)
    dataset = multiple_choice_dataset(tiny_tokenizer, *columns, batch_size=4, max_length=24)
    chooser = AlbertForMultipleChoice(config_of(tiny_tokenizer))
    chooser.compile(metrics=["accuracy"], run_eagerly=True)
    assert np.isfinite(chooser.evaluate(dataset, verbose=0)).all()
    unlabelled = multiple_choice_dataset(tiny_tokenizer, TEXTS[:3], choices[:3], batch_size=1)
    logits = chooser.predict(unlabelled, verbose=0)["logits"]
    assert logits.shape == (3, 3) and (logits.argmax(-1)[[0, 2]] < 2).all()


@pytest.mark.parametrize(
    ("choices", "label"),
    [
        (["one"], 0),
        ("one", 0),
        *((["one", "two"], label) for label in (2, -1, 0.5, "two")),
    ],
)
def test_choices_that_cannot_be_chosen(tiny_tokenizer, choices, label):
    with pytest.raises(UserError, match=f"with label {label} in example 0"):
        multiple_choice_dataset(tiny_tokenizer, ["A."], [choices], [label])
