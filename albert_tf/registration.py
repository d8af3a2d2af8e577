"""Lets Keras load files with this package's classes even if the classes aren't imported yet.

`keras.models.load_model` looks up a class by its registered name. A class registers itself when its
module is imported, but imports take seconds. Therefore, once both `albert_tf` and `keras` are
imported, in either order, `register` registers a placeholder for each class.
"""

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from typing import Any, Final

from albert_tf.tasks import BY_MODEL

PACKAGE: Final = "albert_tf"
# The module of each class that Keras saves.
MODULES: Final[Mapping[str, str]] = {
    **dict.fromkeys(BY_MODEL, "models"),
    "AlbertAdamW": "optimizers",
    "AlbertBlock": "layers",
    "AlbertEncoder": "layers",
    "AlbertPreprocessor": "text.preprocessing",
    "AnswerSpans": "layers",
    "ClassificationHead": "layers",
    "CrossentropyOfKnown": "models.compiling",
    "EntityF1": "evaluation.keras_metrics",
    "ExactMatch": "evaluation.keras_metrics",
    "FactorizedEmbedding": "layers",
    "FeedForward": "layers",
    "Lamb": "optimizers",
    "LayerNorm": "layers.functions",
    "LogitsAccuracy": "models.compiling",
    "MaskedLMHead": "layers",
    "OfProbabilities": "models.compiling",
    "SelfAttention": "layers",
    "SpanHead": "layers",
    "WarmupPolynomialDecay": "optimizers",
}


class Placeholder:
    """Stands in for a class until Keras reads a file that contains an instance of it."""

    def __init__(self, name: str):
        self.name = name

    def from_config(self, config: dict[str, Any]) -> Any:
        """Imports the class and creates an instance."""
        module = importlib.import_module(f"{PACKAGE}.{MODULES[self.name]}")
        return getattr(module, self.name).from_config(config)


class AfterKeras:
    """Finds the `keras` module as Python does, and calls `register` once it has been imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Implements `importlib.abc.MetaPathFinder.find_spec`."""
        if name != "keras":
            return None
        finders = (each for each in sys.meta_path if each is not AfterKeras)
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: Any) -> None:
                execute(module)
                register(module)

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def register(keras: Any) -> None:
    """Registers a placeholder for each class that hasn't been imported yet."""
    known = keras.saving.get_custom_objects()
    for name in MODULES:
        known.setdefault(f"{PACKAGE}>{name}", Placeholder(name))
    for name in BY_MODEL:  # .h5 files store names without a package
        known.setdefault(name, Placeholder(name))


def register_when_imported() -> None:
    """Calls `register` once Keras has been imported, or immediately if it already has been."""
    if "keras" in sys.modules:
        register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, AfterKeras)
