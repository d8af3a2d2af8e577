"""The layer, of either kind of vocabulary: eagerly, in tf.data, saved, exported."""

import copy
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece import WordPieceTokenizer

TEXTS = {
    "sentencepiece": [
        "The old library, on a hill",
        "",
        "a",
        "sold 20,000 books at 7:45 for £3.50 [SEP] nearly free",
    ],
    "wordpiece": [
        "北京大学，天气很好！",
        "",
        "The LIBRARY in 1999, É 😀",
        "[SEP] a\x00b\x00",
        "中" * 40,
        "の" * 101,
    ],
}
PAIRS = {
    "sentencepiece": ["free", "on a hill", "the old library on a hill sold books", ""],
    "wordpiece": ["中国", "人民 worlding", "", "hello", "我爱你们的", "x"],
}
ODD_BYTES = [
    b"\xff",
    b"a\xff\xfec\xc3 d \xed\xa0\x80 the",
    b"\xe4\xb8a \xe4\xb8",
    b"\xff\xe4\xb8\x80",
    b"a\x00\x00",
    "hill \udcff",
]
NAMES = ("input_ids", "attention_mask", "token_type_ids")


@pytest.fixture(params=TEXTS)
def kind(request):
    return request.param


@pytest.fixture
def texts(kind):
    return TEXTS[kind]


@pytest.fixture
def pairs(kind):
    return PAIRS[kind]


@pytest.fixture(scope="module")
def encoders(plain, vocab_text):
    """Tokenizers that read special tokens in texts as plain text, like the layer."""
    chinese = WordPieceTokenizer(vocab_text().encode(), split_special_tokens=True)
    return {"sentencepiece": plain, "wordpiece": chinese}


@pytest.fixture
def encoder(kind, encoders):
    return encoders[kind]


@pytest.fixture(scope="module")
def plain(tokenizer):
    return AlbertTokenizer(tokenizer.model_bytes, split_special_tokens=True)


def lists(features):
    return {name: np.asarray(features[name]).tolist() for name in NAMES}


@pytest.mark.parametrize("padding", ["max_length", "longest"])
@pytest.mark.parametrize("max_length", [3, 4, 7, 12, 61])
def test_agrees_with_the_tokenizer(encoder, texts, pairs, max_length, padding):
    layer = AlbertPreprocessor(encoder, max_length, padding)
    options = {"max_length": max_length, "truncation": True, "padding": padding}
    assert lists(layer(texts)) == lists(encoder(texts, **options))
    assert lists(layer((texts, pairs))) == lists(encoder(texts, pairs, **options))


@pytest.mark.parametrize("max_length", [4, 9])
def test_truncation_on_the_left(encoder, texts, pairs, max_length, tmp_path):
    left = copy.copy(encoder)
    left.truncation_side = "left"
    layer, again = saved_and_loaded(left, tmp_path, max_length)
    options = {"max_length": max_length, "truncation": True, "padding": "max_length"}
    rows = left(texts, pairs, **options)
    assert lists(layer((texts, pairs))) == lists(rows)
    assert lists(again((tf.constant(texts), tf.constant(pairs)))) == lists(rows)
    assert lists(layer(texts)) == lists(left(texts, **options))
    assert lists(layer(texts)) != lists(encoder(texts, **options))


def test_shapes_and_dtypes(plain):
    features = AlbertPreprocessor(plain, 7)(tf.constant(TEXTS["sentencepiece"]))
    assert {
        name: (array.dtype, tuple(array.shape)) for name, array in features.items()
    } == dict.fromkeys(NAMES, (tf.int32, (4, 7)))
    for padding, width in (("max_length", 7), ("longest", 2)):
        empty = AlbertPreprocessor(plain, 7, padding)(tf.constant([], tf.string))
        assert empty["input_ids"].shape == (0, width)


def test_inputs_of_every_kind(plain):
    texts, pairs = TEXTS["sentencepiece"], PAIRS["sentencepiece"]
    layer = AlbertPreprocessor(plain, 16)
    expected = lists(layer(tf.constant(texts)))
    assert lists(layer(texts)) == expected
    assert lists(layer(np.array(texts))) == expected
    assert lists(layer(np.array(texts, dtype=object))) == expected
    assert lists(layer([text.encode() for text in texts])) == expected
    assert lists(layer([tf.constant(texts), tf.constant(pairs)])) == lists(layer((texts, pairs)))


def test_nuls_at_the_end_and_invalid_bytes(encoder, kind):
    ids = lists(AlbertPreprocessor(encoder, 16)(ODD_BYTES))
    assert ids == lists(encoder(ODD_BYTES, max_length=16, padding="max_length"))
    unknown = [row.count(encoder.unk_token_id) for row in ids["input_ids"]]
    assert unknown[0] == unknown[-1] == 1
    assert unknown[4] == (kind == "sentencepiece")  # WordPiece drops NULs


def test_other_orders_of_special_tokens(vocab_text):
    tokenizer = WordPieceTokenizer(vocab_text("last").encode())
    size, piece = len(tokenizer), tokenizer.convert_tokens_to_ids("中")
    row = [size - 3, piece, size - 4, size - 1, size - 1]
    assert lists(AlbertPreprocessor(tokenizer, 5)(["中"]))["input_ids"] == [row]


def test_dataset(encoder, texts, pairs):
    layer = AlbertPreprocessor(encoder, 16)
    labels = np.arange(len(texts))
    dataset = tf.data.Dataset.from_tensor_slices(((texts, pairs), labels)).batch(len(texts))
    dataset = dataset.map(lambda texts, label: (layer(texts), label), num_parallel_calls=2)
    assert dataset.element_spec[0]["input_ids"].shape.as_list() == [None, 16]
    features, _ = next(iter(dataset))
    assert lists(features) == lists(layer((texts, pairs)))


