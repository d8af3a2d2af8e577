import numpy as np
import pytest

from albert_tf.models import AlbertModel


@pytest.fixture
def model(small_config, scrambled):
    return scrambled(AlbertModel(small_config))


def test_arguments_or_a_dict(model, small_features):
    by_dict = model(small_features).last_hidden_state
    np.testing.assert_array_equal(model(**small_features).last_hidden_state, by_dict)
    np.testing.assert_array_equal(model(*small_features.values()).last_hidden_state, by_dict)


def test_without_pooler(small_config, small_features):
    model = AlbertModel(small_config, add_pooling_layer=False)
    assert list(model(small_features)) == ["last_hidden_state"]
    assert not AlbertModel.from_config(model.get_config()).add_pooling_layer


def test_predict_returns_every_layer_to_those_who_ask(small_config, small_features):
    """Without such a request its layers are a loop, which returns the last one alone."""

    class Layers(AlbertModel):
        def call(self, inputs, training=None):
            return super().call(inputs, output_hidden_states=True).hidden_states

    model = Layers(small_config)
    found = model.predict(small_features, verbose=0)
    for layer, expected in zip(found, model(small_features), strict=True):
        np.testing.assert_allclose(layer, expected, atol=2e-6)


@pytest.mark.tensorflow
def test_batches_of_all_sizes_are_predicted_by_one_graph(small_config, small_features):
    model = AlbertModel(small_config)
    for rows, length in ((2, 7), (2, 5), (1, 3)):
        batch = {name: values[:rows, :length] for name, values in small_features.items()}
        found = model.predict_on_batch(batch).last_hidden_state
        np.testing.assert_allclose(found, model(batch).last_hidden_state, atol=2e-6)
    assert model.predict_function.experimental_get_tracing_count() == 1
    (graph,) = model.predict_function._list_all_concrete_functions_for_serialization()
    assert "While" in {operation.type for operation in graph.graph.get_operations()}


def test_a_loop_returns_no_layers(model, small_features):
    with pytest.raises(ValueError, match="require unroll=True.*Received: unroll=False"):
        model(small_features, unroll=False, output_hidden_states=True)
