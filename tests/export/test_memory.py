"""The base model in 8 bits takes little memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from albert_tf_export import graphs
from albert_tf_export.signatures import ids_signature

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"
LIMIT = 32  # MB of memory above an empty interpreter; over 100 when unrolled


@pytest.mark.slow
def test_base_size_in_8_bits_in_a_loop(tmp_path):
    model = AlbertForSequenceClassification(AlbertConfig.from_size("base"))
    signature = ids_signature(model, unroll=False, batch=1, length=128)
    path = tmp_path / "base.tflite"
    path.write_bytes(graphs.convert([signature], "dynamic"))
    assert path.stat().st_size < 12e6
    command = [sys.executable, BENCHMARK, "--measure", path]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    assert json.loads(output)["memory"] < LIMIT
