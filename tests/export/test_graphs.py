import numpy as np
from ai_edge_litert import schema_py_generated as schema
from albert_tf_export.graphs import convert, words_stored
from albert_tf_export.signatures import ids_signature

from albert_tf.layers.embedding import lookup, word_lookup


def test_each_word_has_a_scale_of_its_own(make_model):
    table = make_model("encoder").get_input_embeddings().weight
    values = table.numpy()
    values[7], values[8, 3] = 0, 100
    table.assign(values)
    with words_stored("dynamic"):
        found = word_lookup.get()(table, np.arange(len(values))[None])[0]
    assert word_lookup.get() is lookup
    errors, steps = np.abs(found - values).max(1), np.abs(values).max(1) / 127
    assert (errors <= steps * 0.501).all() and errors.max() > 0.1 and errors[7] == 0


def test_the_word_table_in_8_bits_is_stored_once(model_of):
    """The masked-LM head uses its transpose."""
    model = model_of("masked-lm", num_hidden_layers=1)
    content = convert([ids_signature(model, unroll=True, batch=1)], "dynamic")
    buffers = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content)).buffers
    sizes = [0 if buffer.data is None else len(buffer.data) for buffer in buffers]
    assert sizes.count(model.config.vocab_size * model.config.embedding_size) == 1
