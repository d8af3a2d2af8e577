import numpy as np
import pytest
from albert_tf_export.comparison import ParityError, differences, magnitude


def floats(*values):
    return np.array(values, "float32")


def test_the_largest_difference_of_each_float():
    expected = {"logits": floats(1, -2, 3), "probabilities": floats(0.2, 0.3, 0.5)}
    found = {"logits": floats(1, -2.5, 3.25), "probabilities": floats(0.2, 0.3, 0.5)}
    assert differences(found, expected, 7) == {"logits": 0.5, "probabilities": 0}


def test_nan_is_a_difference():
    found = {"logits": floats(float("nan"), 0)}
    assert np.isnan(differences(found, {"logits": floats(1, 0)}, 7)["logits"])


def test_padding_is_ignored():
    expected = {"input_ids": np.array([2, 9, 3]), "logits": floats(1, 2, 3)}
    found = {"input_ids": np.array([2, 9, 3, 0, 0]), "logits": floats(1, 2, 3, 99, -99)}
    assert differences(found, expected, 3) == {"logits": 0}
    with pytest.raises(ParityError, match=r"logits must have .*\(2,\) .* Received: \(5,\)"):
        differences({"logits": found["logits"]}, {"logits": floats(1, 2)}, 3)
    with pytest.raises(ParityError, match=r"shape \(3, 4\) for a row of 3 .* Received: \(3, 6\)"):
        differences({"logits": np.ones((5, 6))}, {"logits": np.ones((3, 4))}, 3)


def test_other_outputs():
    with pytest.raises(ParityError, match="must be end_logits, start_logits. Received: logits"):
        differences({"logits": floats(1)}, {"start_logits": floats(1), "end_logits": floats(1)}, 1)


def test_integers_and_strings_are_equal():
    expected = {"input_ids": np.array([2, 9, 3])}
    with pytest.raises(ParityError, match=r"input_ids must be \[2, 9, 3\]. Received: \[2, 8, 3\]"):
        differences({"input_ids": np.array([2, 8, 3])}, expected, 3)
    with pytest.raises(ParityError, match="classes must be .*good.* Received: .*fine"):
        differences({"classes": np.array([b"fine"])}, {"classes": np.array([b"good"])}, 3)


def test_the_label_belongs_to_the_logits_of_the_export():
    """Quantization may swap the order of two nearly equal logits."""
    classes = np.array([b"bad", b"good"])
    expected = {"logits": floats(1, 1.01), "classes": classes, "label": np.array(b"good")}
    found = {"logits": floats(1.01, 1), "classes": classes, "label": np.array(b"bad")}
    assert differences(found, expected, 7)["logits"] == pytest.approx(0.01, abs=1e-6)
    with pytest.raises(ParityError, match="label must be b'bad'. Received: b'good'"):
        differences({**found, "label": np.array(b"good")}, expected, 7)


@pytest.fixture
def beam():
    """Returns three starts, the last one impossible, with three ends each."""
    return {
        "start_top_log_probs": floats(-1, -2, -1e30),
        "start_top_index": np.array([4, 7, 0]),
        "end_top_log_probs": floats(-1, -2, -3, -1, -2, -1e30, -9, -9, -9),
        "end_top_index": np.array([5, 6, 8, 7, 9, 0, 1, 2, 3]),
        "cls_logits": floats(0.5),
    }


def turned(beam, order):
    """Returns the same beam with its starts in another order."""
    rows = {
        name: value.reshape(3, -1)[order].ravel()
        for name, value in beam.items()
        if name != "cls_logits"
    }
    return {**beam, **rows}


def test_equal_beams(beam):
    measured = dict.fromkeys(("start_top_log_probs", "end_top_log_probs", "cls_logits"), 0)
    assert differences(beam, beam, 9) == measured
    magnitudes = [magnitude([beam, beam], name) for name in measured]
    assert magnitudes == [2, 9, 0.5]


def test_beams_in_float16_store_other_impossible_values(beam):
    found = {**beam, "start_top_log_probs": floats(-1, -2, -65504)}
    assert differences(found, beam, 9)["start_top_log_probs"] == 0


def test_near_ties_may_change_their_order(beam):
    expected = {**beam, "start_top_log_probs": floats(-1, -1.01, -1e30)}
    found = turned(expected, [1, 0, 2]) | {"start_top_log_probs": floats(-1, -1.02, -1e30)}
    measured = differences(found, expected, 9)
    assert measured["start_top_log_probs"] == pytest.approx(0.02, abs=1e-6)
    assert measured["end_top_log_probs"] == 0


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"start_top_index": np.array([4, 6, 0])}, "start_top_log_probs"),  # 7 is missing
        ({"start_top_index": np.array([7, 4, 0])}, "start_top_log_probs"),  # swapped
        ({"start_top_log_probs": floats(-1, -1e30, -1e30)}, "start_top_log_probs"),
        ({"start_top_log_probs": floats(-1, -2, -3)}, "start_top_log_probs"),
        ({"end_top_index": np.array([5, 8, 6, 7, 9, 0, 1, 2, 3])}, "end_top_log_probs"),
        ({"end_top_index": np.array([5, 6, 8, 9, 7, 0, 1, 2, 3])}, "end_top_log_probs"),
    ],
)
def test_other_beams(beam, change, output):
    assert differences({**beam, **change}, beam, 9)[output] >= 1


def test_magnitude_is_that_of_all_rows():
    rows = [{"logits": floats(1, -2)}, {"logits": floats(0.5, 0.1, 3)}]
    assert magnitude(rows, "logits") == 3
