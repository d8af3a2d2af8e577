"""Files that ship with the package."""

from importlib.resources import files
from pathlib import Path
from typing import Final

MODELS: Final = ("small",)  # pretrained models, by the name that `from_pretrained` takes


def model(name: str) -> Path:
    """Returns the folder of a bundled model, one of `MODELS`."""
    return _folder(name)


def reviews() -> Path:
    """Returns the folder of the bundled reviews: `train.tsv`, `dev.tsv` and `new.txt`."""
    return _folder("reviews")


def _folder(name: str) -> Path:
    return Path(str(files(__name__) / name))
