"""Keras finds the package's classes in files, whichever of the two is imported first."""

import os
import subprocess
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import keras
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay
from albert_tf.registration import MODULES, AfterKeras, Placeholder
from albert_tf.tasks import BY_MODEL

ROOT = Path(__file__).resolve().parents[1]
LOAD = """
import sys
import {}
import {}
assert "albert_tf.models" not in sys.modules
for path in ("model.keras", "model.h5"):
    model = keras.models.load_model(path)
    assert type(model).__name__ == "AlbertForSequenceClassification"
    assert type(model.optimizer).__name__ == "AlbertAdamW"
    assert [metric.name for metric in model.metrics] == ["loss", "compile_metrics"]
from albert_tf import AlbertForSequenceClassification
assert type(model) is AlbertForSequenceClassification
"""


def test_the_table_lists_each_class_that_registers_itself():
    registered = "@keras.saving.register_keras_serializable("
    found = set()
    for path in (ROOT / "albert_tf").rglob("*.py"):
        lines = path.read_text("utf-8").splitlines()
        found |= {
            lines[number + 1].removeprefix("class ").partition("(")[0]
            for number, line in enumerate(lines)
            if line.startswith(registered)
        }
    assert found == MODULES.keys()


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", MODULES)
def test_a_placeholder_makes_the_class_that_registered_itself(name):
    class Found(Exception):
        pass

    def from_config(config):
        raise Found

    with pytest.MonkeyPatch.context() as patch:
        module = __import__(f"albert_tf.{MODULES[name]}", fromlist=[name])
        patch.setattr(getattr(module, name), "from_config", from_config)
        with pytest.raises(Found):
            Placeholder(name).from_config({})
    assert keras.saving.get_registered_object(f"albert_tf>{name}") is getattr(module, name)


def test_classes_are_registered_once_keras_has_been_imported(monkeypatch):
    imported, known = types.ModuleType("keras"), {"albert_tf>AlbertAdamW": AlbertAdamW}
    imported.saving = types.SimpleNamespace(get_custom_objects=lambda: known)
    spec = AfterKeras.find_spec("keras")
    assert AfterKeras.find_spec("numpy") is None
    assert spec.origin == keras.__spec__.origin
    loader = type("Loader", (), {"exec_module": lambda self, module: None})()
    finder = types.SimpleNamespace(find_spec=lambda *_: ModuleSpec("keras", loader))
    monkeypatch.setattr(sys, "meta_path", [AfterKeras, finder])
    AfterKeras.find_spec("keras").loader.exec_module(imported)
    registered = {f"albert_tf>{name}" for name in MODULES}
    assert known.keys() == registered | BY_MODEL.keys()  # .h5 files contain the name of a model
    assert known["albert_tf>AlbertAdamW"] is AlbertAdamW
    assert known["albert_tf>Lamb"].name == "Lamb"


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("order", [("albert_tf", "keras"), ("keras", "albert_tf")])
def test_a_fresh_process_loads_files_without_other_imports(order, tmp_path):
    config = AlbertConfig.from_size("tiny", vocab_size=31, num_hidden_layers=1, num_labels=3)
    model = AlbertForSequenceClassification(config)
    model.compile(AlbertAdamW(WarmupPolynomialDecay(1e-3, 2, 6)), metrics=["accuracy"])
    for name in ("model.keras", "model.h5"):
        model.save(tmp_path / name)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOAD.format(*order)]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
