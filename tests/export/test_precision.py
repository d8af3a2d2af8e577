"""SavedModels in bfloat16, which servers run faster."""

import logging

import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export import export_saved_model, options

LENGTH = 24


@pytest.fixture(scope="module")
def report(checked, classifier):
    return checked(export_saved_model, classifier, ids_only=True, precision="bfloat16")


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
    assert set(report.differences) == {"text", "ids"}


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
