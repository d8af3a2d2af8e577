"""Files that ship with the package."""

from importlib.resources import files
from pathlib import Path
from typing import Final

MODELS: Final = ("small",)  # pretrained models, by the name that `from_pretrained` takes


def model(name: str) -> Path:
    """Returns the folder of a bundled model, one of `MODELS`."""
    return _path(name)


def reviews() -> Path:
    """Returns the folder of the bundled reviews: `train.tsv`, `dev.tsv` and `new.txt`."""
    return _path("reviews")


def published_rules() -> Path:
    """Returns the file of the published vocabularies' rules, compiled with Unicode 15.1.

    `compile_rules` of `albert_tf.text.vocabulary` makes it, under Python 3.13.
    """
    return _path("published_rules.bin")


def _path(name: str) -> Path:
    return Path(str(files(__name__) / name))
