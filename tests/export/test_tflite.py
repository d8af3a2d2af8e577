import json

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps
from albert_tf_export import export_tflite
from albert_tf_export.tflite import REPORT, companion

from tests.export.conftest import TEXTS

LABELS = ["bad", "naïve", "good"]


def unpacked(path):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))


def graphs(path):
    """Returns the names of each graph's operators in the order of the file."""
    model = unpacked(path)
    builtin = {value: name for name, value in vars(schema.BuiltinOperator).items()}
    names = [
        (code.customCode or b"").decode()
        or builtin[max(code.builtinCode, code.deprecatedBuiltinCode)]
        for code in model.operatorCodes
    ]
    return [[names[each.opcodeIndex] for each in graph.operators] for graph in model.subgraphs]


def from_ids(path, features):
    """Returns the outputs of `ids` from an interpreter without custom operators."""
    signature = Interpreter(str(path)).get_signature_runner("ids")
    size = len(features["input_ids"])
    return [signature(**{k: v[i : i + 1] for k, v in features.items()}) for i in range(size)]


def text_runner(path):
    import tensorflow_text  # noqa: F401 (loads the libraries that the next one needs)
    from tensorflow_text.core.pybinds import tflite_registrar

    interpreter = InterpreterWithCustomOps(tflite_registrar.SELECT_TFTEXT_OPS, model_path=str(path))
    return interpreter.get_signature_runner("text")


def strings(*texts):
    return np.array([text.encode() for text in texts], object)


def logits_of(answers):
    return np.concatenate([answer["logits"] for answer in answers])


@pytest.mark.parametrize(
    ("options", "atol"),  # for logits near 1 of this tiny model
    [
        ({}, 2e-6),
        pytest.param({"quantize": "float16"}, 5e-3, marks=pytest.mark.slow),
        ({"quantize": "dynamic"}, 0.2),
        pytest.param({"layers": "unrolled"}, 2e-6, marks=pytest.mark.slow),
    ],
)
def test_ids_and_strings_give_what_keras_gives(options, atol, written, features, logits):
    path = written(export_tflite, **options)
    run = text_runner(path)
    ids, text = from_ids(path, features), [run(text=strings(each)) for each in TEXTS]
    np.testing.assert_allclose(logits_of(ids), logits, rtol=0, atol=atol)
    np.testing.assert_allclose(logits_of(text), logits, rtol=0, atol=atol)
    assert ids[0].keys() == {"logits", "probabilities"}
    for answer in text:
        assert [name.decode() for name in answer["classes"][0]] == LABELS
        assert answer["label"][0].decode() == LABELS[answer["logits"].argmax()]
        assert answer["probabilities"].sum() == pytest.approx(1, abs=1e-6)


def test_strings_need_the_operators_of_tensorflow_text(written):
    interpreter = Interpreter(str(written(export_tflite)))
    assert interpreter.get_signature_list()["ids"]["inputs"] == [
        "attention_mask",
        "input_ids",
        "token_type_ids",
    ]
    interpreter.allocate_tensors()  # hosts without signatures call the graph of `ids`
    shapes = {tuple(each["shape_signature"]) for each in interpreter.get_input_details()}
    assert shapes == {(1, -1)}
    text = interpreter.get_signature_runner("text")
    with pytest.raises(RuntimeError, match="unresolved custom op: TFText>FastSentencepiece"):
        text(text=strings("A quiet delight."))


def test_one_loop_for_both_signatures(written):
    ids, text, *loops = graphs(written(export_tflite))
    assert ids.count("WHILE") == text.count("WHILE") == 1
    assert len(loops) == 2  # condition and body
    assert sum(each.count("BATCH_MATMUL") for each in loops) == 2
    unrolled = graphs(written(export_tflite, layers="unrolled"))
    assert [each.count("BATCH_MATMUL") for each in unrolled] == [6, 6]
    names = {name for each in (ids, text, *loops, *unrolled) for name in each}
    assert not {name for name in names if "VAR" in name or name.startswith("Flex")}


