import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_tflite, graphs
from albert_tf_export.graphs import share_graphs
from albert_tf_export.metadata import packed


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
