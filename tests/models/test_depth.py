import keras
import numpy as np
import pytest

from albert_tf import models
from albert_tf.errors import UserError

NAMES = [name for name in models.__all__ if name.startswith("Albert") and "For" in name]


def features(model):
    generator = np.random.default_rng(2)
    shape = (2, 3, 7) if model.task.has_choices else (2, 7)
    ids = generator.integers(8, 31, shape)
    return {"input_ids": ids, "token_type_ids": ids % 2, "attention_mask": np.ones_like(ids)}


def made(small_config, name, layers, **fields):
    keras.utils.set_random_seed(3)
    config = small_config.replace(
        num_hidden_layers=layers, classifier_dropout_prob=0.0, initializer_range=0.3, **fields
    )
    return getattr(models, name)(config)


@pytest.mark.parametrize(
    "name", ["AlbertModel", *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES)]
)
def test_another_depth_has_the_same_weights(small_config, name):
    model = made(small_config, name, 4)
    shallow = model.with_depth(2)
    assert shallow.config.num_hidden_layers == 2 and model.config.num_hidden_layers == 4
    assert not {id(weight) for weight in shallow.weights} & {id(weight) for weight in model.weights}
    expected = made(small_config, name, 2)
    expected.set_weights(model.get_weights())
    given = features(model)
    found, whole, deeper = (each(given) for each in (shallow, model, model.with_depth(6)))
    for key, value in expected(given).items():
        np.testing.assert_allclose(found[key], value, atol=1e-6)
    output = next(iter(whole))
    assert np.abs(np.asarray(deeper[output]) - np.asarray(whole[output])).max() > 1e-4


def test_a_copy_is_untrained_only_if_its_model_is(small_config):
    model = made(small_config, "AlbertForSequenceClassification", 2)
    model.newly_initialized = ["classifier"]
    assert model.with_depth(1).untrained_parts() == ["classifier"]
    model.compile("sgd")
    model.optimizer.iterations.assign(1)
    assert model.with_depth(1).untrained_parts() == []


@pytest.mark.parametrize(
    ("fields", "depth"), [({"num_hidden_groups": 2}, 2), ({"share": "none"}, 3)]
)
def test_groups_that_end_at_a_depth(small_config, fields, depth):
    """Compares with the state after that layer."""
    model = made(small_config, "AlbertModel", 4, **fields)
    shallow, given = model.with_depth(depth), features(model)
    expected = model(given, output_hidden_states=True).hidden_states[depth]
    np.testing.assert_allclose(shallow(given).last_hidden_state, expected, atol=1e-6)
    assert len(shallow.weights) < len(model.weights)


@pytest.mark.parametrize(
    ("fields", "depth", "message"),
    [
        ({"num_hidden_groups": 2}, 7, "6 layers in 2 groups and share='all' .*num_hidden_layers=7"),
        ({"num_hidden_groups": 2}, 4, "share='all' .*num_hidden_layers=4"),
        ({"share": "ffn"}, 2, "share='ffn' .*num_hidden_layers=2"),
    ],
)
def test_depths_that_no_configuration_describes(small_config, fields, depth, message):
    with pytest.raises(ValueError, match=message):
        small_config.replace(num_hidden_layers=6, **fields).at_depth(depth)


def test_a_checkpoint_at_another_depth(small_config, tmp_path):
    model = made(small_config, "AlbertModel", 4)
    model.save_pretrained(tmp_path / "shared")
    loaded = models.AlbertModel.from_pretrained(tmp_path / "shared", num_hidden_layers=2)
    given = features(model)
    expected = model.with_depth(2)(given).last_hidden_state
    np.testing.assert_allclose(loaded(given).last_hidden_state, expected, atol=1e-6)
    made(small_config, "AlbertModel", 4, share="ffn").save_pretrained(tmp_path / "unshared")
    with pytest.raises(UserError, match="num_hidden_layers=2 for 4 groups"):
        models.AlbertModel.from_pretrained(tmp_path / "unshared", num_hidden_layers=2)
