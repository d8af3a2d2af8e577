import json
from collections.abc import Sequence

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification

N = 24
NAN = float("nan")


@pytest.fixture
def features():
    ids = np.random.default_rng(9).integers(5, 31, (N, 7)).astype("int32")
    return {"input_ids": ids, "token_type_ids": ids % 2}


@pytest.fixture
def model(shallow_config):
    keras.utils.set_random_seed(1)
    config = shallow_config.replace(classifier_dropout_prob=0.0, initializer_range=0.2)
    return AlbertForSequenceClassification(config)


def test_one_label_is_regression_everywhere(shallow_config, small_features, scrambled, tmp_path):
    """Loss, probabilities, the saved configuration and the model that is loaded agree."""
    model = scrambled(AlbertForSequenceClassification(shallow_config.replace(num_labels=1)))
    assert model.config.problem_type == model.problem_type == "regression"
    logits = model(small_features).logits
    assert model.probabilities(logits) is logits
    targets = np.array([[0.5], [-2.0]], "float32")
    expected = np.mean((np.asarray(logits) - targets) ** 2)
    for labels in (targets, targets[:, 0]):
        assert float(model(small_features, labels=labels).loss) == pytest.approx(expected)
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["problem_type"] == "regression"
    assert AlbertForSequenceClassification.from_pretrained(tmp_path).config == model.config
    with pytest.raises(UserError, match="numbers, .*BinaryCrossentropy .*for several"):
        model.compile("sgd", loss="binary_crossentropy")
    with pytest.raises(UserError, match="problem_type='single_label_class"):
        AlbertForSequenceClassification.from_pretrained(
            tmp_path, problem_type="single_label_classification"
        )


def test_one_label_that_may_be_absent(shallow_config, small_features, scrambled):
    config = shallow_config.replace(num_labels=1, problem_type="multi_label_classification")
    model = scrambled(AlbertForSequenceClassification(config))
    labels = np.array([1, 0])
    own = float(model(small_features, labels=labels).loss)
    metrics = ["accuracy", "binary_accuracy"]
    model.compile("sgd", loss="binary_crossentropy", metrics=metrics, run_eagerly=True)
    logits = np.asarray(model(small_features).logits)[:, 0]
    right = ((logits > 0) == labels).mean()
    found = model.evaluate(small_features, labels, verbose=0)
    assert found == pytest.approx([own, right, right], rel=1e-5)


def test_every_weight_learns(model, features):
    before = [ops.convert_to_numpy(variable) for variable in model.trainable_weights]
    model.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    model.fit(features, np.arange(N) % 3, batch_size=8, verbose=0)
    still = {
        variable.path
        for old, variable in zip(before, model.trainable_weights, strict=True)
        if np.abs(ops.convert_to_numpy(variable) - old).max() < 1e-5
    }
    # A bias of all keys moves every score of a query alike, which softmax doesn't see.
    assert still == {"albert/encoder/group_0_block_0/attention/key/bias"}


def test_the_last_layer_is_computed_where_it_is_read(model, features):
    """The layers' outputs, where requested, are whole, and the logits the same."""
    whole = model(features, output_hidden_states=True)
    assert whole.hidden_states[-1].shape == (N, 7, model.config.hidden_size)
    lengths = []
    ffn = model.albert.encoder.blocks[-1].ffn
    call = ffn.call
    ffn.call = lambda hidden, **kwargs: lengths.append(hidden.shape[1]) or call(hidden, **kwargs)
    np.testing.assert_allclose(model(features).logits, whole.logits, atol=1e-5)
    assert lengths == [1]


TEXTS = ["a film", "the old man went to the sea", "a quiet delight", "broken", "she came"] * 3
PAIRS = ["who came", "a man", "what is it", "the sea and the film", "no"] * 3
CLASSES = np.arange(len(TEXTS)) % 3


@pytest.fixture
def reader(tiny_tokenizer, shallow_config, scrambled):
    """A model that takes texts, without dropout."""
    config = shallow_config.replace(vocab_size=len(tiny_tokenizer), classifier_dropout_prob=0.0)
    model = scrambled(AlbertForSequenceClassification(config))
    model.tokenizer = tiny_tokenizer
    model.compile(keras.optimizers.SGD(0.1), metrics=["accuracy"], run_eagerly=True)
    return model


@pytest.fixture
def encode(tiny_tokenizer, shallow_config):
    def encode(*columns):
        length = shallow_config.max_position_embeddings
        options = {"truncation": True, "max_length": length, "padding": True}
        return dict(tiny_tokenizer(*columns, **options, return_tensors="np"))

    return encode


