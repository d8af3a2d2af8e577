"""Later positions learn, and nothing else changes."""

import numpy as np

import albert_tf
from benchmarks import positions
from benchmarks.distill_small import Records
from tests.conftest import SENTENCES

FIRST = 8


def test_only_later_positions_change(tmp_path):
    text = tmp_path / "book.txt"
    text.write_text("\n".join(SENTENCES * 4) + "\n\n" + "\n".join(SENTENCES), "utf-8")
    albert_tf.build_data(
        input=str(text), output=tmp_path / "records", vocab="small", max_seq_length=16, workers=1
    )
    model = albert_tf.AlbertForPreTraining.from_pretrained("small")
    before = {variable.path: np.array(variable) for variable in model.weights}
    positions.train(model, Records(tmp_path / "records"), FIRST, steps=2, peak=1e-2)
    after = {variable.path: np.array(variable) for variable in model.weights}
    table = model.albert.embedding.position_embeddings.path
    later = slice(FIRST, 16)  # the records' length
    assert np.all(np.any(before[table][later] != after[table][later], axis=1))
    before[table][later] = after[table][later]
    for path, values in before.items():
        if path == table:
            np.testing.assert_allclose(values[16:], after[path][16:], atol=1e-3)  # decayed
            np.testing.assert_array_equal(values[:16], after[path][:16])
        else:
            np.testing.assert_array_equal(values, after[path], err_msg=path)
    assert all(variable.trainable for variable in model.weights)
