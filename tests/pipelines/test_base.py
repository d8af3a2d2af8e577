import warnings
from collections import deque
from collections.abc import Iterator

import numpy as np
import pandas
import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.models import AlbertModel
from albert_tf.pipelines import FeatureExtractionPipeline, TextClassificationPipeline
from albert_tf.pipelines.base import LongTextOptions, Texts, as_text, as_texts, window_rows

TEXTS = ["the cat sat", "a dog", "ada lives near paris over france", "who barked"]


def close(found, expected):
    assert [each["label"] for each in found] == [each["label"] for each in expected]
    np.testing.assert_allclose(
        [each["score"] for each in found], [each["score"] for each in expected], atol=1e-5
    )


def test_lists_give_lists_whatever_the_batch(pipe):
    for batch_size in (1, 3, 8):
        classify = pipe("text-classification", batch_size=batch_size)
        close(classify(TEXTS), [classify(text)[0] for text in TEXTS])
        assert classify([]) == []


def test_outputs_that_are_nan(pipe, monkeypatch):
    classify = pipe("text-classification")
    outputs = {"logits": np.array([[0.1, np.nan, 0, 0, 0]])}
    monkeypatch.setattr(type(classify.model), "predict_on_batch", lambda model, features: outputs)
    with pytest.raises(UserError, match="outputs are NaN"):
        classify(TEXTS[0])


def test_columns_give_lists(pipe):
    classify = pipe("text-classification")
    ask, context = pipe("question-answering"), " ".join(TEXTS)
    expected = [ask(question=TEXTS, context=each) for each in (context, TEXTS)]
    for column in (tuple, np.array, pandas.Series, pandas.Index, deque, tf.constant):
        close(classify(column(TEXTS)), classify(TEXTS))
        assert ask(question=column(TEXTS), context=context) == expected[0]
        assert ask(question=TEXTS, context=column(TEXTS)) == expected[1]


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize(
    "kind", ["feature-extraction", "token-classification", "fill-mask", "sentence-order"]
)
def test_every_pipeline_takes_columns(pipe, kind):
    """A tuple of two texts is a pair only where a pair is one example."""
    run, texts = pipe(kind), [f"{text} [MASK]" for text in TEXTS[:2]]
    if run.takes_pairs:
        pair = ("who sat", "the cat sat")
        assert run(pair) == run([pair])[0]
        texts = [pair, pair[::-1]]
    assert run(tuple(texts)) == run(texts)
    assert isinstance(run(iter(texts)), Iterator)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (set(TEXTS), r"a set. Pass sorted\(examples\)"),
        (pandas.DataFrame({"text": TEXTS}), r"single column, .* DataFrame of shape \(4, 1\)"),
        (np.array([TEXTS]), r"single column, .* ndarray of shape \(1, 4\)"),
    ],
)
def test_what_is_no_column(pipe, given, message):
    with pytest.raises(TypeError, match=message):
        pipe("text-classification")(given)


@pytest.fixture
def shapes(model, monkeypatch):
    """Returns a list to which the classifier adds the shape of each batch."""
    found, shapes = model("text-classification"), []
    predict = found.predict_on_batch
    monkeypatch.setattr(
        found,
        "predict_on_batch",
        lambda features: shapes.append(features["input_ids"].shape) or predict(features),
    )
    return shapes


@pytest.mark.parametrize("streams", [False, True])
def test_texts_of_similar_length_share_a_batch(pipe, shapes, streams):
    classify = pipe("text-classification", batch_size=2)
    texts = ["a dog", "a dog " * 4] * 2 + ["who barked"]
    classify.ahead = 3  # batches of a stream
    results = list(classify(iter(texts))) if streams else classify(texts)
    assert [count for count, _ in shapes] == [1, 2, 2]
    lengths = [length for _, length in shapes]
    assert lengths[0] == max(lengths) > min(lengths)  # the longest text is in the first batch
    close(results, [classify(text)[0] for text in texts])


def test_a_generator_is_read_as_needed(pipe):
    read = []
    texts = (read.append(text) or text for text in TEXTS)
    results = pipe("text-classification")(texts, batch_size=2)
    assert read == []
    first = next(results)
    assert read == TEXTS[:2]
    close([first, *results], pipe("text-classification")(TEXTS))


@pytest.mark.tensorflow
def test_a_dataset_streams(pipe):
    classify = pipe("text-classification")
    expected = classify(TEXTS)
    close(list(classify(tf.data.Dataset.from_tensor_slices(TEXTS))), expected)
    pairs = tf.data.Dataset.from_tensor_slices({"text": TEXTS, "text_pair": TEXTS[::-1]})
    close(list(classify(pairs)), classify(list(zip(TEXTS, TEXTS[::-1], strict=True))))


@pytest.mark.parametrize(
    ("made_with", "called_with", "received"),
    [
        ({"colour": "red"}, {}, "option colour. .*top_k"),
        ({}, {"colour": "red", "shape": "round"}, "option colour, shape. .*batch_size"),
        ({"truncation": "longest"}, {}, "truncation must be one of None, .* Received: 'longest'"),
    ],
)
def test_options_are_checked(pipe, made_with, called_with, received):
    with pytest.raises((TypeError, UserError), match=received):
        pipe("text-classification", **made_with)(TEXTS, **called_with)


