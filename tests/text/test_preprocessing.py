"""The layer, of either kind of vocabulary: eagerly, in tf.data, saved, exported."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece import WordPieceTokenizer
from tests.text.conftest import vocab_text

TEXTS = [
    "The old library, on a hill",
    "",
    "sold 20,000 books at 7:45 for £3.50 [SEP] nearly free",
    "北京大学，天气很好！",
    "The LIBRARY in 1999, É 😀",
    "[SEP] a\x00b\x00",
    "中" * 40,
    "の" * 101,
]
PAIRS = ["free", "on a hill", "the old library on a hill sold books", "中国"]
PAIRS += ["", "hello", "我爱", "x"]
ODD_BYTES = [
    b"\xff",
    b"a\xff\xfec\xc3 d \xed\xa0\x80 the\xf4\x90\x80\x80y",
    b"\xe4\xb8a \xe4\xb8",
    b"\xff\xff \xff\xe4\xb8\x80",
    b"\xc0\xaf x",
    b"a\x00\x00",
    "a\ufffdb \U0010ffff".encode(),
]
NAMES = ("input_ids", "attention_mask", "token_type_ids")
pytestmark = pytest.mark.usefixtures("few_characters")


@pytest.fixture(scope="module")
def plain(tokenizer):
    return AlbertTokenizer(tokenizer.model_bytes, split_special_tokens=True)


@pytest.fixture(scope="module", params=["sentencepiece", "xlm-roberta", "wordpiece"])
def encoder(request, plain, xlm_roberta):
    """A tokenizer that reads special tokens in texts as plain text, like the layer."""
    if request.param == "sentencepiece":
        return plain
    if request.param == "xlm-roberta":
        return AlbertTokenizer(xlm_roberta.model_bytes, split_special_tokens=True)
    return WordPieceTokenizer(vocab_text("google"), split_special_tokens=True)


def lists(features):
    return {name: np.asarray(features[name]).tolist() for name in NAMES}


def test_agrees_with_the_tokenizer(encoder):
    least = encoder.num_special_tokens_to_add(pair=True)
    paddings = {least: "longest", least + 1: "max_length", 12: "max_length", 61: "longest"}
    for max_length, padding in paddings.items():
        layer = AlbertPreprocessor(encoder, max_length, padding)
        options = {"max_length": max_length, "truncation": True, "padding": padding}
        assert lists(layer(TEXTS)) == lists(encoder(TEXTS, **options))
        assert lists(layer((TEXTS, PAIRS))) == lists(encoder(TEXTS, PAIRS, **options))


def test_truncation_on_the_left_and_the_config(encoder):
    left = copy.copy(encoder)
    left.truncation_side = "left"
    layer = AlbertPreprocessor(left, 9, "longest", name="words")
    again = AlbertPreprocessor.from_config(layer.get_config())
    assert (again.name, again.max_length, again.padding) == ("words", 9, "longest")
    assert again.vocabulary == encoder.model_bytes
    options = {"max_length": 9, "truncation": True, "padding": "longest"}
    rows = left(TEXTS, PAIRS, **options)
    assert lists(layer((TEXTS, PAIRS))) == lists(rows)
    assert lists(again((TEXTS, PAIRS))) == lists(rows)
    assert lists(layer(TEXTS)) == lists(left(TEXTS, **options))
    assert lists(layer(TEXTS)) != lists(encoder(TEXTS, **options))


def test_shapes_and_dtypes(plain):
    features = AlbertPreprocessor(plain, 7)(tf.constant(TEXTS))
    assert {name: array.dtype for name, array in features.items()} == dict.fromkeys(NAMES, tf.int32)
    for padding, width in (("max_length", 7), ("longest", 2)):
        empty = AlbertPreprocessor(plain, 7, padding)(tf.constant([], tf.string))
        assert empty["input_ids"].shape == (0, width)


def test_inputs_of_every_kind(plain):
    layer = AlbertPreprocessor(plain, 16)
    expected = lists(layer(tf.constant(TEXTS)))
    for texts in (TEXTS, np.array(TEXTS, object), [text.encode() for text in TEXTS]):
        assert lists(layer(texts)) == expected
    assert lists(layer(np.array(TEXTS[:4]))) == lists(layer(TEXTS[:4]))
    assert lists(layer([tf.constant(TEXTS), tf.constant(PAIRS)])) == lists(layer((TEXTS, PAIRS)))


def test_nuls_at_the_end_and_invalid_bytes(encoder):
    ids = lists(AlbertPreprocessor(encoder, 16)(ODD_BYTES))
    options = {"max_length": 16, "padding": "max_length"}
    assert ids == lists(encoder(ODD_BYTES, **options))
    escaped = [text.decode("utf-8", "surrogateescape") for text in ODD_BYTES]
    assert ids == lists(encoder(escaped, **options))
    unknown = [row.count(encoder.unk_token_id) for row in ids["input_ids"]]
    assert unknown[0] == 1
    assert unknown[5] == isinstance(encoder, AlbertTokenizer)  # WordPiece drops NULs


def test_dataset(plain):
    layer = AlbertPreprocessor(plain, 16)
    labels = np.arange(len(TEXTS))
    dataset = tf.data.Dataset.from_tensor_slices(((TEXTS, PAIRS), labels)).batch(len(TEXTS))
    dataset = dataset.map(lambda texts, label: (layer(texts), label), num_parallel_calls=2)
    assert dataset.element_spec[0]["input_ids"].shape.as_list() == [None, 16]
    features, _ = next(iter(dataset))
    assert lists(features) == lists(layer((TEXTS, PAIRS)))


def test_keras_file_keeps_the_options(tmp_path):
    options = {"do_lower_case": False, "truncation_side": "left"}
    tokenizer = WordPieceTokenizer(vocab_text("google"), **options)
    inputs = tuple(keras.Input((), dtype="string") for _ in range(2))
    layer = AlbertPreprocessor(tokenizer, 11)
    keras.Model(inputs, layer(inputs)).save(tmp_path / "preprocessor.keras")
    again = keras.saving.load_model(tmp_path / "preprocessor.keras")
    texts, pairs = ["Cased the", "the " * 9], ["cased", "hello"]
    rows = tokenizer(texts, pairs, padding="max_length", truncation=True, max_length=11)
    assert lists(again((tf.constant(texts), tf.constant(pairs)))) == lists(rows)


@pytest.mark.parametrize("encoder", ["wordpiece"], indirect=True)
def test_tflite_pairs(encoder, tflite_runner):
    layer = AlbertPreprocessor(encoder, 11)
    runner = tflite_runner(layer, pairs=True)
    odd = [(each, b"") for each in ODD_BYTES]
    for first, second in [*zip(TEXTS, PAIRS, strict=True), *odd]:
        assert lists(runner(first, second)) == lists(layer(([first], [second])))


def test_long_texts(encoder):
    beginnings = (b"the old library, on a hill " * 4_000, b"x" * 100_000, b"\xff" * 100_000)
    texts = [beginning + b" end" for beginning in beginnings]
    options = {"max_length": 4096, "truncation": True, "padding": "max_length"}
    assert lists(AlbertPreprocessor(encoder, 4096)(texts)) == lists(encoder(texts, **options))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_texts_without_partners(plain, count):
    """One partner was broadcast to every text."""
    layer = AlbertPreprocessor(plain)
    pairs = tf.constant(["a", "b"]), tf.constant(["c"] * count, tf.string)
    for call in (layer, tf.function(layer)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="same number of texts"):
            call(pairs)


@pytest.mark.parametrize(
    ("vocabulary", "options", "message"),
    [
        ("unbaked", {}, r"doesn't contain its norm.*AlbertTokenizer\(vocab_file\)"),
        ("spiece.model", {}, "bytes of a model from .*bake. Received: 'spiece.model'"),
        ("plain", {"max_length": 2}, "3 or more. Received: 2"),
        ("plain", {"padding": True}, "'max_length' or 'longest'. Received: True"),
    ],
)
def test_wrong_arguments(plain, unbaked, vocabulary, options, message):
    given = {"plain": plain, "unbaked": unbaked}.get(vocabulary, vocabulary)
    with pytest.raises((TypeError, ValueError), match=message):
        AlbertPreprocessor(given, **options)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a text", "of shape \\[B\\]. Received: 'a text'"),
        (tf.constant("a text"), "Batch single texts first"),
        (tf.constant([1, 2]), "Received: dtype int32"),
        (([], [], []), "two batches of texts. Received: 3"),
        (["a", 5], "must be a str .*Received: 5"),
    ],
)
def test_wrong_texts(plain, texts, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AlbertPreprocessor(plain)(texts)


class Scorer(keras.Model):
    """A user's model whose first layer reads strings."""

    def __init__(self, read):
        super().__init__()
        self.read, self.score = read, keras.layers.Dense(3)

    def call(self, texts):
        return self.score(keras.ops.cast(self.read(texts)["input_ids"], "float32"))


def test_keras_exports_a_model_of_strings(plain, tmp_path):
    """Keras also traces the model with float32, which it assumes for inputs."""
    model = Scorer(AlbertPreprocessor(plain, 9))
    model([tf.constant(TEXTS), tf.constant(PAIRS)])
    strings = keras.InputSpec(shape=(None,), dtype="string")
    model.export(tmp_path, input_signature=[[strings, strings]], verbose=False)
    served = tf.saved_model.load(tmp_path)
    for count in (len(TEXTS), 2):
        inputs = [tf.constant(TEXTS[:count]), tf.constant(PAIRS[:count])]
        np.testing.assert_array_equal(served.serve(inputs), model(inputs))


def test_a_graph_of_numbers_is_an_error_when_it_runs(plain):
    layer = AlbertPreprocessor(plain, 9)
    with pytest.raises(tf.errors.InvalidArgumentError, match="strings.*Received: dtype float32"):
        tf.function(layer)(tf.constant([1.0, 2.0]))
    with pytest.raises(ValueError, match="Received: dtype int32"):
        tf.function(layer)(tf.constant([1, 2]))
