import json

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.models.batch import arrays_of
from albert_tf.models.fitting import encoded
from albert_tf.text.tokenizer import AlbertTokenizer

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
    with pytest.raises(UserError, match="problem_type='single_label_class"):
        AlbertForSequenceClassification.from_pretrained(
            tmp_path, problem_type="single_label_classification"
        )


def test_every_weight_learns(model, features):
    before = [ops.convert_to_numpy(variable) for variable in model.trainable_weights]
    model.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    model.train_on_batch(features, np.arange(N) % 3)
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


@pytest.fixture(scope="module")
def made_reader(tiny_vocabulary, shallow_config, scrambled, tmp_path_factory):
    """Returns a model that takes texts, without dropout, and its first weights."""
    vocabulary = tmp_path_factory.mktemp("reader") / "spiece.model"
    vocabulary.write_bytes(tiny_vocabulary)
    tokenizer = AlbertTokenizer(vocabulary)
    config = shallow_config.replace(vocab_size=len(tokenizer), classifier_dropout_prob=0.0)
    model = scrambled(AlbertForSequenceClassification(config))
    model.tokenizer = tokenizer
    return model, model.get_weights()


@pytest.fixture
def reader(made_reader):
    model, weights = made_reader
    model.set_weights(weights)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model


@pytest.fixture
def encode(reader):
    def encode(*columns):
        length = reader.config.max_position_embeddings
        options = {"truncation": True, "max_length": length, "padding": True}
        return dict(reader.tokenizer(*columns, **options, return_tensors="np"))

    return encode


def assert_encoded(reader, encode, texts, columns, labels):
    """Texts in some form are encoded like their columns, in the same order."""
    length = reader.config.max_position_embeddings
    rows = reader.encode_examples(texts, labels, reader.tokenizer, length)
    found, expected = rows.inputs(np.arange(len(labels))), encode(*columns)
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(rows.labels["labels"], labels)


def test_forms_of_texts(reader, encode):
    for form in (list, tuple, np.array, lambda texts: np.array(texts, object), pd.Series):
        assert_encoded(reader, encode, form(TEXTS), (TEXTS,), CLASSES)


@pytest.mark.parametrize("count", [1, 2, len(TEXTS)])
def test_pairs_of_texts(reader, encode, count):
    """Whatever their number: two rows aren't taken for two columns."""
    columns = TEXTS[:count], PAIRS[:count]
    for pairs in (columns, [*zip(*columns, strict=True)]):
        assert_encoded(reader, encode, pairs, columns, CLASSES[:count])


def test_predictions_of_texts_keep_their_order(reader, encode):
    """Texts of similar length share a batch."""
    logits = reader.predict(encode(TEXTS, PAIRS), verbose=0)["logits"]
    found = reader.predict((TEXTS, PAIRS), batch_size=4, verbose=0)["logits"]
    np.testing.assert_allclose(found, logits, atol=1e-5)
    assert np.ptp(logits, axis=0).min() > 0.01


FRAME = pd.DataFrame({"text": TEXTS, "other": PAIRS})


