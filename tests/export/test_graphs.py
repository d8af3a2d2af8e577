import numpy as np
import pytest
from albert_tf_export import export_tflite, graphs
from albert_tf_export.graphs import share_loops


@pytest.mark.parametrize("layers", ["unrolled", "loop"])
def test_exported_files_have_nothing_left_to_share(layers, written):
    content = written(export_tflite, layers=layers).read_bytes()
    assert share_loops(content) == content


def test_changes_a_few_bytes_in_place(classifier, tokenizer, tmp_path, monkeypatch, written):
    """Every buffer keeps the converter's alignment."""
    monkeypatch.setattr(graphs, "share_loops", bytes)
    export_tflite(classifier, tokenizer, tmp_path / "a", max_length=24, check=False)
    before = (tmp_path / "a").read_bytes()
    after = share_loops(before)
    assert len(after) == len(before)
    changed = np.count_nonzero(np.frombuffer(before, "u1") != np.frombuffer(after, "u1"))
    # Condition and body of one loop: numbers of operators in two graphs.
    assert 4 <= changed <= 16
