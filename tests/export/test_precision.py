"""SavedModels in bfloat16 and .tflite files for TensorFlow Serving, which servers run faster."""

import logging

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_saved_model, options

LENGTH = 24


@pytest.fixture(scope="module")
def report(checked, classifier):
    return checked(
        export_saved_model, classifier, ids_only=True, precision="bfloat16", quantize="dynamic"
    )


def test_weights_in_bfloat16(report, features, logits):
    assert 1e-4 < report.differences["ids"].value < report.differences["ids"].tolerance
    served = tf.saved_model.load(report.path)
    assert {each.dtype for each in served.weights} == {tf.bfloat16}
    found = served.signatures["ids"](**{k: tf.constant(v) for k, v in features.items()})["logits"]
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, logits, rtol=0, atol=0.1)


@pytest.mark.slow
def test_a_tagger_in_bfloat16(checked):
    report = checked(export_saved_model, "token-classification", precision="bfloat16")
    assert set(report.differences) == {"text", "ids", "padded_ids"}


class TfliteSession:
    """Runs a file as TensorFlow Serving's `tflite_session.cc` does, by the names of tensors."""

    def __init__(self, path):
        self.interpreter = Interpreter(str(path))
        self.interpreter.allocate_tensors()
        self.inputs = {each["name"]: each["index"] for each in self.interpreter.get_input_details()}
        self.outputs = {
            each["name"]: each["index"] for each in self.interpreter.get_output_details()
        }

    def run(self, **inputs):
        for name, value in inputs.items():
            index = self.inputs[name]
            if self.interpreter.get_tensor(index).nbytes != value.nbytes:
                self.interpreter.resize_tensor_input(index, value.shape)
                self.interpreter.allocate_tensors()
            self.interpreter.set_tensor(index, value)
        self.interpreter.invoke()
        return {name: self.interpreter.get_tensor(index) for name, index in self.outputs.items()}


def test_a_file_for_tensorflow_serving(report, features, logits):
    assert set(report.differences) == {"ids", "padded_ids", "model.tflite"}
    session = TfliteSession(report.path / "model.tflite")
    assert session.inputs.keys() == {"input_ids"}
    assert session.outputs.keys() == {"logits", "probabilities"}
    for rows in ([0], [1, 2, 3], [3, 4], [4, 0]):
        answer = session.run(input_ids=features["input_ids"][rows])
        np.testing.assert_allclose(answer["logits"], logits[rows], rtol=0, atol=0.1)
        np.testing.assert_allclose(answer["probabilities"].sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("flags", "warns"), [("fpu avx2 avx512_bf16", False), ("fpu avx2", True), (None, False)]
)
def test_a_processor_without_bfloat16(flags, warns, monkeypatch, tmp_path, caplog):
    info = tmp_path / "cpuinfo"
    if flags:
        info.write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr(options, "CPU_INFO", info)
    with caplog.at_level(logging.WARNING):
        options.warn_without_bfloat16()
    assert ("more slowly than in float32" in caplog.text) == warns
