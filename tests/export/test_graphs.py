import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_tflite, graphs
from albert_tf_export.graphs import share_graphs, words_stored
from albert_tf_export.metadata import packed

from albert_tf.layers.embedding import lookup, word_lookup


def unpacked(content):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))


@pytest.mark.parametrize("layers", ["unrolled", "loop"])
def test_exported_files_have_nothing_left_to_share(layers, written):
    model = unpacked(written(export_tflite, layers=layers).read_bytes())
    before = packed(model)
    share_graphs(model)
    assert packed(model) == before


def test_a_file_has_no_graph_twice(classifier, tokenizer, tmp_path, monkeypatch, written, features):
    """The file without sharing has a loop for each signature, and gives the same answers."""
    monkeypatch.setattr(graphs, "share_graphs", lambda model: None)
    export_tflite(classifier, tokenizer, tmp_path / "a", max_length=24, check=False)
    files = tmp_path / "a", written(export_tflite)
    twice, once = (unpacked(file.read_bytes()) for file in files)
    assert (len(twice.subgraphs), len(once.subgraphs)) == (2 + 4, 2 + 2)
    assert len(once.buffers) < len(twice.buffers)
    row = {name: value[:1] for name, value in features.items()}
    found = [Interpreter(str(file)).get_signature_runner("ids")(**row)["logits"] for file in files]
    np.testing.assert_array_equal(*found)


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


def test_the_word_table_in_8_bits_is_stored_once(make_model, tokenizer, tmp_path):
    """Masked words are scored with its transpose."""
    model = make_model("masked-lm")
    options = {"quantize": "dynamic", "ids_only": True, "check": False}
    export_tflite(model, tokenizer, tmp_path / "a", **options)
    sizes = [
        0 if buffer.data is None else len(buffer.data)
        for buffer in unpacked((tmp_path / "a").read_bytes()).buffers
    ]
    assert sizes.count(model.config.vocab_size * model.config.embedding_size) == 1
