"""Files that ship with the package."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from albert_tf.errors import UserError

if TYPE_CHECKING:
    import numpy as np

MODELS: Final = ("small",)  # pretrained models, by the name that `from_pretrained` takes
SPLITS: Final = ("train", "dev")  # of the reviews


def model(name: str) -> Path:
    """Returns the folder of a bundled model, one of `MODELS`."""
    return _path(name)


def reviews() -> Path:
    """Returns the folder of the bundled reviews: `train.tsv`, `dev.tsv` and `new.txt`."""
    return _path("reviews")


def load_reviews(split: str = "train") -> "tuple[list[str], np.ndarray]":
    """Returns the bundled reviews: short texts in English, half of them positive.

    Args:
        split: "train", 424 texts, or "dev", 104.
    Returns:
        The texts, and their labels: int32 `[N]`, 1 for positive and 0 for negative.
    Raises:
        UserError: there is no such split.

    Example:
        >>> from albert_tf.assets import load_reviews
        >>> texts, labels = load_reviews("dev")
        >>> len(texts), labels.mean()
        (104, np.float64(0.5))
    """
    import numpy as np

    if split not in SPLITS:
        raise UserError(f"split must be one of {', '.join(SPLITS)}. Received: {split!r}.")
    with open(reviews() / f"{split}.tsv", encoding="utf-8") as file:
        _, *lines = (line.rstrip("\n").split("\t") for line in file)
    texts, labels = zip(*lines, strict=True)
    return list(texts), np.array([label == "positive" for label in labels], "int32")


def published_rules() -> Path:
    """Returns the file of the published vocabularies' rules, compiled with Unicode 15.1.

    `compile_rules` of `albert_tf.text.vocabulary` makes it, under Python 3.13.
    """
    return _path("published_rules.bin")


def _path(name: str) -> Path:
    return Path(str(files(__name__) / name))
