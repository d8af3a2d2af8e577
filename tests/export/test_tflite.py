"""TFLite files in LiteRT, their metadata, and the files written next to them."""

import io
import json
import zipfile

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps
from albert_tf_export import export_tflite
from albert_tf_export.tflite import (
    LABELS,
    REPORT,
    _TFLiteFile,
    companion,
    written_with_companions,
)

from albert_tf.errors import UserError
from tests.export.conftest import TEXTS, stored_matrices, unpacked

CLASSES = ["bad", "naïve", "good"]


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
    ("options", "atol", "stored"),  # atol for logits near 1 of this tiny model
    [
        ({}, 2e-6, "FLOAT32"),
        ({"quantize": "dynamic", "ids_only": True}, 0.2, "INT8"),
        pytest.param({"quantize": "float16"}, 5e-3, "FLOAT16", marks=pytest.mark.slow),
    ],
)
def test_ids_and_strings_give_what_keras_gives(
    options, atol, stored, written, tokenizer, features, logits
):
    """All large weights are stored in the precision; test_mediapipe.py has float16."""
    path = written(export_tflite, **options)
    ids = from_ids(path, features)
    np.testing.assert_allclose(logits_of(ids), logits, rtol=0, atol=atol)
    assert ids[0].keys() == {"logits", "probabilities"}
    if "ids_only" in options:
        assert list(Interpreter(str(path)).get_signature_list()) == ["ids"]
        assert not any("TFText" in name for each in graphs(path) for name in each)
    else:
        run = text_runner(path)
        text = [run(text=strings(each)) for each in TEXTS]
        np.testing.assert_allclose(logits_of(text), logits, rtol=0, atol=atol)
        for answer in text:
            assert [name.decode() for name in answer["classes"][0]] == CLASSES
            assert answer["label"][0].decode() == CLASSES[answer["logits"].argmax()]
            assert answer["probabilities"].sum() == pytest.approx(1, abs=1e-6)
    matrices = stored_matrices(path)
    assert ((tokenizer.vocab_size, 16), stored) in matrices  # the embedding table
    assert {of for _, of in matrices} == {stored}


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
    names = {name for each in (ids, text, *loops) for name in each}
    assert not {name for name in names if "VAR" in name or name.startswith("Flex")}


def shape_of(signature):
    (shape,) = {
        tuple(each["shape_signature"].tolist()) for each in signature.get_input_details().values()
    }
    return shape


def cut(features, rows, length):
    return {name: values[rows, :length] for name, values in features.items()}


def test_pairs_of_one_length_in_batches(checked, features, model_of):
    """The layers are unrolled; test_mediapipe.py unrolls several."""
    classifier = model_of("sequence-classification", num_hidden_layers=1)
    options = {"pairs": True, "batch": None, "lengths": (16,), "layers": "unrolled"}
    report = checked(export_tflite, classifier, **options)
    assert report.differences.keys() == {"ids_16", "text"}
    assert all(each.value < 1e-5 for each in report.differences.values())
    signature = Interpreter(str(report.path)).get_signature_runner("ids_16")
    assert shape_of(signature) == (-1, 16)
    for rows in (slice(0, 2), slice(2, 3)):
        inputs = cut(features, rows, 16)
        expected = classifier(inputs)["logits"]
        np.testing.assert_allclose(signature(**inputs)["logits"], expected, rtol=0, atol=2e-6)
    with pytest.raises(RuntimeError, match="HaveSameShapes"):
        text_runner(report.path)(text=strings("a", "b"), text_pair=strings("c"))
    unrolled = graphs(report.path)
    assert [each.count("BATCH_MATMUL") for each in unrolled] == [2, 2]
    assert not {name for each in unrolled for name in each if "VAR" in name or "Flex" in name}
    buffers = [buffer.data for buffer in unpacked(report.path).buffers]
    sizes = [len(data) for data in buffers if data is not None and len(data) < 100_000]
    weights = 4 * classifier.count_params()
    assert 0.9 * weights < sum(sizes) < 1.5 * weights  # once for both signatures
    costs = json.loads(companion(report.path, REPORT).read_text())
    assert (costs["size"], costs["sha256"]) == (report.size, report.sha256)
    assert costs["signatures"].keys() == {"ids_16", "text"}
    assert all(each["milliseconds"] > 0 for each in costs["signatures"].values())
    assert "tensorflow" in costs["packages"]


