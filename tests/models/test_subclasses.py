"""Models with layers of one's own: no way back loses their weights."""

import copy

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification, AlbertModel


@keras.saving.register_keras_serializable("tests")
class Shifted(AlbertForSequenceClassification):
    """Adds a layer, a variable and a layer without weights to a task's model."""

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.extra = keras.layers.Dense(config.num_labels, name="extra")
        self.shift = self.add_weight(name="shift", shape=(), initializer="ones")
        self.dropout = keras.layers.Dropout(0.1)

    def call(self, input_ids=None, training=None, **kwargs):
        outputs = super().call(input_ids, training=training, **kwargs)
        logits = self.dropout(outputs["logits"], training=training)
        outputs["logits"] = self.extra(logits) + self.shift
        return outputs


@keras.saving.register_keras_serializable("tests")
class Replaced(AlbertForSequenceClassification):
    """Has another layer in the place of the head."""

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.classifier = keras.layers.Dense(config.num_labels, name="extra")


@keras.saving.register_keras_serializable("tests")
class Rater(AlbertModel):
    """A head of one's own."""

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.extra = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(3, name="extra")]

    def call(self, inputs, training=None):
        hidden = super().call(inputs, training=training)["pooler_output"]
        return {"logits": self.extra[1](self.extra[0](hidden))}


def logits(model, features):
    return ops.convert_to_numpy(model(features)["logits"])


@pytest.mark.parametrize(("cls", "trained"), [(Shifted, True), (Rater, False)])
def test_added_layers_are_kept(shallow_config, small_features, tmp_path, cls, trained):
    """The layers of a model that has not been called are kept as well.

    On TensorFlow, a layer has no weights before the first step is traced.
    """
    model = cls(shallow_config)
    if trained:
        model.compile("sgd")
        model.train_on_batch(small_features, np.array([0, 2]))
        assert len(model.optimizer._trainable_variables) == len(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    again, fresh = cls(model.config), cls(model.config)
    again.load_weights(tmp_path / "model.weights.h5")
    expected = logits(model, small_features)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (again, loaded, copy.deepcopy(model)):
        np.testing.assert_array_equal(logits(each, small_features), expected)
    assert np.abs(logits(fresh, small_features) - expected).max() > 1e-4
    if trained:  # also once it has been called
        again.compile("sgd", run_eagerly=True)
        assert np.isfinite(again.train_on_batch(small_features, np.array([0, 2])))


@pytest.mark.parametrize("cls", [Shifted, Replaced])
def test_checkpoints_refuse_what_they_can_not_describe(shallow_config, tmp_path, cls):
    AlbertModel(shallow_config).save_pretrained(tmp_path)
    model = cls.from_pretrained(tmp_path, num_labels=3)
    assert "extra" in model.newly_initialized and "dropout" not in model.newly_initialized
    for write in (model.save_pretrained, lambda _: model.with_depth(2)):
        with pytest.raises(UserError, match="this subclass adds .*extra.*model.save"):
            write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_call_with_other_inputs(shallow_config, tmp_path):
    class Priced(Rater):
        def call(self, inputs, price, training=None):
            return super().call(inputs, training=training)

    with pytest.raises(UserError, match="Priced .*extra.*input_ids"):
        Priced(shallow_config).save(tmp_path / "model.keras")