@pytest.mark.parametrize(
    "form",
    [list, tuple, np.array, lambda texts: np.array(texts, object)],
    ids=["list", "tuple", "array", "objects"],
)
def test_texts_are_read_as_their_ids(reader, encode, form):
    """`predict` keeps their order, though texts of similar length share a batch."""
    features = encode(TEXTS)
    expected = reader.evaluate(features, CLASSES, batch_size=4, verbose=0)
    found = reader.evaluate(form(TEXTS), CLASSES, batch_size=4, verbose=0)
    assert found == pytest.approx(expected, abs=1e-5)
    logits = reader.predict(features, verbose=0)["logits"]
    found = reader.predict(form(TEXTS), batch_size=4, verbose=0)
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)
    assert np.ptp(logits, axis=0).min() > 0.01


@pytest.mark.parametrize("count", [1, 2, len(TEXTS)])
@pytest.mark.parametrize(
    "form",
    [lambda *columns: columns, lambda *columns: [*zip(*columns, strict=True)]],
    ids=["columns", "rows"],
)
def test_pairs_of_texts(reader, encode, form, count):
    """Whatever their number: two rows aren't taken for two columns."""
    columns, labels = (TEXTS[:count], PAIRS[:count]), CLASSES[:count]
    features, pairs = encode(*columns), form(*columns)
    expected = reader.predict(features, verbose=0)["logits"]
    np.testing.assert_allclose(reader.predict(pairs, verbose=0)["logits"], expected, atol=1e-5)
    expected = reader.evaluate(features, labels, verbose=0)
    assert reader.evaluate(pairs, labels, verbose=0) == pytest.approx(expected, abs=1e-5)
    history = reader.fit(pairs, labels, validation_data=(pairs, labels), verbose=0).history
    assert history["loss"] == [pytest.approx(expected[0], abs=1e-5)]


FRAME = pd.DataFrame({"text": TEXTS, "other": PAIRS})


@pytest.mark.parametrize(
    ("texts", "received"),
    [
        (
            ("a film", "she came"),
            r"\('a film', 'she came'\), which can be read as rows or as columns",
        ),
        ((("a film", "no"), ("the sea", "no")), "which can be read as rows or as columns"),
        ([TEXTS, PAIRS], r"\(list\) in row 0"),
        ([("a film", "no"), ("a film", None)], r"None \(NoneType\) in row 1"),
        ([("a film", "no"), "the sea"], r"\('a film', 'no'\) \(tuple\) in row 0"),
        ((TEXTS, PAIRS[1:]), "15 texts and 14 texts"),
        ("a film", "'a film'"),
        (["a film", None, "no"], r"None \(NoneType\) in row 1"),
        (pd.Series(["a film", None]), r"nan \(float\) in row 1"),
        ([b"a film", b"no"], r"b'a film' \(bytes\) in row 0"),
        (FRAME, r"DataFrame of shape \(15, 2\)"),
    ],
)
def test_texts_in_other_forms(reader, texts, received):
    message = rf"Texts must be a list of strings.*Received: .*{received}\. .*AlbertPrep"
    for method in (reader.predict, reader.evaluate, reader.fit):
        with pytest.raises(UserError, match=message):
            method(texts, verbose=0)


@pytest.mark.tensorflow
def test_tensors_of_texts(reader):
    """`AlbertPreprocessor` takes them."""
    import tensorflow as tf

    texts = tf.constant(["a film", "no"])
    with pytest.raises(UserError, match=r"Tensor of shape \(2,\).*AlbertPreprocessor"):
        reader.predict(texts, verbose=0)
    with pytest.raises(UserError, match="Received: '…', … as input_ids.*AlbertPreprocessor"):
        reader.predict(tf.data.Dataset.from_tensors(texts), verbose=0)


@pytest.mark.parametrize("nothing", [[], (), ([], []), {"input_ids": np.zeros((0, 7), "int32")}])
def test_no_rows(reader, nothing):
    """No answers; nothing to learn from."""
    assert reader.predict(nothing, verbose=0)["logits"].shape == (0, 3)
    for method in (reader.fit, reader.evaluate):
        with pytest.raises(UserError, match="at least one example"):
            method(nothing, np.zeros(0, "int32"), verbose=0)


def test_weights_in_other_forms(reader, encode):
    weights = np.linspace(0, 2, len(TEXTS))
    expected = reader.evaluate(TEXTS, CLASSES, sample_weight=weights, verbose=0)
    for given in ({"labels": weights[:, None]}, pd.Series(weights, dtype="Float64")):
        for x in (TEXTS, encode(TEXTS)):
            found = reader.evaluate(x, CLASSES, sample_weight=given, verbose=0)
            assert found == pytest.approx(expected, abs=1e-5)


