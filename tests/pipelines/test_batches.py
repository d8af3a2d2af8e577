import numpy as np
import pytest

from albert_tf.pipelines.batches import Row, outputs, padded


def row(*ids, **more):
    return Row({"input_ids": list(ids), "token_type_ids": [1] * len(ids), **more})


def test_rows_are_padded_to_multiples_of_eight():
    arrays = padded([row(5, 6, 7), row(*range(1, 10))], longest=43, pad_id=4)
    assert {name: array.shape for name, array in arrays.items()} == dict.fromkeys(
        ("input_ids", "token_type_ids", "attention_mask"), (2, 16)
    )
    assert {array.dtype for array in arrays.values()} == {np.dtype("int32")}
    np.testing.assert_array_equal(arrays["input_ids"][0], [5, 6, 7] + [4] * 13)
    np.testing.assert_array_equal(arrays["token_type_ids"][0], [1] * 3 + [0] * 13)
    np.testing.assert_array_equal(arrays["attention_mask"][1], [1] * 9 + [0] * 7)


def test_padding_keeps_within_the_model():
    arrays = padded([row(*range(1, 42))], longest=43, pad_id=0)
    assert arrays["input_ids"].shape == (1, 43)


def test_positions_have_their_own_length():
    rows = [row(5, 6, masked_lm_positions=[1]), row(5, 6, 7, masked_lm_positions=[0, 2])]
    positions = padded(rows, longest=43, pad_id=0)["masked_lm_positions"]
    np.testing.assert_array_equal(positions, [[1, 0], [0, 2]])


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_outputs_come_in_order_whatever_the_batch(model, batch_size):
    rows = [row(*range(5, 5 + length)) for length in (3, 11, 4)]
    found = list(outputs(model("feature-extraction"), iter(rows), batch_size, pad_id=0))
    for each, output in zip(rows, found, strict=True):
        features = {name: np.array([values]) for name, values in each.features.items()}
        expected = model("feature-extraction")(features)
        np.testing.assert_allclose(
            output["last_hidden_state"][: each.length],
            expected["last_hidden_state"][0],
            atol=1e-5,
            rtol=0,
        )


def test_no_row_is_read_before_its_batch_is_asked_for(model):
    read = []
    rows = (read.append(number) or row(5, number) for number in range(6, 12))
    stream = outputs(model("feature-extraction"), rows, 2, pad_id=0)
    assert read == []
    next(stream), next(stream)
    assert read == [6, 7]
