import keras
import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.evaluation.keras_metrics import ExactMatch
from albert_tf.models import AlbertForQuestionAnswering
from albert_tf.models.fitting import encoded

T = 7
FEATURES = {
    "input_ids": np.array([[2, 9, 3, 10, 11, 3, 0], [2, 8, 9, 3, 12, 13, 3]]),
    "attention_mask": np.array([[1, 1, 1, 1, 1, 1, 0], [1] * T]),
    "token_type_ids": np.array([[0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1]]),
}


@pytest.fixture
def model(shallow_config, scrambled):
    return scrambled(AlbertForQuestionAnswering(shallow_config, answerability=True))


def test_where_no_answer_can_be(model):
    expected = np.array([[0, 1, 1, 0, 0, 1, 1], [0, 1, 1, 1, 0, 0, 1]])
    derived, given = model(FEATURES), model(FEATURES, p_mask=expected)
    for name in given:
        np.testing.assert_array_equal(derived[name], given[name])
    whole_text = model({name: FEATURES[name] for name in ("input_ids", "attention_mask")})
    best = np.asarray(whole_text["start_top_index"])[0]
    assert set(best) == {0, 1, 2, 3, 4}
    whole = np.array([[0, 0, 0, 0, 0, 1, 1], [0] * 6 + [1]])
    first_types = np.zeros_like(FEATURES["token_type_ids"])  # XLM-RoBERTa's
    same = model({**FEATURES, "token_type_ids": first_types}, p_mask=whole)
    derived = model({**FEATURES, "token_type_ids": first_types})
    np.testing.assert_array_equal(derived["start_top_index"], same["start_top_index"])


def test_without_a_mask_the_last_place_is_the_separator(model):
    row = {name: values[1:] for name, values in FEATURES.items()}
    masked = model(row)
    del row["attention_mask"]
    for name, values in model(row).items():
        np.testing.assert_array_equal(values, masked[name])


def test_labels_must_be_among_the_features(model):
    labels = {"start_positions": np.array([3, 4]), "end_positions": np.array([4, 4])}
    model.compile("sgd", run_eagerly=keras.backend.backend() != "jax")
    with pytest.raises(ValueError, match="start_positions among the features"):
        model.fit(FEATURES, labels, verbose=0)


def test_an_answerable_position_outside_does_not_count(model):
    labels = {"start_positions": np.array([3, T]), "end_positions": np.array([4, -100])}
    first = {name: values[:1] for name, values in FEATURES.items()}
    of_first = {name: values[:1] for name, values in labels.items()}
    both, one = model(FEATURES, **labels)["loss"], model(first, **of_first)["loss"]
    assert float(both) == pytest.approx(float(one), rel=1e-5)


def test_a_metric_of_both_positions_requires_both(shallow_config, small_features):
    model = AlbertForQuestionAnswering(shallow_config)
    model.compile("sgd", metrics=[ExactMatch()], run_eagerly=keras.backend.backend() != "jax")
    with pytest.raises(UserError, match="metrics of end_logits, .*Received: start_positions"):
        model.evaluate(small_features, {"start_positions": np.array([1, 2])}, verbose=0)


def test_weights_of_questions_follow_them_if_others_are_dropped(shallow_config, tiny_tokenizer):
    size = tiny_tokenizer.vocab_size
    model = AlbertForQuestionAnswering(shallow_config.replace(vocab_size=size))
    model.tokenizer = tiny_tokenizer
    questions = [("who came", "a film"), ("who came", "she came"), ("who came", "he came")]
    answers, weights = [("nobody", 0), ("she", 0), ("he", 0)], np.array([5.0, 0.0, 2.0])
    rows = encoded(model, questions, answers, weights)
    assert rows.examples.tolist() == [1, 2, 2]  # two windows
    assert rows.weights == [0.0, 2.0, 2.0]
