"""Reading and writing weights: one table of names, one directory format.

Here are the options of `convert`, and the poolings that options choose from.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from albert_tf.options import Checked, option
from albert_tf.outputs import GOOGLE_CHECKPOINT, MODEL

Pooling = Literal["mean", "cls", "max"]
OUTPUTS: Final = {"hf": MODEL, "tf1": GOOGLE_CHECKPOINT}  # by the format of `convert`


@dataclass(frozen=True)
class ConversionOptions(Checked):
    """The options of `convert`."""

    input: str = option(
        help="checkpoint as from_pretrained takes it, or name on the hub",
        metavar="IN",
        positional=True,
        is_path=True,
    )
    output: Path = option(help="folder to write", metavar="OUT", positional=True)
    format: Literal["hf", "tf1"] = option(help="format of the output")
    dtype: Literal["float32", "float16"] | None = option(
        None, help="dtype of the weights; default: float32", only={"format": ("hf",)}
    )
    force: bool = option(False, help="replace an earlier output of the same format")
