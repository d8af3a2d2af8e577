"""On other backends, the package imports no more of TensorFlow than Keras does by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.backends
ROOT = Path(__file__).resolve().parents[2]
LEARN = """
import sys
import keras

heavy = {"tensorflow", "tensorflow_text", "torch", "jax", "transformers", "keras_hub", "h5py"}
of_keras = heavy & sys.modules.keys()

import numpy as np
import albert_tf.layers, albert_tf.models, albert_tf.optimizers
from albert_tf.config import AlbertConfig

config = AlbertConfig.from_size("tiny", vocab_size=31)
model = albert_tf.models.AlbertForSequenceClassification(config)
model.save_pretrained("model")
model = albert_tf.models.AlbertForSequenceClassification.from_pretrained("model")
model.compile(albert_tf.optimizers.AlbertAdamW(1e-3))
ids = np.ones((2, 7), "int32")
model.fit({"input_ids": ids}, np.zeros(2, "int32"), verbose=0)
assert keras.backend.backend() == sys.argv[1]
assert heavy & sys.modules.keys() == of_keras
model.save("model.keras")
np.save("logits.npy", model.predict(ids, verbose=0)["logits"])
"""
LOAD = """
import keras, albert_tf
import numpy as np

found = keras.models.load_model("model.keras").predict(np.ones((2, 7), "int32"), verbose=0)
np.testing.assert_allclose(found["logits"], np.load("logits.npy"), atol=1e-6)
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_model_learns_without_tensorflow_and_is_loaded_by_keras(backend, tmp_path):
    pytest.importorskip(backend, reason=f"needs {backend} (pip install albert_tf[{backend}])")
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": paths}
    for code in (LEARN, LOAD):
        command = [sys.executable, "-c", code, backend]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
