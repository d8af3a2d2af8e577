"""Names of classes and tensors in a TFLite file, read by the official schema's field numbers."""

import io
import zipfile

import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_tflite
from albert_tf_export.tflite import LABELS, beside, written_with_companions
from flatbuffers import encode
from flatbuffers.number_types import UOffsetTFlags
from flatbuffers.table import Table

from albert_tf.errors import UserError

NAMES = "bad\nnaïve\ngood\n"


def field(table, number):
    """Returns the place of a table's field, or 0."""
    offset = table.Offset(4 + 2 * number)
    return offset and table.Pos + offset


def string(table, number):
    return table.String(field(table, number)).decode()


def tables(table, number):
    """Returns the tables in a vector."""
    offset = table.Offset(4 + 2 * number)
    if not offset:
        return []
    start = table.Vector(offset)
    return [
        Table(table.Bytes, table.Indirect(start + 4 * index))
        for index in range(table.VectorLen(offset))
    ]


def described(content):
    """Returns the table `ModelMetadata` of a file."""
    model = schema.Model.GetRootAs(content)
    entries = [model.Metadata(index) for index in range(model.MetadataLength())]
    (entry,) = (each for each in entries if each.Name() == b"TFLITE_METADATA")
    buffer = model.Buffers(entry.Buffer()).DataAsNumpy().tobytes()
    assert buffer[4:8] == b"M001"
    return Table(bytearray(buffer), encode.Get(UOffsetTFlags.packer_type, buffer, 0))


@pytest.fixture(scope="module")
def content(written):
    return written(export_tflite).read_bytes()


def test_tensors_are_named_in_the_order_of_the_graph(content, written):
    model = described(content)
    assert string(model, 0) == "AlbertForSequenceClassification"
    graph, text, *others = tables(model, 3)
    assert (string(graph, 0), string(text, 0), others) == ("ids", "text", [])
    inputs = [string(each, 0) for each in tables(graph, 2)]
    assert sorted(inputs) == ["attention_mask", "input_ids", "token_type_ids"]
    interpreter = Interpreter(str(written(export_tflite)))
    for name, details in zip(inputs, interpreter.get_input_details(), strict=True):
        assert name in details["name"]
    files = {string(each, 0): tables(each, 6) for each in tables(graph, 3)}
    assert files.keys() == {"logits", "probabilities"}
    for (file,) in files.values():
        assert string(file, 0) == "labels.txt"
        assert file.Bytes[field(file, 2)] == 2  # TENSOR_AXIS_LABELS


def test_labels_are_in_the_file_and_beside_it(content, written):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist()[0] == "labels.txt"
        assert archive.read("labels.txt").decode() == NAMES
    assert beside(written(export_tflite), LABELS).read_text(encoding="utf-8") == NAMES


def test_weights_stay_aligned(content):
    """Only their numbers of bytes differ: TFLite reads them at multiples of 16."""
    model = schema.Model.GetRootAs(content)
    starts = [
        (table.Vector(table.Offset(4)), index)
        for index in range(model.BuffersLength())
        if (table := model.Buffers(index)._tab).Offset(4)
    ]
    assert len(starts) > 20
    assert not [index for start, index in starts if start % 16]


@pytest.mark.slow
def test_a_file_without_classes_replaces_one_with_labels(
    classifier, make_model, tokenizer, tmp_path
):
    path, options = tmp_path / "a.tflite", {"ids_only": True, "check": False}
    first = export_tflite(classifier, tokenizer, path, **options)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "a.tflite",
        "a.tflite.export.json",
        "a.tflite.labels.txt",
    ]
    again = export_tflite(classifier, tokenizer, path, force=True, **options)
    assert again.sha256 == first.sha256
    export_tflite(make_model("encoder"), tokenizer, path, force=True, **options)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.tflite", "a.tflite.export.json"]
    with zipfile.ZipFile(path) as archive:
        assert "labels.txt" not in archive.namelist()
    assert [string(each, 0) for each in tables(described(path.read_bytes()), 3)] == ["ids"]


def test_two_formats_of_one_model_have_their_own_files(tmp_path):
    """Of my-model.tflite and my-model.onnx, the second was refused for the first one's labels."""
    for ending in ("tflite", "onnx"):
        with written_with_companions(tmp_path / f"a.{ending}", False, ["good"]) as (file, report):
            file.write_text(ending)
            report.write_text(ending)
    names = [
        f"a.{each}{name}"
        for each in ("onnx", "tflite")
        for name in ("", ".export.json", ".labels.txt")
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    assert (tmp_path / "a.tflite.export.json").read_text() == "tflite"


def test_labels_of_someone_else_stay(classifier, tokenizer, tmp_path):
    (tmp_path / "a.tflite.labels.txt").write_text("mine")
    with pytest.raises(UserError, match="must not exist yet. Received: .*a.tflite.labels.txt"):
        export_tflite(classifier, tokenizer, tmp_path / "a.tflite", check=False)
    assert [file.name for file in tmp_path.iterdir()] == ["a.tflite.labels.txt"]


def test_a_label_of_two_lines(make_classifier, tokenizer, tmp_path):
    model = make_classifier(id2label={0: "good\nbad", 1: "b"})
    with pytest.raises(UserError, match="must be one line. Received: 'good.nbad'"):
        export_tflite(model, tokenizer, tmp_path / "a.tflite")
    assert not list(tmp_path.iterdir())
