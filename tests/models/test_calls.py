import keras
import pytest

from albert_tf.models import ModelOutput


def test_reading():
    output = ModelOutput(logits=3, attentions=(4, 5))
    assert output["logits"] == output.logits == output[0] == 3
    assert output.to_tuple() == (3, (4, 5))
    with pytest.raises(
        AttributeError, match="no output 'sop_logits'. Received outputs: logits, attentions"
    ):
        _ = output.sop_logits
    assert output.loss is None
    assert not hasattr(output, "pooler_output")


def test_keras_takes_it_apart_and_keeps_its_type():
    doubled = keras.tree.map_structure(
        lambda value: 2 * value, ModelOutput(logits=3, attentions=(4, 5))
    )
    assert isinstance(doubled, ModelOutput)
    assert doubled == {"logits": 6, "attentions": (8, 10)}


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow's")
def test_a_graph_returns_it():
    import tensorflow as tf

    result = tf.function(lambda x: ModelOutput(logits=x + 1, hidden_states=(x,)))(tf.constant(1))
    assert isinstance(result, ModelOutput)
    assert int(result.logits) == 2


def test_a_slice_is_a_tuple():
    outputs = ModelOutput(loss=1, logits=2, hidden_states=3)
    assert outputs[:2] == (1, 2)