def test_config_restores_the_layer(encoder, texts):
    layer = AlbertPreprocessor(encoder, 11, "longest", name="words")
    again = AlbertPreprocessor.from_config(layer.get_config())
    assert (again.name, again.max_length, again.padding) == ("words", 11, "longest")
    assert again.vocabulary == encoder.model_bytes
    assert lists(again(texts)) == lists(layer(texts))


def saved_and_loaded(tokenizer, folder, max_length=11):
    """Returns a layer, and a model of it for pairs that Keras saved and loaded."""
    inputs = tuple(keras.Input((), dtype="string") for _ in range(2))
    layer = AlbertPreprocessor(tokenizer, max_length)
    keras.Model(inputs, layer(inputs)).save(folder / "preprocessor.keras")
    return layer, keras.saving.load_model(folder / "preprocessor.keras")


def test_keras_file(encoder, texts, pairs, tmp_path):
    layer, again = saved_and_loaded(encoder, tmp_path)
    assert lists(again((tf.constant(texts), tf.constant(pairs)))) == lists(layer((texts, pairs)))


def test_keras_file_keeps_the_options(vocab_text, tmp_path):
    cased = WordPieceTokenizer(vocab_text().encode(), do_lower_case=False)
    layer, again = saved_and_loaded(cased, tmp_path)
    inputs = tf.constant(["Cased the"]), tf.constant(["cased"])
    assert lists(again(inputs)) == lists(layer(inputs))
    assert lists(layer(["Cased"])) != lists(layer(["cased"]))


@pytest.mark.slow
def test_export_archives_in_a_fresh_process(encoders, tmp_path):
    layers = {kind: AlbertPreprocessor(encoder, 11) for kind, encoder in encoders.items()}
    for kind, layer in layers.items():
        archive = keras.export.ExportArchive()
        archive.track(layer)
        archive.add_endpoint("serve", layer.call, [tf.TensorSpec([None], tf.string, name="text")])
        archive.write_out(tmp_path / kind, verbose=False)
    code = f"""
        import tensorflow as tf, tensorflow_text
        for kind, texts in {TEXTS!r}.items():
            loaded = tf.saved_model.load({str(tmp_path)!r} + "/" + kind)
            print(loaded.serve(tf.constant(texts))["input_ids"].numpy().tolist())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = [str(lists(layer(TEXTS[kind]))["input_ids"]) for kind, layer in layers.items()]
    assert output.splitlines() == expected


def test_tflite_pairs(encoder, texts, pairs, tflite_runner):
    layer = AlbertPreprocessor(encoder, 11)
    runner = tflite_runner(layer, pairs=True)
    odd = [each for each in ODD_BYTES if isinstance(each, bytes)]
    for first, second in [*zip(texts, pairs, strict=True), *((each, b"") for each in odd)]:
        assert lists(runner(first, second)) == lists(layer(([first], [second])))


BIG = {
    "words": b"the old library, on a hill " * 74_000,
    "spaces": b" " * 2_000_000,
    "one word": b"x" * 2_000_000,
    "chinese": "中文，".encode() * 222_222,
    "dropped": b"\xcc\x81" * 1_000_000,
    "invalid": b"\xff" * 2_000_000,
}


@pytest.mark.parametrize("content", BIG)
def test_two_megabytes(encoder, content):
    text = BIG[content] + b" end"
    layer = AlbertPreprocessor(encoder, 4096)
    expected = encoder(text, max_length=4096, truncation=True, padding="max_length")
    assert lists(layer([text])) == lists({name: [expected[name]] for name in NAMES})


def peak_memory():
    """Returns the largest memory of this process since its last reset, in MiB."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024


def test_ten_megabytes_need_bounded_memory(plain):
    layer = AlbertPreprocessor(plain)
    layer(["warm up"])
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_memory()
    layer([b"the old library, on a hill " * 370_000])
    assert peak_memory() - before < 600, "MiB for a text of 10 MB"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_texts_without_partners(plain, count):
    """One partner was broadcast to every text."""
    layer = AlbertPreprocessor(plain)
    pairs = tf.constant(["a", "b"]), tf.constant(["c"] * count, tf.string)
    for call in (layer, tf.function(layer)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be as many"):
            call(pairs)


def test_wrong_arguments(plain, unbaked):
    with pytest.raises(UserError, match="must be baked.*AlbertTokenizer\\(vocab_file\\)"):
        AlbertPreprocessor(unbaked)
    with pytest.raises(TypeError, match="the bytes of a baked model, or a tokenizer"):
        AlbertPreprocessor("spiece.model")
    with pytest.raises(
        ValueError, match="at least 3, for the special tokens of a pair. Received: 2"
    ):
        AlbertPreprocessor(plain, max_length=2)
    with pytest.raises(ValueError, match="'max_length' or 'longest'. Received: True"):
        AlbertPreprocessor(plain, padding=True)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a text", "of shape \\[B\\]. Received: 'a text'"),
        (tf.constant("a text"), "Batch single texts first"),
        (tf.constant([1, 2]), "Received: dtype int32"),
        (([], [], []), "two batches of texts. Received: 3"),
        (["a", 5], "must be a str, or bytes in UTF-8. Received: 5"),
    ],
)
def test_wrong_texts(plain, texts, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AlbertPreprocessor(plain)(texts)