@pytest.mark.parametrize(
    ("texts", "received"),
    [
        (("a film", "she came"), r"\('a film', 'she came'\), .* as rows or as columns"),
        ((("a film", "no"), ("the sea", "no")), "rows or as columns"),
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
    for method in (reader.predict, reader.evaluate, reader.fit):
        with pytest.raises(UserError, match=rf"Texts must be .*{received}\. "):
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
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis -1")
def test_no_rows(reader, nothing):
    """No answers; nothing to learn from."""
    assert reader.predict(nothing, verbose=0)["logits"].shape == (0, 3)
    for method in (reader.fit, reader.evaluate):
        with pytest.raises(UserError, match="at least one example"):
            method(nothing, np.zeros(0, "int32"), verbose=0)


def test_weights_in_other_forms(reader, encode):
    weights = np.linspace(0, 2, len(TEXTS)).astype("float32")
    for given in ({"labels": weights[:, None]}, pd.Series(weights, dtype="Float64")):
        (of_arrays,) = arrays_of(reader, encode(TEXTS), CLASSES, given).weights.values()
        for found in (encoded(reader, TEXTS, CLASSES, given).weights, np.ravel(of_arrays)):
            np.testing.assert_array_equal(found, weights)


def test_names_of_labels_in_fit(reader, encode, monkeypatch):
    """They are also converted in the validation data."""
    names, given = [f"LABEL_{label}" for label in CLASSES], []

    def note(model, x, y, validation_data, **_):
        given.append((x, y, *validation_data))

    monkeypatch.setattr(keras.Model, "fit", note)
    for features in (TEXTS, encode(TEXTS)):
        reader.fit(features, names, validation_data=(features, names), verbose=0)
    (texts, _, held_out, *_), (_, labels, _, held_out_labels, _) = given
    for found in (labels, held_out_labels, texts.batches.rows.labels["labels"]):
        np.testing.assert_array_equal(found, CLASSES)
    in_order = held_out.batches.rows.labels["labels"]  # of the texts' lengths
    np.testing.assert_array_equal(np.sort(in_order), np.sort(CLASSES))


@pytest.mark.tensorflow
def test_only_another_rank_is_traced_again(reader, encode, monkeypatch):
    """TensorFlow would relax the shape to an unknown rank. A new input is another structure."""
    arrays, weights, found = encode(TEXTS), np.ones(len(TEXTS)), []
    square = np.ones((len(TEXTS), *[arrays["input_ids"].shape[1]] * 2), "int32")
    calls = [
        (TEXTS, CLASSES, None, True),
        (arrays, CLASSES, None, False),
        (TEXTS, CLASSES[:, None], None, True),
        (arrays, CLASSES[:, None], weights, False),
        (arrays, CLASSES[:, None], None, False),
        (arrays, CLASSES[:, None], weights[:, None], True),
        (arrays | {"position_ids": square[:, 0]}, CLASSES[:, None], None, False),
        (arrays | {"attention_mask": square}, CLASSES[:, None], None, True),
    ]

    def note(model, *_, **__):
        found.append(model.test_function is None)
        model.test_function = len

    monkeypatch.setattr(keras.Model, "evaluate", note)
    reader.compile()
    for x, y, weights, _ in calls:
        reader.evaluate(x, y, sample_weight=weights)
    assert found == [is_traced for *_, is_traced in calls]


def test_the_order_of_texts_follows_the_seed(reader, monkeypatch):
    orders = []

    def note(model, x, **_):
        batches = x.batches
        orders.append([batches[index][1].tolist() for index in range(len(batches))])

    monkeypatch.setattr(keras.Model, "fit", note)
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        reader.fit(TEXTS, CLASSES, batch_size=4, verbose=0)
    assert orders[0] == orders[1] != orders[2]


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
            reader.evaluate(x, labels, verbose=0)


def test_star_ratings(reader, encode):
    """Ratings of 1 to 3 shift to the next class if they are read as class ids."""
    config = reader.config.replace(id2label={0: "1", 1: "2", 2: "3"})
    stars = AlbertForSequenceClassification(config)
    stars.tokenizer = reader.tokenizer
    stars.compile()
    names, features = np.array(["1", "2", "3"])[CLASSES], encode(TEXTS)
    np.testing.assert_array_equal(arrays_of(stars, features, names).labels["labels"], CLASSES)
    one, two = np.array([1, 2]), ops.convert_to_tensor([2, 2])
    forms = [1, 2], one, two, pd.Series([1.0, 2.0]), [one], {"labels": [1, 2]}, {"logits": two}
    with pytest.raises(UserError, match="ambiguous"):
        stars.fit({**encode(TEXTS[:2]), "labels": one}, verbose=0)
    for call in (stars.fit, stars.evaluate):
        for x in (TEXTS[:2], encode(TEXTS[:2])):
            for labels in forms:
                with pytest.raises(UserError, match="ambiguous.*'1', '2', '3'"):
                    call(x, labels, verbose=0)
            with pytest.raises(ValueError, match="from 0 to 2,.*Received: 3"):
                call(x, [1, 3], verbose=0)
    with pytest.raises(UserError, match=r"ambiguous.*Received: \[1\]"):
        stars.fit(TEXTS, names, class_weight={"3": 2.0, 1: 3.0}, verbose=0)
    one_hot = np.eye(3)[CLASSES]  # isn't ambiguous
    np.testing.assert_array_equal(arrays_of(stars, features, one_hot).labels["labels"], one_hot)


def test_a_hugging_face_dataset_is_not_columns(reader):
    import datasets  # takes seconds

    whole = datasets.Dataset.from_dict({"text": TEXTS, "label": CLASSES})
    for call in (reader.fit, reader.evaluate, reader.predict):
        with pytest.raises(UserError, match="to_tf_dataset.*Dataset with the columns text, label"):
            call(whole, verbose=0)


@pytest.mark.parametrize(
    ("problem_type", "label", "message"),
    [
        ("regression", NAN, "finite. Received: nan"),
        ("multi_label_classification", NAN, "finite. Received: nan"),
        ("multi_label_classification", -100, "between 0 and 1. Received: -100"),
        ("multi_label_classification", 7, "between 0 and 1. Received: 7"),
    ],
)
def test_numbers_that_no_label_has(shallow_config, small_features, problem_type, label, message):
    model = AlbertForSequenceClassification(shallow_config.replace(problem_type=problem_type))
    model.compile("sgd")
    labels = np.array([[0, 1, label], [1, 0, 1]])
    for call in (model.fit, model.evaluate, lambda x, labels: model(x, labels=labels)):
        with pytest.raises(ValueError, match=message):
            call(small_features, labels)


@pytest.mark.tensorflow
def test_weights_of_classes_among_ignored_labels(reader, encode):
    """In each form of the data, also of two batches."""
    import tensorflow as tf

    texts, classes, weights = TEXTS[:6], CLASSES[:6], {0: 2.0, 2: 0.5}
    labels, by_label = np.where(classes == 1, -100, classes), np.array([2.0, 1.0, 0.5])[classes]
    reader.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    expected = reader.test_on_batch(encode(texts), labels, by_label)
    dataset = tf.data.Dataset.from_tensor_slices((encode(texts), labels[:, None])).batch(4)
    whole = {**encode(texts), "labels": labels}  # Keras would ignore the weights
    for data in ((texts, labels), (encode(texts), labels), (whole,), (dataset,)):
        found = reader.fit(*data, class_weight=weights, verbose=0).history["loss"]
        assert found == [pytest.approx(expected, rel=1e-5)]


@pytest.mark.parametrize(
    ("option", "weights", "received"),
    [
        ("sample_weight", [1.0], r"15 examples.*\(1,\)"),
        ("sample_weight", np.ones(len(TEXTS) + 1), r"15 examples.*\(16,\)"),
        ("sample_weight", np.ones((len(TEXTS), 2)), r"15 examples.*\(15, 2\)"),
        ("sample_weight", {"labels": [1.0] * len(TEXTS), "logits": None}, "15 examples.*labels"),
        ("class_weight", [1.0, 2.0], r"\[1.0, 2.0\]"),
        ("class_weight", {"good": 2.0}, "LABEL_0, .*'good'"),
        ("class_weight", {3: 2.0}, "3"),
        ("class_weight", {1: None}, "None for 1"),
        ("class_weight", {1: NAN}, "nan for 1"),
        ("class_weight", {1: -1}, "-1 for 1"),
        ("class_weight", {1: 2.0, "LABEL_1": 3.0}, "only once.*{1: 2.0, 'LABEL_1': 3.0}"),
    ],
)
def test_weights_that_are_refused(reader, option, weights, received):
    with pytest.raises(UserError, match=f"{option} .*{received}"):
        reader.fit(TEXTS, CLASSES, **{option: weights}, verbose=0)


def test_fewer_labels_than_texts(reader):
    with pytest.raises(UserError, match="Received: 15 texts, 14 label"):
        reader.fit(TEXTS, CLASSES[1:], verbose=0)


def test_another_vocabularys_tokenizer(reader, shallow_config):
    model = AlbertForSequenceClassification(shallow_config)
    model.tokenizer = reader.tokenizer
    with pytest.raises(UserError, match="must have the same vocabulary. Received: "):
        model.predict(TEXTS, verbose=0)
