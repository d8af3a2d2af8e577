"""Other backends need no TensorFlow: what Keras imports by itself is all there is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.backends
ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
import keras

heavy = {"tensorflow", "tensorflow_text", "torch", "jax", "transformers", "keras_hub", "h5py"}
of_keras = heavy & sys.modules.keys()

import numpy as np
import albert_tf.layers, albert_tf.models, albert_tf.optimizers
from albert_tf.config import AlbertConfig

config = AlbertConfig.from_size("tiny", vocab_size=31)
model = albert_tf.models.AlbertForSequenceClassification(config)
model.save_pretrained(sys.argv[1])
model = albert_tf.models.AlbertForSequenceClassification.from_pretrained(sys.argv[1])
model.compile(albert_tf.optimizers.AlbertAdamW(1e-3))
model.fit({"input_ids": np.ones((2, 7), "int32")}, np.zeros(2, "int32"), verbose=0)
assert keras.backend.backend() == sys.argv[2]
print("ADDED", sorted(heavy & sys.modules.keys() - of_keras))
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_model_learns_without_tensorflow(backend, tmp_path):
    pytest.importorskip(backend, reason=f"needs {backend} (pip install albert_tf[{backend}])")
    done = subprocess.run(
        [sys.executable, "-c", CODE, tmp_path, backend],
        env={**os.environ, "KERAS_BACKEND": backend},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ADDED []"


SAVE = """
import numpy as np
from albert_tf import AlbertConfig, AlbertForSequenceClassification

model = AlbertForSequenceClassification(AlbertConfig.from_size("tiny", vocab_size=31))
model.save("model.keras")
np.save("logits.npy", model.predict(np.ones((2, 7), "int32"), verbose=0)["logits"])
"""
LOAD = """
import keras, albert_tf
import numpy as np

found = keras.models.load_model("model.keras").predict(np.ones((2, 7), "int32"), verbose=0)
np.testing.assert_allclose(found["logits"], np.load("logits.npy"), atol=1e-6)
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_keras_loads_a_file_in_a_fresh_process(backend, tmp_path):
    pytest.importorskip(backend, reason=f"needs {backend} (pip install albert_tf[{backend}])")
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": paths}
    for code in (SAVE, LOAD):
        command = [sys.executable, "-c", code]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
