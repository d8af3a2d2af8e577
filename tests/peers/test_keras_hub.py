"""Drawn models beside KerasHub's, which reads the folders that `save_pretrained` writes."""

import dataclasses

import numpy as np
import pytest

from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.weights import extract
from albert_tf.models import AlbertForSequenceClassification

itself = pytest.importorskip("keras_hub", reason="needs KerasHub (pip install albert_tf[peers])")
pytestmark = pytest.mark.peers
TOLERANCE = 1e-6  # in float64; Keras' attention scales its queries by a float32
NAMES = {
    "token_ids": "input_ids",
    "padding_mask": "attention_mask",
    "segment_ids": "token_type_ids",
}


@pytest.fixture
def config(drawn_config, generator):
    """A configuration that KerasHub supports: one activation, as many layers in each group."""
    per_group = int(generator.integers(1, 4))
    return dataclasses.replace(
        drawn_config,
        hidden_act="gelu_new",
        num_hidden_layers=per_group * drawn_config.num_hidden_groups,
    )


@pytest.mark.parametrize("has_head", [False, True])
def test_same_outputs_and_weights(has_head, config, drawn_features, scrambled, tmp_path):
    ours = scrambled(AlbertForSequenceClassification(config))
    ours.save_pretrained(tmp_path / "ours")
    peer = itself.models.AlbertBackbone.from_preset(str(tmp_path / "ours"), dtype="float64")
    exact = AlbertForSequenceClassification(config, dtype="float64")
    exact.set_weights(ours.get_weights())
    if has_head:
        peer = itself.models.AlbertTextClassifier(
            peer, num_classes=config.num_labels, preprocessor=None
        )
        peer.output_dense.set_weights(ours.classifier.get_weights())
    else:
        exact = exact.albert
    found, expected = exact(drawn_features), peer({x: drawn_features[y] for x, y in NAMES.items()})
    if has_head:
        pairs = [(found.logits, expected)]
    else:
        pairs = [(found.last_hidden_state, expected["sequence_output"])]
        pairs.append((found.pooler_output, expected["pooled_output"]))
    for one, other in pairs:
        np.testing.assert_allclose(one, other, atol=TOLERANCE, rtol=0)
    peer.save_to_preset(str(tmp_path / "theirs"))
    tensors = extract(ours if has_head else ours.albert)
    again = find(tmp_path / "theirs").read().tensors
    assert again.keys() == tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(again[name], tensors[name], err_msg=name)
