import math

import numpy as np
import pytest
from albert_tf_export import parity
from albert_tf_export.parity import Difference
from albert_tf_export.samples import Case, sample


def case(*logits):
    rows = [{"logits": np.array(each, "float32"), "odds": np.zeros(2)} for each in logits]
    return Case([{}] * len(rows), rows, [9] * len(rows))


def test_tolerance_follows_the_output():
    found = parity._difference(case([0.1, -0.2]).expected, case([0.1, -0.3]), "dynamic")
    assert found == ("logits", pytest.approx(0.1), parity.TOLERANCES["dynamic"])
    small, large = case([0, 0], [0, 0]), case([0, 0], [4, -8])
    found = parity._difference(small.expected, large, "none")
    assert found == ("logits", 8, 8 * parity.TOLERANCES["none"])


def test_the_output_nearest_to_its_tolerance_is_reported():
    expected = case([100, 0])
    near = [{"logits": np.array([100.001, 0]), "odds": np.array([9e-5, 0])}]
    assert parity._difference(near, expected, "none").output == "odds"
    near[0]["logits"][1] = math.nan
    assert parity._difference(near, expected, "none").output == "logits"


def test_an_export_that_does_not_run(classifier, tmp_path, tokenizer):
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"no flatbuffer at all")
    samples = sample(classifier, tokenizer, 24, pairs=False)
    with pytest.raises(parity.ParityError, match="must run without this package. Received: "):
        parity.check_tflite(path, ["ids"], samples, tokenizer, "none")


def test_report(tmp_path):
    report = parity.Report(tmp_path, 1_230_000, {"ids": Difference("logits", 2e-7, 1e-4)})
    line = "ids: max abs difference from Keras 2e-07 (logits, tolerance 0.0001)"
    assert str(report) == f"{tmp_path}: 1.2 MB\n{line}"


def test_report_without_a_check(tmp_path):
    report = parity.Report(tmp_path, 1_230_000, {})
    assert str(report) == f"{tmp_path}: 1.2 MB"