def test_a_call_does_not_change_the_options(pipe):
    classify = pipe("text-classification", top_k=2)
    assert len(classify("a dog", top_k=3)) == 3
    assert len(classify(["a dog"])[0]) == 2


def test_model_and_tokenizer_must_fit(model, config, tokenizer):
    message = "'text-classification' .* AlbertForSequenceClassification. Received: AlbertModel"
    with pytest.raises(UserError, match=message):
        TextClassificationPipeline(model("feature-extraction"), tokenizer)
    larger = AlbertModel(config.replace(vocab_size=config.vocab_size + 1))
    with pytest.raises(UserError, match="must have the same vocabulary"):
        FeatureExtractionPipeline(larger, tokenizer)


def test_for_xla_a_short_text_is_padded_to_a_multiple_of_eight(pipe, model, shapes, monkeypatch):
    monkeypatch.setattr(model("text-classification"), "jit_compile", True)
    pipe("text-classification")("a dog")
    assert shapes == [(1, 8)]


SHORT = Texts("the cat sat")
LONG = Texts("the old dog barked at the moon over paris")  # 9 tokens
PAIR = Texts("who sat", "the old dog barked at the moon")  # 2 and 7 tokens
LONG_FIRST = Texts(*reversed(PAIR))


def rows(tokenizer, *texts, longest=8, **options):
    found = window_rows(tokenizer, texts, LongTextOptions(**options), longest)
    return [
        [ids.tolist() for _, ids in each] for each in found.by_example(found.arrays["input_ids"])
    ]


def pieces(tokenizer, text):
    return tokenizer(text, add_special_tokens=False).input_ids


def test_what_fits_is_one_row(tokenizer):
    mixed = [SHORT, Texts("who", "ada"), SHORT]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rows(tokenizer, *mixed)
    assert found == [[tokenizer(*texts).input_ids] for texts in mixed]


def test_what_is_too_long_is_cut_with_a_warning(tokenizer):
    with pytest.warns(UserWarning, match="more than 8 tokens are truncated.*stride=64"):
        found = rows(tokenizer, LONG)
    assert found == [[[2, *pieces(tokenizer, LONG.text)[:6], 3]]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows(tokenizer, LONG, truncation=True) == found


def test_windows(tokenizer):
    ids = pieces(tokenizer, LONG.text)
    assert rows(tokenizer, SHORT, LONG, stride=2) == [
        [tokenizer(SHORT.text).input_ids],
        [[2, *ids[:6], 3], [2, *ids[4:9], 3]],
    ]


def test_windows_of_a_pair(tokenizer):
    first, second = (pieces(tokenizer, text) for text in PAIR)
    found = rows(tokenizer, PAIR, stride=0)
    assert found == [[[2, *first, 3, *second[start : start + 3], 3] for start in (0, 3, 6)]]


@pytest.mark.parametrize(
    ("texts", "options", "received"),
    [
        (LONG, {"truncation": False}, "truncation=False, .* 8 tokens. Received: 'the"),
        (LONG, {"stride": -1}, "0 or more. Received: -1"),
        (LONG, {"stride": 6}, "less than 6, .* Received: stride=6"),
        (PAIR, {"stride": 3}, "has 2 tokens, .* 8 tokens with stride=3"),
        (LONG_FIRST, {"stride": 0}, "has 7 tokens, .* 8 tokens with stride=0"),
        (PAIR, {"stride": 0, "truncation": "only_first"}, "truncation='only_first', .* tokens"),
    ],
)
def test_options_that_leave_no_window(tokenizer, texts, options, received):
    with pytest.raises(UserError, match=received):
        rows(tokenizer, texts, **options)


@pytest.mark.parametrize("length", [2, 33])
def test_lengths_that_the_model_lacks(pipe, length):
    with pytest.raises(UserError, match=f"max_length must be between 3 and 32, .* {length}"):
        pipe("text-classification")("the cat", max_length=length)


def test_texts_in_every_form():
    assert as_text("é") == as_text("é".encode()) == "é"
    assert as_texts("a") == as_texts({"text": b"a"}) == Texts("a", None)
    assert as_texts(("a", "b")) == as_texts({"text": "a", "text_pair": "b"}) == Texts("a", "b")


@pytest.mark.parametrize(
    ("read", "given", "received"),
    [
        (as_text, None, "None of type NoneType"),
        (as_text, ["a"], r"\['a'\] of type list"),
        (as_texts, ("a", 3), "text_pair .*3"),
        (as_texts, ("a", "b", "c"), "tuple of two"),
        (as_texts, ["a", "b"], r"tuple of two .* Received: \['a', 'b'\]"),
        (as_texts, {"first": "a"}, "'text_pair'. Received: 'first'"),
        (as_texts, {}, "'text_pair'. Received: an empty dict"),
    ],
)
def test_no_texts(read, given, received):
    with pytest.raises(TypeError, match=received):
        read(given)
