import numpy as np
import pytest
from albert_tf_export import parity


@pytest.fixture(scope="module")
def samples(classifier, tokenizer):
    return parity.sample(classifier, tokenizer, 24, pairs=False)


def test_samples_are_varied(samples):
    lengths = [len(row["input_ids"]) for row in samples.ids]
    assert min(lengths) == 2  # the empty text
    assert max(lengths) == 24  # the text that is too long
    assert len(set(lengths)) > 4
    assert samples.logits.shape == (len(samples.texts), 3)
    assert any("\0" in row["text"] for row in samples.texts)


def test_samples_of_pairs(classifier, tokenizer):
    samples = parity.sample(classifier, tokenizer, 24, pairs=True)
    assert all(1 in row["token_type_ids"] for row in samples.ids)
    assert all(set(row) == {"text", "text_pair"} for row in samples.texts)


def test_tolerance_follows_the_logits():
    small = parity.Samples([], [], np.array([[0.1, -0.2]]))
    large = parity.Samples([], [], np.array([[4.0, -8.0]]))
    assert small.tolerance("dynamic") == parity.TOLERANCES["dynamic"]
    assert large.tolerance("dynamic") == 8 * parity.TOLERANCES["dynamic"]


def test_an_export_that_does_not_run(samples, tmp_path, tokenizer):
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"no flatbuffer at all")
    with pytest.raises(parity.ParityError, match="must run without this package. Received: "):
        parity.check_tflite(path, ["ids"], samples, tokenizer, "none")


def test_report_without_a_check(tmp_path):
    report = parity.Report(tmp_path, 1_230_000, {}, 1e-4)
    assert str(report) == f"{tmp_path}: 1.2 MB"