@pytest.mark.slow
def test_batches_of_three(checked, classifier, features):
    """The check's four rows don't fill the last batch."""
    report = checked(export_tflite, classifier, batch=3)
    signature = Interpreter(str(report.path)).get_signature_runner("ids")
    assert shape_of(signature) == (3, -1)
    for rows, length in ((slice(0, 3), 24), (slice(1, 4), 12)):
        inputs = cut(features, rows, length)
        expected = classifier(inputs)["logits"]
        np.testing.assert_allclose(signature(**inputs)["logits"], expected, rtol=0, atol=2e-6)


def test_a_full_disk_leaves_nothing(classifier, tokenizer, tmp_path, files_of_at_most, monkeypatch):
    monkeypatch.setattr(_TFLiteFile, "content", lambda *_: bytes(2_000))
    path = tmp_path / "model.tflite"
    path.write_text("the one before")
    with pytest.raises(OSError, match="File too large"), files_of_at_most(1_000):
        options = {"ids_only": True, "force": True, "check": False}
        export_tflite(classifier, tokenizer, path, **options)
    assert [file.name for file in tmp_path.iterdir()] == ["model.tflite"]
    assert path.read_text() == "the one before"


@pytest.fixture(scope="module")
def content(written):
    return written(export_tflite).read_bytes()


def test_the_file_has_the_names_of_its_tensors(content):
    """MediaPipe reads the table that has them; test_mediapipe.py."""
    model = schema.Model.GetRootAs(content)
    entries = [model.Metadata(index) for index in range(model.MetadataLength())]
    (entry,) = (each for each in entries if each.Name() == b"TFLITE_METADATA")
    table = model.Buffers(entry.Buffer()).DataAsNumpy().tobytes()
    assert table[4:8] == b"M001"
    names = ["AlbertForSequenceClassification", "ids", "text", "attention_mask", "input_ids"]
    for name in [*names, "token_type_ids", "logits", "probabilities", "labels.txt"]:
        assert bytes([len(name), 0, 0, 0]) + name.encode() + b"\0" in table


def test_labels_are_in_the_file_and_beside_it(content, written):
    lines = "".join(f"{name}\n" for name in CLASSES)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist()[0] == "labels.txt"
        assert archive.read("labels.txt").decode() == lines
    assert companion(written(export_tflite), LABELS).read_text(encoding="utf-8") == lines


def test_weights_stay_aligned(content):
    """TFLite reads weights at multiples of 16 bytes."""
    model = schema.Model.GetRootAs(content)
    starts = [
        (table.Vector(table.Offset(4)), index)
        for index in range(model.BuffersLength())
        if (table := model.Buffers(index)._tab).Offset(4)
    ]
    assert len(starts) > 20
    assert not [index for start, index in starts if start % 16]


def test_two_formats_of_one_model_have_their_own_files(tmp_path):
    """my-model.onnx used to be rejected because of the labels of my-model.tflite."""
    for ending in ("tflite", "onnx"):
        with written_with_companions(tmp_path / f"a.{ending}", False, "good\n") as (file, report):
            file.write_text(ending)
            report.write_text(ending)
    names = ["a.onnx", "a.onnx.export.json", "a.onnx.labels.txt"]
    names += ["a.tflite", "a.tflite.export.json", "a.tflite.labels.txt"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    assert (tmp_path / "a.tflite.export.json").read_text() == "tflite"
    with written_with_companions(tmp_path / "a.tflite", True, "") as (file, report):
        file.write_text("without classes")
        report.write_text("without classes")
    assert sorted(file.name for file in tmp_path.iterdir()) == names[:-1]


def test_labels_of_someone_else_stay(classifier, tokenizer, tmp_path):
    (tmp_path / "a.tflite.labels.txt").write_text("mine")
    with pytest.raises(UserError, match="a.tflite.labels.txt already exists"):
        export_tflite(classifier, tokenizer, tmp_path / "a.tflite", check=False)
    assert [file.name for file in tmp_path.iterdir()] == ["a.tflite.labels.txt"]


def test_a_label_of_two_lines(make_classifier, tokenizer, tmp_path):
    model = make_classifier(id2label={0: "good\nbad", 1: "b"})
    with pytest.raises(UserError, match="Received: 'good.nbad'"):
        export_tflite(model, tokenizer, tmp_path / "a.tflite")
    assert not list(tmp_path.iterdir())
