"""Outputs of the original TensorFlow 1 code and of transformers, within 2e-5 in every layer."""

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)

TOLERANCE = 2e-5
# A row that is masked everywhere keeps its scores, but at -10000, where float32 steps by 2**-10.
# A step in one score moves a probability p by p(1-p) of it, a quarter at most. (The original's own
# results for it differ by 7.3e-5 between TensorFlow 1.15 and 2.21: cross_check file.)
ALL_MASKED_TOLERANCE = 2.0**-12


def features(arrays, prefix=""):
    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    return {
        ours: arrays[prefix + theirs] for ours, theirs in names.items() if prefix + theirs in arrays
    }


def assert_near(ours, theirs, tolerance=TOLERANCE, message=""):
    ours = ops.convert_to_numpy(ours)
    np.testing.assert_allclose(ours, theirs, atol=tolerance, rtol=0, err_msg=message)


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
        assert_near(ours[rows], expected[name][rows], tolerance, name)


@pytest.mark.references("C_hf/converted_from_tf1/*")
def test_encoder_of_the_original(golden, reference):
    model = AlbertModel.from_pretrained(reference)
    folder = golden / "B_original_tf1" / reference.name
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


@pytest.mark.references("B_original_tf1/*/pretrain")
def test_pretraining_of_the_original(reference):
    folder = reference.parent
    model = AlbertForPreTraining.from_pretrained(reference)
    inputs, expected = np.load(folder / "inputs.npz"), np.load(folder / "out_pretrain.npz")
    labels = np.where(inputs["masked_lm_weights"] > 0, inputs["masked_lm_ids"], -100)
    outputs = model(
        features(inputs),
        masked_lm_positions=inputs["masked_lm_positions"],
        labels=labels,
        sentence_order_label=inputs["next_sentence_labels"],
    )
    log_probs = ops.log_softmax(outputs.prediction_logits)
    assert_near(ops.reshape(log_probs, (20, -1)), expected["masked_lm_log_probs"])
    assert_near(ops.log_softmax(outputs.sop_logits), expected["sentence_order_log_probs"])
    assert_near(outputs.loss, expected["total_loss"])
    everywhere = ops.convert_to_numpy(model(features(inputs)).prediction_logits)
    rows = np.arange(len(everywhere))[:, None]
    assert_near(outputs.prediction_logits, everywhere[rows, inputs["masked_lm_positions"]])


@pytest.mark.references("B_original_tf1/*/classifier", "B_original_tf1/*/regression")
def test_classifier_of_the_original(reference):
    folder, head = reference.parent, reference.name
    model = AlbertForSequenceClassification.from_pretrained(reference)
    inputs, expected = np.load(folder / "inputs.npz"), np.load(folder / f"out_{head}.npz")
    targets = inputs["label_ids" if head == "classifier" else "regression_labels"]
    outputs = model(features(inputs), labels=targets)
    assert_near(np.squeeze(outputs.logits), np.squeeze(expected["logits"]))
    assert_near(outputs.loss, expected["loss"])


@pytest.mark.references("B_original_tf1/*/race")
def test_choices_of_the_original(reference):
    folder = reference.parent
    model = AlbertForMultipleChoice.from_pretrained(reference)
    inputs, expected = np.load(folder / "inputs.npz"), np.load(folder / "out_race.npz")
    pairs = {name: values.reshape(2, 2, 24) for name, values in features(inputs).items()}
    outputs = model(pairs, labels=inputs["mc_labels"])
    assert_near(outputs.logits, expected["logits"])
    assert_near(outputs.loss, expected["loss"])


@pytest.mark.references("B_original_tf1/*/squad_v1")
def test_spans_of_the_original(reference):
    folder = reference.parent
    model = AlbertForQuestionAnswering.from_pretrained(reference)
    inputs, expected = np.load(folder / "inputs.npz"), np.load(folder / "out_squad_v1.npz")
    positions = {key: inputs[key] for key in ("start_positions", "end_positions")}
    outputs = model(features(inputs), **positions)
    for key in ("start_logits", "end_logits"):
        assert_near(outputs[key], expected[key])
    assert_near(outputs.loss, np.load(folder / "out_squad_v1_train.npz")["total_loss"])


@pytest.mark.references("B_original_tf1/*/squad_v2")
def test_answerability_of_the_original(reference):
    folder = reference.parent
    model = AlbertForQuestionAnswering.from_pretrained(reference)
    assert model.config.answerability
    inputs, expected = np.load(folder / "inputs.npz"), np.load(folder / "out_squad_v2.npz")
    outputs = model(features(inputs), p_mask=inputs["p_mask"])
    assert set(expected.files) == set(outputs)
    for key in expected.files:
        assert_near(*finite(outputs[key], expected[key]))
    expected = np.load(folder / "out_squad_v2_train.npz")
    labels = {key: inputs[key] for key in ("start_positions", "end_positions", "is_impossible")}
    outputs = model(features(inputs), p_mask=inputs["p_mask"], **labels)
    assert_near(outputs.loss, expected["total_loss"])
    for key in ("start_log_probs", "end_log_probs", "cls_logits"):
        assert_near(*finite(outputs[key], expected[key]))


