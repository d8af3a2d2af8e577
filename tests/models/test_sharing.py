"""The forms of sharing that the paper's table 4 compares."""

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig, parameters
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining, AlbertModel, unshare

SHARING = ("attention", "ffn", "none")


@pytest.mark.parametrize(
    ("share", "wide", "factorized"),
    [("all", 31, 12), ("attention", 83, 64), ("ffn", 57, 38), ("none", 108, 89)],
)
def test_parameters_of_table_4(share, wide, factorized):
    """The paper's millions for the base size, which has no projection where E = H."""
    config = AlbertConfig.from_size("base", share=share)
    assert parameters(config) == pytest.approx(1e6 * factorized, abs=1.1e6)
    projection = 768 * 768 + 768
    found = parameters(config.replace(embedding_size=768)) - projection
    assert found == pytest.approx(1e6 * wide, abs=1.1e6)


@pytest.mark.parametrize(
    ("share", "groups", "inner"), [*((share, 2, 2) for share in SHARING), ("none", 1, 1)]
)
def test_unshared_answers_alike(small_config, small_features, scrambled, share, groups, inner):
    config = small_config.replace(num_hidden_groups=groups, inner_group_num=inner)
    model = scrambled(AlbertForPreTraining(config))
    deep = unshare(model, share)
    assert (deep.config.share, deep.config.num_hidden_groups) == (share, groups)
    found = deep(small_features)
    for name, value in model(small_features).items():
        np.testing.assert_allclose(found[name], value, atol=1e-6)
    assert deep.count_params() > model.count_params()


@pytest.mark.parametrize("share", SHARING)
def test_files_keep_the_sharing(small_config, small_features, scrambled, tmp_path, share):
    config = small_config.replace(share=share, num_hidden_groups=2)
    model = scrambled(AlbertModel(config))
    expected = ops.convert_to_numpy(model(small_features).last_hidden_state)
    model.save_pretrained(tmp_path)
    again = AlbertModel.from_pretrained(tmp_path)
    assert again.config == config
    assert again.count_params() == model.count_params()
    np.testing.assert_array_equal(again(small_features).last_hidden_state, expected)
    if share == "ffn":
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(again(small_features).last_hidden_state, expected)


def test_files_of_layers_that_differ_are_not_shared(small_config, scrambled, tmp_path):
    scrambled(AlbertModel(small_config.replace(share="none"))).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="shared, but differs .*albert_layer_groups.1"):
        AlbertModel.from_pretrained(tmp_path, share="attention", num_hidden_groups=1)


@pytest.mark.parametrize(
    ("share", "message"),
    [("ffn", "share='attention' .* share='ffn'"), ("all", 'share must be .*"ffn". Received: .all')],
)
def test_sharing_does_not_come_back(shallow_config, share, message):
    with pytest.raises(ValueError, match=message):
        unshare(AlbertModel(shallow_config.replace(share="attention")), share)
