import numpy as np
import pytest

from albert_tf.models import AlbertForMultipleChoice
from albert_tf.models.multiple_choice import NO_CHOICE
from tests.models.conftest import B, C, T, batch


@pytest.fixture
def model(shallow_config, scrambled):
    return scrambled(AlbertForMultipleChoice(shallow_config))


@pytest.fixture
def features():
    return {**batch(B, C, T), "attention_mask": np.ones((B, C, T), "int32")}


def test_a_choice_without_attention_is_padding(model, features):
    """It doesn't change the others, is never chosen, and takes no part in the loss."""
    labels = np.array([1, 0, 2, 1])
    expected = model(features, labels=labels)
    padded = {
        name: np.concatenate([value, np.zeros_like(value[:, :2])], axis=1)
        for name, value in features.items()
    }
    found = model(padded, labels=labels)
    logits = np.asarray(found.logits)
    np.testing.assert_allclose(logits[:, :C], expected.logits, atol=1e-6)
    assert (logits[:, C:] == np.float32(NO_CHOICE)).all()
    np.testing.assert_allclose(float(found.loss), float(expected.loss), rtol=1e-6)


def test_a_padded_position_alone_is_no_padded_choice(model, features):
    features["attention_mask"][:, :, 1:] = 0
    assert (np.asarray(model(features).logits) > NO_CHOICE / 2).all()
