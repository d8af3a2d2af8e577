"""Outputs of the original TensorFlow 1 code and of transformers, within 2e-5 in every layer."""

import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification, AlbertModel

ORIGINAL = ("c1_base_gelu", "c2_groups2_L4", "c3_inner2", "c4_e_eq_h", "c5_relu")
TRANSFORMERS = ("g1_i1_gelu_new", "g2_i1_gelu_new", "g1_i2_gelu_erf")
TOLERANCE = 2e-5
# A row that is masked everywhere keeps its scores, but at -10000, where float32 has steps of 0.001:
# the original's own results for it differ by 7.3e-5 between TensorFlow 1.15 and 2.21 (cross_check
# file).
ALL_MASKED_TOLERANCE = 1e-4


def features(arrays, prefix=""):
    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    return {
        ours: arrays[prefix + theirs] for ours, theirs in names.items() if prefix + theirs in arrays
    }


def assert_original(model, inputs, expected, rows=slice(None), tolerance=TOLERANCE):
    outputs = model(inputs, output_hidden_states=True, output_attentions=True)
    found = {"sequence_output": outputs.last_hidden_state, "pooled_output": outputs.pooler_output}
    found |= {
        f"encoder_layer_{index}": state for index, state in enumerate(outputs.hidden_states[1:])
    }
    found |= {
        f"attention_probs_{index}": attention for index, attention in enumerate(outputs.attentions)
    }
    names = [name for name in expected if name in found]
    assert len([name for name in names if name.startswith("encoder_layer_")]) == len(
        outputs.attentions
    )
    for name in names:
        ours = ops.convert_to_numpy(found[name])
        np.testing.assert_allclose(
            ours[rows], expected[name][rows], atol=tolerance, rtol=0, err_msg=name
        )


@pytest.mark.parametrize("name", ORIGINAL)
def test_encoder_of_the_original(golden, name):
    model = AlbertModel.from_pretrained(golden / "C_hf" / "converted_from_tf1" / name)
    folder = golden / "B_original_tf1" / name
    written_by_google = AlbertConfig.from_json_file(folder / "albert_config.json")
    assert written_by_google.hidden_act == model.config.hidden_act
    assert_original(
        model, features(np.load(folder / "inputs.npz")), np.load(folder / "out_pretrain.npz")
    )


@pytest.fixture
def original(golden):
    return AlbertModel.from_pretrained(golden / "C_hf" / "converted_from_tf1" / "c1_base_gelu")


@pytest.fixture
def edge(golden):
    return lambda name: np.load(golden / "B_original_tf1" / "c1_base_gelu" / f"out_edge_{name}.npz")


def test_full_length(original, edge):
    expected = edge("full_length_64_all_ids")
    assert_original(original, features(expected, "in_"), expected)


def test_without_mask_and_types(original, edge):
    expected = edge("mask_and_segments_None")
    assert_original(original, expected["in_input_ids"], expected)


def test_masks_with_holes(original, edge):
    expected = edge("mask_holes_and_all_masked_row")
    inputs = features(expected, "in_")
    all_masked = inputs["attention_mask"].sum(axis=1) == 0
    assert all_masked.tolist() == [False, False, True, False]
    assert_original(original, inputs, expected, rows=~all_masked)
    assert_original(original, inputs, expected, rows=all_masked, tolerance=ALL_MASKED_TOLERANCE)


@pytest.mark.parametrize(
    ("name", "head", "labels"),
    [*((name, "classifier", 3) for name in ORIGINAL), (ORIGINAL[0], "regression", 1)],
)
def test_classifier_of_the_original(golden, name, head, labels):
    tf = pytest.importorskip("tensorflow", reason="reads TensorFlow 1 checkpoints")
    folder = golden / "B_original_tf1" / name
    model = AlbertForSequenceClassification.from_pretrained(
        golden / "C_hf" / "converted_from_tf1" / name, num_labels=labels
    )
    checkpoint = tf.train.load_checkpoint(str(folder / head / "model.ckpt"))
    model.head.classifier.kernel.assign(checkpoint.get_tensor("output_weights").T)
    model.head.classifier.bias.assign(checkpoint.get_tensor("output_bias"))
    inputs, expected = np.load(folder / "inputs.npz"), np.load(folder / f"out_{head}.npz")
    targets = inputs["label_ids" if labels > 1 else "regression_labels"]
    outputs = model(features(inputs), labels=targets)
    np.testing.assert_allclose(
        np.squeeze(outputs.logits), np.squeeze(expected["logits"]), atol=TOLERANCE, rtol=0
    )
    np.testing.assert_allclose(outputs.loss, expected["loss"], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_classifier_of_transformers(golden, name):
    folder = golden / "C_hf" / "random" / name / "sequence_classification"
    arrays = np.load(folder / "golden.npz")
    model = AlbertForSequenceClassification.from_pretrained(folder)
    inputs = {key: arrays[f"in/{key}"] for key in ("input_ids", "attention_mask", "token_type_ids")}
    outputs = model(
        inputs, labels=arrays["in/seq_labels"], output_hidden_states=True, output_attentions=True
    )
    for key in ("logits", "loss"):
        np.testing.assert_allclose(outputs[key], arrays[f"out/{key}"], atol=TOLERANCE, rtol=0)
    for key in ("hidden_states", "attentions"):
        np.testing.assert_allclose(
            ops.stack(outputs[key]), arrays[f"out/{key}"], atol=TOLERANCE, rtol=0
        )
    bare = model(arrays["in/input_ids"])
    np.testing.assert_allclose(
        bare.logits, arrays["out_no_mask_no_types/logits"], atol=TOLERANCE, rtol=0
    )


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize(
    ("problem", "labels"),
    [("regression", "seq_labels_reg"), ("multi_label_classification", "seq_labels_multi")],
)
def test_other_losses_of_transformers(golden, name, problem, labels):
    folder = golden / "C_hf" / "random" / name / "sequence_classification"
    arrays = np.load(folder / "golden.npz")
    model = AlbertForSequenceClassification.from_pretrained(folder, problem_type=problem)
    inputs = {key: arrays[f"in/{key}"] for key in ("input_ids", "attention_mask", "token_type_ids")}
    loss = model(inputs, labels=arrays[f"in/{labels}"]).loss
    np.testing.assert_allclose(loss, arrays[f"out/loss_{problem}"], atol=TOLERANCE, rtol=0)
