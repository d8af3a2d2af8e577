"""transformers reads what we write, and the other way round, with the same outputs."""

import dataclasses

import numpy as np
import pytest

from albert_tf.models import AlbertForSequenceClassification, AlbertModel

torch = pytest.importorskip("torch", reason="needs torch (pip install albert_tf[peers])")
transformers = pytest.importorskip(
    "transformers", reason="needs transformers (pip install albert_tf[peers])"
)
pytestmark = pytest.mark.peers
CLASSES = [AlbertModel, AlbertForSequenceClassification]
ARCHITECTURES = [(1, 1, "gelu_new"), (3, 1, "gelu"), (1, 2, "relu")]


def outputs_of(model, features):
    with torch.no_grad():
        tensors = {name: torch.tensor(values) for name, values in features.items()}
        return model.eval()(**tensors, output_hidden_states=True, output_attentions=True)


def assert_alike(ours, theirs, features):
    found = ours(features, output_hidden_states=True, output_attentions=True)
    expected = outputs_of(theirs, features)
    assert set(found) == set(expected.keys())
    for name, values in found.items():
        pairs = (
            zip(values, expected[name], strict=True)
            if isinstance(values, tuple)
            else [(values, expected[name])]
        )
        for one, other in pairs:
            np.testing.assert_allclose(one, other.numpy(), atol=2e-5, rtol=0, err_msg=name)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize(("groups", "inner", "act"), ARCHITECTURES)
def test_transformers_reads_what_we_write(
    small_config, small_features, scrambled, tmp_path, cls, groups, inner, act
):
    config = dataclasses.replace(
        small_config, num_hidden_groups=groups, inner_group_num=inner, hidden_act=act
    )
    ours = scrambled(cls(config))
    ours.save_pretrained(tmp_path)
    theirs, info = getattr(transformers, cls.__name__).from_pretrained(
        tmp_path, output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert_alike(ours, theirs, small_features)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_we_read_what_transformers_writes(small_config, small_features, tmp_path, cls):
    values = {key: value for key, value in small_config.to_dict().items() if key != "model_type"}
    theirs = getattr(transformers, cls.__name__)(
        transformers.AlbertConfig(**values, attn_implementation="eager")
    )
    theirs.save_pretrained(tmp_path)
    assert_alike(cls.from_pretrained(tmp_path), theirs, small_features)
