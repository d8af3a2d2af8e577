"""The forms of sharing that the paper's table 4 compares."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig, parameters
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining, AlbertModel, unshare

L = 4


@pytest.fixture
def config(small_config):
    return dataclasses.replace(small_config, num_hidden_layers=L)


def block_weights(model):
    attention = sum(np.prod(v.shape) for v in model.encoder.blocks[0].attention.weights)
    ffn = sum(np.prod(v.shape) for v in model.encoder.blocks[0].ffn.weights)
    return int(attention), int(ffn)


@pytest.mark.parametrize(
    ("share", "attentions", "networks"),
    [("all", 2, 2), ("attention", 2, L), ("ffn", L, 2), ("none", L, L)],
)
@pytest.mark.parametrize("inner", [1, 3])
def test_what_is_shared(config, share, attentions, networks, inner):
    model = AlbertModel(
        dataclasses.replace(config, share=share, num_hidden_groups=2, inner_group_num=inner)
    )
    attention, ffn = block_weights(model)
    expected = inner * (attentions * attention + networks * ffn)
    assert sum(np.prod(v.shape) for v in model.encoder.weights) == expected


@pytest.mark.parametrize(
    ("share", "embedding_size", "millions"),
    [
        ("all", 768, 31),
        ("attention", 768, 83),
        ("ffn", 768, 57),
        ("none", 768, 108),
        ("all", 128, 12),
        ("attention", 128, 64),
        ("ffn", 128, 38),
        ("none", 128, 89),
    ],
)
def test_parameters_of_table_4(share, embedding_size, millions):
    """The paper's figures for the base size, which has no projection where E = H."""
    config = AlbertConfig.from_size("base", share=share, embedding_size=embedding_size)
    projection = 768 * 768 + 768 if embedding_size == 768 else 0
    assert parameters(config) - projection == pytest.approx(1e6 * millions, abs=1.1e6)


@pytest.mark.parametrize("share", ["attention", "ffn", "none"])
@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 1), (3, 2)])
def test_unshared_answers_alike(config, small_features, scrambled, share, groups, inner):
    config = dataclasses.replace(config, num_hidden_groups=groups, inner_group_num=inner)
    model = scrambled(AlbertForPreTraining(config))
    deep = unshare(model, share)
    assert (deep.config.share, deep.config.num_hidden_groups) == (share, groups)
    for name, value in model(small_features).items():
        np.testing.assert_allclose(deep(small_features)[name], value, atol=1e-6)
    assert deep.count_params() > model.count_params()


def test_unshared_layers_go_apart(config, small_features, scrambled):
    deep = unshare(scrambled(AlbertForPreTraining(config)))
    deep.compile("sgd", run_eagerly=True)
    deep.fit(small_features, {"sentence_order_label": np.array([0, 1])}, verbose=0)
    kernels = [
        ops.convert_to_numpy(block.ffn.output_dense.kernel) for block in deep.albert.encoder.blocks
    ]
    assert np.abs(kernels[0] - kernels[1]).max() > 1e-6


@pytest.mark.parametrize("share", ["attention", "ffn", "none"])
def test_files_keep_the_sharing(config, small_features, scrambled, tmp_path, share):
    config = dataclasses.replace(config, share=share, num_hidden_groups=2)
    model = scrambled(AlbertModel(config))
    expected = ops.convert_to_numpy(model(small_features).last_hidden_state)
    model.save_pretrained(tmp_path / "directory")
    model.save(tmp_path / "model.keras")
    for again in (
        AlbertModel.from_pretrained(tmp_path / "directory"),
        keras.models.load_model(tmp_path / "model.keras"),
    ):
        assert again.config == config
        assert again.count_params() == model.count_params()
        np.testing.assert_array_equal(again(small_features).last_hidden_state, expected)


def test_looped_layers(config, small_features, scrambled):
    for share in ("attention", "ffn", "none"):
        model = scrambled(AlbertModel(dataclasses.replace(config, share=share)))
        expected = model(small_features).last_hidden_state
        np.testing.assert_allclose(
            model(small_features, unroll=False).last_hidden_state, expected, atol=1e-5
        )


def test_files_of_layers_that_differ_are_not_shared(config, scrambled, tmp_path):
    scrambled(AlbertModel(dataclasses.replace(config, share="none"))).save_pretrained(tmp_path)
    AlbertModel.from_pretrained(tmp_path)
    with pytest.raises(UserError, match="shared, but differs .*albert_layer_groups.1"):
        AlbertModel.from_pretrained(tmp_path, share="attention", num_hidden_groups=1)


def test_sharing_does_not_come_back(config):
    model = AlbertModel(dataclasses.replace(config, share="attention"))
    with pytest.raises(ValueError, match="must share all weights that its copy shares"):
        unshare(model, "ffn")
    with pytest.raises(ValueError, match='share must be "none", "attention" or "ffn"'):
        unshare(model, "all")
