import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.models import AlbertForSequenceClassification
from albert_tf.training.optimizers import NO_DECAY, WarmupLinearDecay, adamw


def rates(schedule, *steps):
    return [float(schedule(step)) for step in steps]


def test_rises_to_the_peak_and_falls_to_zero():
    schedule = WarmupLinearDecay(peak=0.6, warmup_steps=3, total_steps=13)
    np.testing.assert_allclose(rates(schedule, 0, 1, 2), [0.2, 0.4, 0.6], rtol=1e-6)
    np.testing.assert_allclose(rates(schedule, 3, 8, 12, 13), [0.6, 0.3, 0.06, 0], atol=1e-7)
    assert rates(schedule, 14, 1000) == [0, 0]


def test_without_warm_up_the_first_step_has_the_peak():
    np.testing.assert_allclose(
        rates(WarmupLinearDecay(0.6, 0, 12), 0, 6, 12), [0.6, 0.3, 0], atol=1e-7
    )


@pytest.mark.parametrize("warmup", [-1, 12, 13])
def test_a_warm_up_that_does_not_fit(warmup):
    with pytest.raises(ValueError, match=f"Received: warmup_steps={warmup}, total_steps=12"):
        WarmupLinearDecay(0.6, warmup, 12)


def test_keras_serializes_the_schedule():
    schedule = WarmupLinearDecay(0.6, 3, 13)
    schedules = keras.optimizers.schedules
    again = schedules.deserialize(schedules.serialize(schedule))
    assert again.get_config() == schedule.get_config() != WarmupLinearDecay(1, 3, 13).get_config()


def test_biases_and_norms_keep_their_size_without_gradients(small_config):
    model = AlbertForSequenceClassification(small_config)
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape))
    adamw(model, 0.1, weight_decay=0.5).apply(
        [ops.zeros(variable.shape) for variable in model.trainable_variables],
        model.trainable_variables,
    )
    spared = {
        variable.path
        for variable in model.trainable_variables
        if np.all(ops.convert_to_numpy(variable) == 1)
    }
    assert spared == {v.path for v in model.trainable_variables if v.name in NO_DECAY}
    decayed = [v for v in model.trainable_variables if v.path not in spared]
    assert {v.name for v in decayed} >= {"kernel", "word_embeddings"}
    for variable in decayed:
        np.testing.assert_allclose(variable, 1 - 0.1 * 0.5, rtol=1e-6)


def test_gradients_are_clipped_together():
    """Adam's first moment after one step is a tenth of the clipped gradient."""
    layer = keras.layers.Dense(1, use_bias=False)
    layer.build((None, 2))
    optimizer = adamw(layer, 0.1)
    gradient = ops.convert_to_tensor([[30.0], [40.0]])
    optimizer.apply([gradient], layer.trainable_variables)
    moment = next(v for v in optimizer.variables if "momentum" in v.path)
    np.testing.assert_allclose(moment, [[0.06], [0.08]], rtol=1e-5)