def test_the_order_of_texts_follows_the_seed(reader):
    start, losses = reader.get_weights(), []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        reader.set_weights(start)
        losses += reader.fit(TEXTS, CLASSES, batch_size=4, verbose=0).history["loss"]
    assert losses[0] == losses[1] != losses[2]


def test_names_of_labels(reader, encode):
    names = np.array(["LABEL_0", "LABEL_1", "LABEL_2"])[CLASSES]
    expected = pytest.approx(reader.evaluate(TEXTS, CLASSES, verbose=0))
    categories = [pd.Series(each, dtype="category") for each in (names, CLASSES)]
    for labels in (names.tolist(), *categories):
        assert reader.evaluate(TEXTS, labels, verbose=0) == expected
    assert reader.evaluate(encode(TEXTS), names, verbose=0) == expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["LABEL_0", "good"], "label2id .LABEL_0, .*Received: 'good' in row 1"),
        (["LABEL_0", None], "Received: None in row 1"),
        (["LABEL_0", 0], "Received: 0 in row 1"),
        ([0, None], "must be numbers.*Received: None"),
        ([0, NAN], "class ids .*Received: nan"),
        ([0, 3], "from 0 to 2,.*Received: 3"),
        (None, "loss requires labels"),
    ],
)
def test_labels_of_texts_that_are_refused(reader, encode, labels, message):
    for x in (TEXTS[:2], encode(TEXTS[:2])):
        with pytest.raises(ValueError, match=message):
            reader.fit(x, labels, verbose=0)


def test_star_ratings(reader, encode):
    """Ratings of 1 to 3 shift to the next class if they are read as class ids."""
    stars = AlbertForSequenceClassification(
        reader.config.replace(id2label={0: "1", 1: "2", 2: "3"})
    )
    stars.set_weights(reader.get_weights())
    stars.tokenizer = reader.tokenizer
    stars.compile(metrics=["accuracy"])
    expected = stars.evaluate(TEXTS, CLASSES, verbose=0)
    names = np.array(["1", "2", "3"])[CLASSES]
    assert 0 in CLASSES and stars.evaluate(TEXTS, names, verbose=0) == expected
    one, two = np.array([1, 2]), ops.convert_to_tensor([2, 2])
    forms = [1, 2], one, two, pd.Series([1.0, 2.0]), [one], {"labels": [1, 2]}, {"logits": two}
    with pytest.raises(UserError, match="ambiguous"):
        stars.fit({**encode(TEXTS[:2]), "labels": one}, verbose=0)
    for call in (stars.fit, stars.evaluate):
        for x in (TEXTS[:2], encode(TEXTS[:2])):
            for labels in forms:
                with pytest.raises(UserError, match=r"ambiguous.*'1', '2', '3'.*str\(label\)"):
                    call(x, labels, verbose=0)
            with pytest.raises(ValueError, match="from 0 to 2,.*Received: 3"):
                call(x, [1, 3], verbose=0)
    with pytest.raises(UserError, match=r"ambiguous.*Received: \[1\]"):
        stars.fit(TEXTS, names, class_weight={"3": 2.0, 1: 3.0}, verbose=0)


def test_probabilities_are_not_ambiguous(shallow_config, small_features):
    model = AlbertForSequenceClassification(
        shallow_config.replace(id2label={0: "2", 1: "1", 2: "0"})
    )
    model.compile()
    expected = model.evaluate(small_features, ["1", "0"], verbose=0)
    assert model.evaluate(small_features, np.eye(3)[[1, 2]], verbose=0) == pytest.approx(expected)


@pytest.mark.parametrize("problem_type", [None, "multi_label_classification"])
def test_names_of_labels_in_other_forms(reader, encode, problem_type):
    """A DataFrame has a column for each label, in any order."""
    model = AlbertForSequenceClassification(
        reader.config.replace(id2label={0: "b", 1: "c", 2: "a"}, problem_type=problem_type)
    )
    model.tokenizer = reader.tokenizer
    model.compile()
    texts, names = TEXTS[:4], ["a", "c", "a", "b"]
    one_hot = np.eye(3)[[2, 1, 2, 0]]
    forms = [pd.get_dummies(pd.Series(names), dtype=float), {"labels": one_hot}]
    if problem_type is None:
        forms += [names, {"labels": names}, {"logits": names}, Column(names), Column([2, 1, 2, 0])]
    else:
        forms += [
            pd.get_dummies(pd.Series(names)),
            pd.get_dummies(pd.Series(names)).astype("Int64"),
            [{name} for name in names],
            Column([[name] for name in names]),
            Column(one_hot),
        ]
    expected = model.evaluate(encode(texts), one_hot, verbose=0)
    for x in (texts, encode(texts), Column(texts)):
        for labels in forms:
            assert model.evaluate(x, labels, verbose=0) == pytest.approx(expected, abs=1e-5)
    if problem_type is None:
        features = {**encode(texts), "labels": names}
        assert model.evaluate(features, verbose=0) == pytest.approx(expected, abs=1e-5)


