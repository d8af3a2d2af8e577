"""Strings in the graph: eagerly, in tf.data, saved, in TFLite."""

import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.text.preprocessing import AlbertPreprocessor

TEXTS = [
    "北京大学，天气很好！",
    "",
    "The LIBRARY in 1999, É 😀",
    "[SEP] a\x00b\x00",
    "中" * 40,
    "の" * 101,
]
PAIRS = ["中国", "人民 worlding", "", "hello", "我爱你们的", "x"]
NAMES = ("input_ids", "attention_mask", "token_type_ids")
ODD_BYTES = [
    b"\xff",
    b"a\xff\xfec\xc3 d \xed\xa0\x80 the",
    b"\xe4\xb8a \xe4\xb8",
    b"\xff\xe4\xb8\x80",
]
BIG = {
    "chinese": "中文，".encode() * 222_222,
    "one word": b"x" * 2_000_000,
    "invalid": b"\xff" * 2_000_000,
    "spaces": b" " * 2_000_000,
}


def lists(features):
    return {name: np.asarray(features[name]).tolist() for name in NAMES}


@pytest.mark.parametrize("padding", ["max_length", "longest"])
@pytest.mark.parametrize("max_length", [3, 7, 61])
def test_agrees_with_the_tokenizer(chinese, max_length, padding):
    layer = AlbertPreprocessor(chinese, max_length, padding)
    options = {"truncation": True, "split_special_tokens": True}
    options.update(max_length=max_length, padding=padding)
    assert lists(layer(TEXTS)) == lists(chinese(TEXTS, **options))
    assert lists(layer((TEXTS, PAIRS))) == lists(chinese(TEXTS, PAIRS, **options))


def test_other_orders_of_special_tokens(vocab_text):
    from albert_tf.text.wordpiece.tokenizer import WordPieceTokenizer

    tokenizer = WordPieceTokenizer(vocab_text("last").encode())
    features = AlbertPreprocessor(tokenizer, 5)(["中"])
    size = len(tokenizer)
    piece = tokenizer.convert_tokens_to_ids("中")
    row = [size - 3, piece, size - 4, size - 1, size - 1]
    assert features["input_ids"].numpy().tolist() == [row]


def test_invalid_bytes(chinese):
    layer = AlbertPreprocessor(chinese, 16)
    wanted = chinese(ODD_BYTES, max_length=16, padding="max_length")
    assert lists(layer(ODD_BYTES)) == lists(wanted)
    assert wanted.input_ids[0][:3] == [101, 100, 102]


def test_dataset_and_config(chinese):
    layer = AlbertPreprocessor(chinese, 11, name="words")
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3).map(layer)
    rows = np.concatenate([batch["input_ids"] for batch in dataset])
    assert rows.tolist() == layer(TEXTS)["input_ids"].numpy().tolist()
    again = AlbertPreprocessor.from_config(layer.get_config())
    assert (again.name, again.vocabulary) == ("words", chinese.model_bytes)
    assert lists(again(TEXTS)) == lists(layer(TEXTS))


def test_keras_file_keeps_the_options(vocab_text, tmp_path):
    from albert_tf.text.wordpiece.tokenizer import WordPieceTokenizer

    cased = WordPieceTokenizer(vocab_text().encode(), do_lower_case=False)
    text = keras.Input((), dtype="string")
    layer = AlbertPreprocessor(cased, 11)
    keras.Model(text, layer(text)).save(tmp_path / "layer.keras")
    again = keras.saving.load_model(tmp_path / "layer.keras")
    assert lists(again(tf.constant(["Cased the"]))) == lists(layer(["Cased the"]))
    assert lists(layer(["Cased"])) != lists(layer(["cased"]))


def test_saved_model_in_a_fresh_process(chinese, tmp_path):
    layer = AlbertPreprocessor(chinese, 11)
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


def test_tflite_pairs_with_custom_operators_only(chinese, tmp_path):
    """Two operators are tensorflow-text's; all others are built in: no Flex delegate is needed."""
    import tensorflow_text
    from ai_edge_litert.interpreter import InterpreterWithCustomOps

    layer = AlbertPreprocessor(chinese, 11)
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
    for first, second in [*zip(TEXTS, PAIRS, strict=True), *((each, b"") for each in ODD_BYTES)]:
        content = [text.encode() if isinstance(text, str) else text for text in (first, second)]
        one, other = (np.array([each], object) for each in content)
        assert lists(runner(first=one, second=other)) == lists(layer((one, other)))


@pytest.mark.parametrize("kind", BIG)
def test_two_megabytes(chinese, kind):
    text = BIG[kind] + b" a"
    layer = AlbertPreprocessor(chinese, 4096)
    expected = chinese(text, max_length=4096, truncation=True, padding="max_length")
    assert lists(layer([text])) == lists({name: [expected[name]] for name in NAMES})
