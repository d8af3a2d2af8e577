"""Names of classes and tensors in a TFLite file, and the files written next to it."""

import io
import zipfile

import pytest
from ai_edge_litert import schema_py_generated as schema
from albert_tf_export import export_tflite
from albert_tf_export.tflite import LABELS, companion, written_with_companions

from albert_tf.errors import UserError

NAMES = "bad\nnaïve\ngood\n"


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
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist()[0] == "labels.txt"
        assert archive.read("labels.txt").decode() == NAMES
    assert companion(written(export_tflite), LABELS).read_text(encoding="utf-8") == NAMES


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
