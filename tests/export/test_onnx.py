"""ONNX files, run by ONNX Runtime: `make test-peers` installs the packages."""

import functools
import json

import numpy as np
import pytest
from albert_tf_export import export_onnx
from albert_tf_export import onnx as onnx_export
from albert_tf_export.onnx import convert
from albert_tf_export.signatures import ids_signature

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification

TASKS = ("encoder", "pretraining", "token-classification", "answerability", "multiple-choice")


@pytest.fixture(scope="module")
def onnxruntime():
    pytest.importorskip("tf2onnx")
    pytest.importorskip("onnx")
    return pytest.importorskip("onnxruntime")


@pytest.fixture
def exported(onnxruntime, checked):
    """Returns a function from a task and options to a cached report, checked in this process."""
    return functools.partial(checked, _export)


def _export(model, tokenizer, path, **options):
    return export_onnx(model, tokenizer, path.with_suffix(".onnx"), **options)


@pytest.fixture
def session(onnxruntime):
    """Returns a function from a file to a session."""
    return lambda path: onnxruntime.InferenceSession(str(path))


def axes(values):
    return {each.name: (each.type, *each.shape) for each in values}


@pytest.mark.peers
@pytest.mark.parametrize("task", TASKS)
def test_outputs_are_those_of_keras(task, exported):
    report = exported(task)
    (difference,) = report.differences.values()
    assert difference.share < 0.03  # 3e-6 of the largest output


@pytest.mark.peers
@pytest.mark.parametrize("quantize", ["none", "dynamic"])
def test_exact_gelu(quantize, onnxruntime, make_classifier, tokenizer, tmp_path):
    model = make_classifier(hidden_act="gelu")
    report = export_onnx(model, tokenizer, tmp_path / "gelu.onnx", quantize=quantize)
    assert report.differences["ids"].share < (0.03 if quantize == "none" else 1)


@pytest.mark.peers
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
def test_export_of_keras(hidden_act, make_classifier, session, features, tmp_path):
    """Its layers are unrolled, and it takes any number and length of rows."""
    model = make_classifier(hidden_act=hidden_act)
    model.export(tmp_path / "keras.onnx", format="onnx", verbose=False)
    for inputs in (features, {name: value[:1, :6] for name, value in features.items()}):
        (found,) = session(tmp_path / "keras.onnx").run(None, inputs)
        np.testing.assert_allclose(found, model(inputs)["logits"], rtol=0, atol=1e-5)


@pytest.mark.peers
def test_weights_that_were_never_trained(onnxruntime, tokenizer, tmp_path):
    """Their biases are 0, so that TensorFlow's optimizer removes the additions."""
    config = AlbertConfig.from_size("tiny", vocab_size=tokenizer.vocab_size)
    model = AlbertForSequenceClassification(config)
    report = export_onnx(model, tokenizer, tmp_path / "untrained.onnx")
    assert report.differences["ids"].share < 0.03


@pytest.mark.peers
def test_a_classifier(session, exported, classifier, features, logits):
    """Takes any number and length of rows; labels are in the file and next to it."""
    path = exported(classifier).path
    made = session(path)
    rows = ("tensor(int32)", "batch", "length")
    assert axes(made.get_inputs()) == dict.fromkeys(features, rows)
    numbers = ("tensor(float)", "batch", 3)
    assert axes(made.get_outputs()) == {"logits": numbers, "probabilities": numbers}
    for count in (5, 1):
        found = made.run(["logits"], {name: each[:count] for name, each in features.items()})
        np.testing.assert_allclose(found[0], logits[:count], rtol=0, atol=2e-6)
    none = made.run(["logits"], {name: each[:0] for name, each in features.items()})
    assert none[0].shape == (0, 3)
    lines = "bad\nnaïve\ngood\n"
    assert (path.parent / "model.onnx.labels.txt").read_text(encoding="utf-8") == lines
    assert made.get_modelmeta().custom_metadata_map == {"labels": lines}
    written = json.loads((path.parent / "model.onnx.export.json").read_text())
    assert written["signatures"]["ids"]["value"] < 2e-6
    assert "onnxruntime" in written["packages"]


@pytest.mark.peers
def test_masked_words(exported, make_model, session):
    """The word embedding matrix is stored once, and the masked-LM head uses its transpose."""
    import onnx

    model = make_model("masked-lm")
    size = (model.config.vocab_size, model.config.embedding_size)
    for predictions in (None, 2):
        path = exported("masked-lm", predictions=predictions).path
        tables = [
            tuple(each.dims)
            for each in onnx.load(path).graph.initializer
            if sorted(each.dims) == sorted(size)
        ]
        assert tables == [size]
    inputs = axes(session(path).get_inputs())
    assert inputs["masked_lm_positions"] == ("tensor(int32)", "batch", 2)


@pytest.mark.peers
def test_eight_bits(exported, classifier, features, logits, session):
    """Other rows in the batch don't change a result, as they would with one scale for all."""
    import onnx

    report = exported(classifier, quantize="dynamic")
    made = session(report.path)
    found = made.run(["logits"], dict(features))[0]
    assert 1e-5 < np.abs(found - logits).max() < 0.1
    for row in range(len(found)):
        one = made.run(["logits"], {name: each[[row]] for name, each in features.items()})[0]
        np.testing.assert_allclose(one[0], found[row], rtol=0, atol=1e-5)
    (loop,) = (node for node in onnx.load(report.path).graph.node if node.op_type == "Loop")
    operators = [node.op_type for node in loop.attribute[0].g.node]
    assert (operators.count("MatMulInteger"), operators.count("MatMul")) == (6, 2)


@pytest.mark.peers
def test_products_in_eight_bits(onnxruntime):
    """Zeros stay zero, an outlier affects only its row, and equal values don't divide by zero."""
    import onnx

    rows = np.random.default_rng(5).normal(size=(5, 31)).astype("float32")
    rows[0, 0], rows[1], rows[2], rows[3, :] = 1e4, 0, -0.7, np.maximum(rows[3], -0.1)
    weights = np.random.default_rng(6).normal(size=(31, 7)).astype("float32")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        *(
            [helper.make_tensor_value_info(name, 1, [None, size])]
            for name, size in (("x", 31), ("y", 7))
        ),
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx_export._multiply_in_8_bits(graph)
    opset = [helper.make_opsetid("", onnx_export.OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": rows})[0]
    np.testing.assert_array_equal(found[1], 0)
    assert np.abs(found - rows @ weights)[1:].max() < 0.1
    assert np.abs(found - rows @ weights)[0].max() < 1e4 * 0.02


def test_products_of_8_by_8_bits_fit_into_16():
    """CPUs without VNNI add two of them in int16."""
    matrix = np.random.default_rng(7).normal(size=(31, 5))
    matrix[:, 0] = 0
    matrix[4:6, 1] = 9
    columns, scale = onnx_export.eight_bits(matrix)
    assert np.abs(columns * scale - matrix).max() <= scale.max() * 0.51
    pairs = np.pad(columns.astype(int), [(0, 1), (0, 0)]).reshape(16, 2, 5)
    for sign in (1, -1):
        assert onnx_export.STEPS * np.maximum(sign * pairs, 0).sum(axis=1).max() < 2**15
    assert np.abs(columns)[:, 2:].max(axis=0).min() > 70  # 7 bits have 64


@pytest.mark.peers
def test_the_same_bytes_each_time(onnxruntime, classifier):
    first, second = (
        convert(
            ids_signature(classifier, unroll="last", strings=False),
            ("batch", "length"),
            "dynamic",
            {},
        )
        for _ in range(2)
    )
    assert first == second
