"""Later positions learn, and nothing else changes."""

import keras
import numpy as np
import pytest
from keras import ops

import albert_tf
from benchmarks import positions
from benchmarks.distill_small import Records
from tests.conftest import SENTENCES

FIRST, LAST = 8, 16


@pytest.fixture
def tokenizer():
    return albert_tf.AlbertTokenizer.from_pretrained("small")


def values(model):
    return {weight.path: ops.convert_to_numpy(weight).copy() for weight in model.weights}


def test_long_texts(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(positions, "TEXTS", 4)
    (tmp_path / "book.txt").write_text("\n".join(SENTENCES), "utf-8")
    found = positions.long_texts(tmp_path, ["a zebra", "two zebras", "no zebra"], tokenizer, 8, 24)
    lengths = [len(ids) for ids in tokenizer(found)["input_ids"]]
    assert len(found) == 4 and min(lengths) > 10 and max(lengths) <= 24
    assert sum("zebra" in text for text in found) == 2


def test_only_later_positions_change(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(positions, "ROWS", 4)
    text = tmp_path / "book.txt"
    text.write_text("\n".join(SENTENCES * 4) + "\n\n" + "\n".join(SENTENCES), "utf-8")
    albert_tf.build_data(
        input=str(text), output=tmp_path / "records", vocab="small", max_seq_length=16, workers=1
    )
    keras.utils.set_random_seed(0)
    model = albert_tf.AlbertForPreTraining.from_pretrained("small")
    rng = np.random.default_rng(0)
    anchors, teacher = (rng.normal(size=(rows, 6)).astype("f4") for rows in (3, 5))
    longer = positions.Longer(model, [])
    own = longer.vectors(positions.encoded(tokenizer, ["a hat", "a boat", "no"], FIRST))
    longer.anchors = [anchors, *own]
    texts = [" ".join(text.split()[:5]) for text in SENTENCES[:5]]
    features = positions.encoded(tokenizer, texts, LAST) | {"vectors": teacher}
    before = values(model)
    batches = positions.batches_of(features, Records(tmp_path / "records"))
    positions.train(longer, batches, FIRST, steps=2, peak=1e-2)
    after = values(model)
    table = model.albert.embedding.position_embeddings.path
    for path, old in before.items():
        rows = slice(None, FIRST) if path == table else slice(None)
        np.testing.assert_array_equal(old[rows], after[path][rows], err_msg=path)
    assert np.all(np.any(before[table][FIRST:LAST] != after[table][FIRST:LAST], axis=1))
    assert all(variable.trainable for variable in model.weights)
