"""Files that ship with the package."""

from importlib.resources import files
from pathlib import Path


def reviews() -> Path:
    """Returns the folder of the bundled reviews: `train.tsv`, `dev.tsv` and `new.txt`."""
    return Path(str(files(__name__) / "reviews"))
