"""The layer: strings to features, eagerly, in tf.data, saved, exported."""

import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer

TEXTS = [
    "The old library, on a hill",
    "",
    "a",
    "sold 20,000 books at 7:45 for £3.50 [SEP] nearly free",
]
PAIRS = ["free", "on a hill", "the old library on a hill sold books", ""]
NAMES = ("input_ids", "attention_mask", "token_type_ids")


@pytest.fixture(scope="module")
def plain(tokenizer):
    """A tokenizer that reads special tokens in texts as plain text, like the layer."""
    return AlbertTokenizer(tokenizer.model_bytes, split_special_tokens=True)


def lists(features):
    return {name: np.asarray(features[name]).tolist() for name in NAMES}


@pytest.mark.parametrize("padding", ["max_length", "longest"])
@pytest.mark.parametrize("max_length", [3, 4, 7, 12, 61])
def test_agrees_with_the_tokenizer(plain, max_length, padding):
    layer = AlbertPreprocessor(plain, max_length, padding)
    options = {"max_length": max_length, "truncation": True, "padding": padding}
    assert lists(layer(TEXTS)) == lists(plain(TEXTS, **options))
    assert lists(layer((TEXTS, PAIRS))) == lists(plain(TEXTS, PAIRS, **options))


def test_shapes_and_dtypes(plain):
    features = AlbertPreprocessor(plain, 7)(tf.constant(TEXTS))
    assert {
        name: (array.dtype, tuple(array.shape)) for name, array in features.items()
    } == dict.fromkeys(NAMES, (tf.int32, (4, 7)))
    for padding, width in (("max_length", 7), ("longest", 2)):
        empty = AlbertPreprocessor(plain, 7, padding)(tf.constant([], tf.string))
        assert empty["input_ids"].shape == (0, width)


def test_inputs_of_every_kind(plain):
    layer = AlbertPreprocessor(plain, 16)
    expected = lists(layer(tf.constant(TEXTS)))
    assert lists(layer(TEXTS)) == expected
    assert lists(layer(np.array(TEXTS))) == expected
    assert lists(layer(np.array(TEXTS, dtype=object))) == expected
    assert lists(layer([text.encode() for text in TEXTS])) == expected
    pair = [tf.constant(TEXTS), tf.constant(PAIRS)]
    assert lists(layer(pair)) == lists(layer((TEXTS, PAIRS)))


def test_nuls_at_the_end_and_surrogates_survive(plain):
    layer = AlbertPreprocessor(plain, 9)
    texts = [b"a\x00\x00", "hill \udcff"]
    assert lists(layer(texts)) == lists(plain(texts, max_length=9, padding="max_length"))
    assert np.asarray(layer(texts)["input_ids"])[0].tolist().count(plain.unk_token_id) == 1


def test_dataset(plain):
    layer = AlbertPreprocessor(plain, 16)
    dataset = tf.data.Dataset.from_tensor_slices(((TEXTS, PAIRS), [0, 1, 0, 1])).batch(4)
    dataset = dataset.map(lambda texts, label: (layer(texts), label), num_parallel_calls=2)
    assert dataset.element_spec[0]["input_ids"].shape.as_list() == [None, 16]
    features, _ = next(iter(dataset))
    assert lists(features) == lists(layer((TEXTS, PAIRS)))


def test_config_restores_the_layer(plain):
    layer = AlbertPreprocessor(plain, 11, "longest", name="words")
    again = AlbertPreprocessor.from_config(layer.get_config())
    assert (again.name, again.max_length, again.padding) == ("words", 11, "longest")
    assert again.vocabulary == plain.model_bytes
    assert lists(again(TEXTS)) == lists(layer(TEXTS))


def test_keras_file(plain, tmp_path):
    first, second = (keras.Input((), dtype="string") for _ in range(2))
    layer = AlbertPreprocessor(plain, 11)
    model = keras.Model((first, second), layer((first, second)))
    model.save(tmp_path / "preprocessor.keras")
    again = keras.saving.load_model(tmp_path / "preprocessor.keras")
    inputs = (tf.constant(TEXTS), tf.constant(PAIRS))
    assert lists(again(inputs)) == lists(layer((TEXTS, PAIRS)))


def test_export_archive_in_a_fresh_process(plain, tmp_path):
    layer = AlbertPreprocessor(plain, 11)
    archive = keras.export.ExportArchive()
    archive.track(layer)
    archive.add_endpoint("serve", layer.call, [tf.TensorSpec([None], tf.string, name="text")])
    archive.write_out(tmp_path / "model", verbose=False)
    code = f"""
        import tensorflow as tf, tensorflow_text
        loaded = tf.saved_model.load({str(tmp_path / "model")!r})
        print(loaded.serve(tf.constant({TEXTS!r}))["input_ids"].numpy().tolist())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(lists(layer(TEXTS))["input_ids"])


def test_tflite_pairs_with_custom_operator_only(plain, tmp_path):
    """One operator is tensorflow-text's; all others are built in, so no Flex delegate is needed."""
    import tensorflow_text
    from ai_edge_litert.interpreter import InterpreterWithCustomOps

    layer = AlbertPreprocessor(plain, 11)
    spec = [tf.TensorSpec([1], tf.string, name=name) for name in ("first", "second")]
    module = tf.Module()
    module.layer = layer
    module.run = tf.function(lambda first, second: layer((first, second)), input_signature=spec)
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.run})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path))
    converter.allow_custom_ops = True
    interpreter = InterpreterWithCustomOps(
        model_content=converter.convert(),
        custom_op_registerers=tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS,
    )
    runner = interpreter.get_signature_runner()
    for first, second in zip(TEXTS, PAIRS, strict=True):
        inputs = {"first": np.array([first], object), "second": np.array([second], object)}
        assert lists(runner(**inputs)) == lists(layer(([first], [second])))


BIG = {
    "words": b"the old library, on a hill " * 74_000,
    "spaces": b" " * 2_000_000,
    "one word": b"x" * 2_000_000,
    "unknown": "中".encode() * 666_666,
    "dropped": b"\xcc\x81" * 1_000_000,
    "invalid": b"\xff" * 2_000_000,
}


@pytest.mark.parametrize("kind", BIG)
def test_two_megabytes(plain, kind):
    text = BIG[kind] + b" end"
    layer = AlbertPreprocessor(plain, 4096)
    expected = plain(text, max_length=4096, truncation=True, padding="max_length")
    assert lists(layer([text])) == lists({name: [expected[name]] for name in NAMES})


def test_ten_megabytes_need_bounded_memory(plain, tmp_path):
    """Measures the peak in a fresh process, above TensorFlow's own."""
    (tmp_path / "spiece.model").write_bytes(plain.model_bytes)
    code = f"""
        import resource
        from albert_tf.text.preprocessing import AlbertPreprocessor
        layer = AlbertPreprocessor(open({str(tmp_path / "spiece.model")!r}, "rb").read())
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        layer(["warm up"])
        before = peak()
        layer([b"the old library, on a hill " * 370_000])
        print(peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 600, "MiB for a text of 10 MB"


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