def finite(ours, theirs):
    """Drops the places where no answer can be; they must be the same in both."""
    ours = ops.convert_to_numpy(ours)
    impossible = theirs < -1e20
    np.testing.assert_array_equal(ours < -1e20, impossible)
    return ours[~impossible], theirs[~impossible]


HEADS = {
    "pretraining": (
        AlbertForPreTraining,
        {"labels": "mlm_labels", "sentence_order_label": "sentence_order_label"},
    ),
    "masked_lm": (AlbertForMaskedLM, {"labels": "mlm_labels"}),
    "sequence_classification": (AlbertForSequenceClassification, {"labels": "seq_labels"}),
    "token_classification": (AlbertForTokenClassification, {"labels": "token_labels"}),
    "question_answering": (
        AlbertForQuestionAnswering,
        {"start_positions": "start_positions", "end_positions": "end_positions"},
    ),
    "multiple_choice": (AlbertForMultipleChoice, {"labels": "mc_labels"}),
}


@pytest.mark.references("C_hf/random/*/*")
def test_heads_of_transformers(reference):
    arrays = np.load(reference / "golden.npz")
    task, labels = HEADS[reference.name]
    model = task.from_pretrained(reference)
    inputs = {key: arrays[f"in/{key}"] for key in ("input_ids", "attention_mask", "token_type_ids")}
    outputs = model(
        inputs,
        **{ours: arrays[f"in/{theirs}"] for ours, theirs in labels.items()},
        output_hidden_states=True,
        output_attentions=True,
    )
    bare = model(arrays["in/input_ids"])
    named = {
        key.removeprefix("out/"): outputs
        for key in arrays
        if key.startswith("out/") and key.removeprefix("out/") in outputs
    }
    assert {"loss", "hidden_states", "attentions", *model.targets.values()} <= named.keys()
    for key in named:
        ours = outputs[key]
        assert_near(ops.stack(ours) if isinstance(ours, tuple) else ours, arrays[f"out/{key}"])
    for key in model.targets.values():
        assert_near(bare[key], arrays[f"out_no_mask_no_types/{key}"])


@pytest.mark.references("C_hf/random/*/sequence_classification")
@pytest.mark.parametrize(
    ("problem", "labels"),
    [("regression", "seq_labels_reg"), ("multi_label_classification", "seq_labels_multi")],
)
def test_other_losses_of_transformers(reference, problem, labels):
    arrays = np.load(reference / "golden.npz")
    model = AlbertForSequenceClassification.from_pretrained(reference, problem_type=problem)
    inputs = {key: arrays[f"in/{key}"] for key in ("input_ids", "attention_mask", "token_type_ids")}
    loss = model(inputs, labels=arrays[f"in/{labels}"]).loss
    assert_near(loss, arrays[f"out/loss_{problem}"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_training_on_the_batches_of_the_original(golden, policy, checkpointing):
    """Ten batches, the same weights at the start: the losses stay near those in float32."""
    batches = np.load(golden / "D_optimizers" / "batches.npz")
    model = AlbertForPreTraining.from_pretrained(
        golden / "B_original_tf1" / "c1_base_gelu" / "pretrain", dtype=policy
    )
    if checkpointing:
        model.gradient_checkpointing_enable()
    # Eagerly JAX compiles every operation; XLA would be the slow way on TensorFlow.
    model.compile(keras.optimizers.Adam(1e-3), jit_compile=keras.backend.backend() == "jax")
    losses = []
    for step in range(10):
        batch = {name: batches[name][step] for name in batches.files}
        labels = {
            "labels": np.where(batch["masked_lm_weights"] > 0, batch["masked_lm_ids"], -100),
            "sentence_order_label": batch["next_sentence_labels"],
        }
        positions = {"masked_lm_positions": batch["masked_lm_positions"]}
        losses.append(model.train_on_batch({**features(batch), **positions}, labels))
        model.reset_metrics()
    assert np.isfinite(losses).all()
    first = np.load(golden / "D_optimizers" / "run_adamw_onehot_c1.npz")["total_loss"][0]
    assert losses[0] == pytest.approx(first, abs=2e-5 if policy == "float32" else 0.1)
    assert np.mean(losses[5:]) < np.mean(losses[:5])
