"""The base model in 8 bits takes little memory."""

import numpy as np
import pytest
from albert_tf_export import graphs
from albert_tf_export.signatures import ids_signature

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification
from benchmarks import harness, runners

LIMIT = 32  # MB of memory above an empty interpreter; over 100 when unrolled


@pytest.mark.slow
def test_base_size_in_8_bits_in_a_loop(tmp_path):
    model = AlbertForSequenceClassification(AlbertConfig.from_size("base"))
    signature = ids_signature(model, unroll=False, batch=1, length=128)
    path = tmp_path / "base.tflite"
    path.write_bytes(graphs.convert([signature], "dynamic"))
    assert path.stat().st_size < 12e6
    ids = np.arange(5, 133, dtype=np.int32)[None]
    rows = dict(zip(runners.NAMES, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
    runners.write_batch(tmp_path / "row.npz", rows, model)
    (figures,) = harness.fresh(runners.measure, "litert", path, [tmp_path / "row.npz"])
    assert figures["added"] < LIMIT