class Column(Sequence):
    """A column of a Hugging Face dataset, which is neither a list nor an array."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]


def test_a_hugging_face_dataset_is_not_columns(reader):
    import datasets  # takes seconds

    whole = datasets.Dataset.from_dict({"text": TEXTS, "label": CLASSES})
    for call in (reader.fit, reader.evaluate, reader.predict):
        with pytest.raises(UserError, match="to_tf_dataset.*Dataset with the columns text, label"):
            call(whole, verbose=0)


@pytest.mark.parametrize(
    ("weights", "received"),
    [
        ([1.0], r"\(1,\)"),
        (np.ones(len(TEXTS) + 1), r"\(16,\)"),
        (np.ones((len(TEXTS), 2)), r"\(15, 2\)"),
        ({"labels": [1.0] * len(TEXTS), "logits": None}, "labels"),
    ],
)
def test_weights_that_are_not_one_per_text(reader, weights, received):
    with pytest.raises(UserError, match=f"one weight for each of the 15 examples.*{received}"):
        reader.fit(TEXTS, CLASSES, sample_weight=weights, verbose=0)


def test_fewer_labels_than_texts(reader):
    with pytest.raises(UserError, match="one value per example. Received: 15 texts, 14 label"):
        reader.fit(TEXTS, CLASSES[1:], verbose=0)


@pytest.mark.parametrize("problem_type", ["regression", "multi_label_classification"])
def test_numbers_that_are_not_finite_among_labels(shallow_config, small_features, problem_type):
    model = AlbertForSequenceClassification(shallow_config.replace(problem_type=problem_type))
    model.compile("sgd")
    labels = np.array([[0.0, 1.0, NAN], [1.0, 0.0, 1.0]])
    for call in (model.fit, model.evaluate, lambda x, labels: model(x, labels=labels)):
        with pytest.raises(ValueError, match="must be finite. Received: nan"):
            call(small_features, labels)


def test_weights_of_classes_by_name(reader):
    start, trained = reader.get_weights(), []
    for weights in ({0: 1.0, 1: 0.0, 2: 3.0}, {"LABEL_1": 0.0, "LABEL_2": 3.0}):
        reader.set_weights(start)
        reader.fit(TEXTS, CLASSES, class_weight=weights, batch_size=32, epochs=2, verbose=0)
        trained.append(reader.get_weights())
    for one, other in zip(*trained, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    assert np.abs(start[-1] - trained[0][-1]).max() > 1e-4


@pytest.mark.tensorflow
def test_weights_of_classes_among_ignored_labels(reader, encode):
    """In each form of the data, also of two batches."""
    import tensorflow as tf

    labels, weights = np.where(CLASSES == 1, -100, CLASSES), {0: 2.0, 2: 0.5}
    reader.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    by_label = np.array([2.0, 1.0, 0.5])[CLASSES]
    expected = reader.evaluate(TEXTS, labels, sample_weight=by_label, verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices((encode(TEXTS), labels[:, None])).batch(8)
    for data in ((TEXTS, labels), (encode(TEXTS), labels), (dataset,)):
        found = reader.fit(*data, class_weight=weights, verbose=0).history["loss"]
        assert found == [pytest.approx(expected, rel=1e-5)]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"must be a dict. Received: \[1.0, 2.0\].*dict\(enumerate\(weights\)\)"),
        ({"good": 2.0}, "LABEL_0, .*Received: 'good'"),
        ({3: 2.0}, "Received: 3"),
        ({1: None}, ">= 0. Received: None for 1"),
        ({1: NAN}, ">= 0. Received: nan for 1"),
        ({1: -1}, ">= 0. Received: -1 for 1"),
        ({1: 2.0, "LABEL_1": 3.0}, "only once.*Received: {1: 2.0, 'LABEL_1': 3.0}"),
    ],
)
def test_weights_of_classes_that_are_refused(reader, weights, message):
    with pytest.raises(UserError, match=message):
        reader.fit(TEXTS, CLASSES, class_weight=weights, verbose=0)


def test_another_vocabularys_tokenizer(reader, shallow_config):
    model = AlbertForSequenceClassification(shallow_config)
    model.tokenizer = reader.tokenizer
    with pytest.raises(UserError, match="must have the same vocabulary. Received: "):
        model.predict(TEXTS, verbose=0)
