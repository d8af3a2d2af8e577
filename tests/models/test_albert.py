import dataclasses
import threading

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.models import AlbertModel


@pytest.fixture
def model(small_config, scrambled):
    return scrambled(AlbertModel(small_config))


def test_arguments_or_a_dict(model, small_features):
    by_dict = model(small_features)
    by_name = model(**small_features)
    by_position = model(*small_features.values())
    np.testing.assert_array_equal(by_dict.last_hidden_state, by_name.last_hidden_state)
    np.testing.assert_array_equal(by_dict.last_hidden_state, by_position.last_hidden_state)


def test_outputs(model, small_features):
    outputs = model(small_features, output_hidden_states=True, output_attentions=True)
    assert list(outputs) == ["last_hidden_state", "pooler_output", "hidden_states", "attentions"]
    assert outputs.pooler_output.shape == (2, 20)
    assert [tuple(state.shape) for state in outputs.hidden_states] == [(2, 7, 20)] * 4
    assert [tuple(attention.shape) for attention in outputs.attentions] == [(2, 5, 7, 7)] * 3


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


def test_predicting_threads_change_no_other_call(model, small_features, monkeypatch):
    """A loop, which `predict` may use, has no gradient on JAX, and more to keep on TensorFlow."""
    form, loops, go_on = {}, threading.Event(), threading.Event()
    original = model.encoder.call

    def call(*args, unroll, **kwargs):
        form[threading.current_thread().name] = unroll
        if unroll == "last":
            loops.set()
            assert go_on.wait(60)
        return original(*args, unroll=unroll, **kwargs)

    monkeypatch.setattr(model.encoder, "call", call)
    thread = threading.Thread(
        target=model.predict, args=(small_features,), kwargs={"verbose": 0}, name="predict"
    )
    thread.start()
    assert loops.wait(60)
    try:
        model(small_features, training=True)
    finally:
        go_on.set()
        thread.join()
    here = threading.current_thread().name
    assert form == {"predict": "last", here: True}
    model(small_features)
    assert form[here] is True


def test_batches_of_all_sizes_are_predicted_by_one_graph(small_config, small_features):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("JAX compiles each size, torch has no graph")
    model = AlbertModel(dataclasses.replace(small_config, num_hidden_groups=1))
    for rows, length in ((2, 7), (2, 5), (1, 3)):
        batch = {name: values[:rows, :length] for name, values in small_features.items()}
        found = model.predict_on_batch(batch).last_hidden_state
        np.testing.assert_allclose(found, model(batch).last_hidden_state, atol=2e-6)
    assert model.predict_function.experimental_get_tracing_count() == 1
    (graph,) = model.predict_function._list_all_concrete_functions_for_serialization()
    assert "While" in {operation.type for operation in graph.graph.get_operations()}


def test_dropout_only_in_training(small_config, small_features):
    model = AlbertModel(dataclasses.replace(small_config, hidden_dropout_prob=0.5))
    still, again = (ops.convert_to_numpy(model(small_features).pooler_output) for _ in range(2))
    np.testing.assert_array_equal(still, again)
    assert (
        np.abs(
            ops.convert_to_numpy(model(small_features, training=True).pooler_output) - still
        ).max()
        > 1e-3
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"attention_mask": [[1]]}, "either input_ids or inputs_embeds. Received neither"),
        ({"input_ids": [[1]], "inputs_embeds": [[[0.0] * 6]]}, "Received both"),
        ({"input_ids": [[1]], "input_mask": [[1]]}, "Received also: input_mask"),
        ({"input_ids": [[31]]}, "vocab_size=31. Do the tokenizer and the model belong together"),
        ({"input_ids": [[1] * 12]}, "max_position_embeddings=11"),
        ({"inputs_embeds": [[[0.0] * 6] * 12]}, "max_position_embeddings=11"),
        ({"input_ids": [[-1, 3]]}, r"input_ids must lie in \[0, vocab_size\).*from -1 to 3"),
        ({"input_ids": [[1]], "token_type_ids": [[2]]}, "type_vocab_size=2"),
        ({"input_ids": [[1]], "position_ids": [[11]]}, "position_ids must lie in"),
        ({"input_ids": [1, 2]}, r"input_ids must .* \[batch, length\]. Received shape \(2,\)"),
        ({"input_ids": [[[1]]]}, r"Received shape \(1, 1, 1\)"),
        ({"inputs_embeds": [[0.0] * 6]}, r"inputs_embeds must .*embedding\].*\(1, 6\)"),
    ],
)
def test_inputs_that_do_not_fit(model, inputs, message):
    arrays = {
        name: np.asarray(values, "float32" if "embeds" in name else "int32")
        for name, values in inputs.items()
    }
    with pytest.raises(ValueError, match=message):
        model(arrays)


def test_a_loop_returns_no_layers(model, small_features):
    with pytest.raises(ValueError, match="need unroll=True.*Received unroll=False"):
        model(small_features, unroll=False, output_hidden_states=True)