@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        ({}, schema.TensorType.FLOAT32),
        ({"quantize": "float16"}, schema.TensorType.FLOAT16),
        ({"quantize": "dynamic"}, schema.TensorType.INT8),
    ],
)
def test_all_large_weights_are_stored_in_the_precision(options, dtype, written, tokenizer):
    model = unpacked(written(export_tflite, **options))
    large = {
        (tuple(tensor.shape), tensor.type)
        for graph in model.subgraphs
        for tensor in graph.tensors
        if model.buffers[tensor.buffer].data is not None
        and np.size(tensor.shape) == 2
        and np.prod(tensor.shape) > 1024
    }
    assert (tokenizer.vocab_size, 16) in {shape for shape, _ in large}  # the embedding table
    assert {of for _, of in large} == {dtype}


def test_ids_only(written, features, logits):
    path = written(export_tflite, ids_only=True)
    assert list(Interpreter(str(path)).get_signature_list()) == ["ids"]
    assert not any("TFText" in name for each in graphs(path) for name in each)
    found = logits_of(from_ids(path, features))
    np.testing.assert_allclose(found, logits, rtol=0, atol=2e-6)


def test_pairs(checked, classifier):
    report = checked(export_tflite, classifier, pairs=True, batch=None)
    assert all(each.value < 1e-5 for each in report.differences.values())
    with pytest.raises(RuntimeError, match="HaveSameShapes"):
        text_runner(report.path)(text=strings("a", "b"), text_pair=strings("c"))


def shape_of(signature):
    (shape,) = {
        tuple(each["shape_signature"].tolist()) for each in signature.get_input_details().values()
    }
    return shape


def cut(features, rows, length):
    return {name: values[rows, :length] for name, values in features.items()}


def test_lengths(checked, features, classifier, written):
    report = checked(export_tflite, classifier, lengths=(8, 16))
    interpreter = Interpreter(str(report.path))
    for length in (8, 16):
        signature = interpreter.get_signature_runner(f"ids_{length}")
        assert shape_of(signature) == (1, length)
        inputs = cut(features, slice(2, 3), length)
        expected = classifier(inputs)["logits"]
        np.testing.assert_allclose(signature(**inputs)["logits"], expected, rtol=0, atol=2e-6)
    weights = 4 * classifier.count_params()
    assert report.size < written(export_tflite).stat().st_size + weights / 2
    costs = json.loads(companion(report.path, REPORT).read_text())
    assert (costs["size"], costs["sha256"]) == (report.size, report.sha256)
    assert costs["signatures"].keys() == {"ids_8", "ids_16", "text"}
    assert all(each["milliseconds"] > 0 for each in costs["signatures"].values())
    assert "tensorflow" in costs["packages"]


@pytest.mark.parametrize(
    ("batch", "size"), [pytest.param(2, 2, marks=pytest.mark.slow), (None, -1)]
)
def test_batches(batch, size, checked, classifier, features):
    """The check's three rows don't fill the last batch of two."""
    report = checked(export_tflite, classifier, batch=batch)
    signature = Interpreter(str(report.path)).get_signature_runner("ids")
    assert shape_of(signature) == (size, -1)
    for rows, length in ((slice(0, 2), 24), (slice(1, 3), 12)):
        inputs = cut(features, rows, length)
        expected = classifier(inputs)["logits"]
        np.testing.assert_allclose(signature(**inputs)["logits"], expected, rtol=0, atol=2e-6)


def test_a_full_disk_leaves_nothing(classifier, tokenizer, tmp_path, files_of_at_most):
    path = tmp_path / "model.tflite"
    path.write_text("the one before")
    with pytest.raises(OSError, match="File too large"), files_of_at_most(60_000):
        options = {"ids_only": True, "force": True, "check": False}
        export_tflite(classifier, tokenizer, path, **options)
    assert [file.name for file in tmp_path.iterdir()] == ["model.tflite"]
    assert path.read_text() == "the one before"
