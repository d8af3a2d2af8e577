"""Checkpoints in any format. This file declares `convert`'s options and the pooling modes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from albert_tf.options import Checked, option
from albert_tf.outputs import GOOGLE_CHECKPOINT, MODEL

Pooling = Literal["mean", "cls", "max"]
OUTPUTS: Final = {"hf": MODEL, "tf1": GOOGLE_CHECKPOINT}  # keyed by `convert`'s format


@dataclass(frozen=True)
class ConversionOptions(Checked):
    """The options of `convert`."""

    input: str = option(
        help="checkpoint in any format that from_pretrained reads, or a Hub model ID",
        metavar="IN",
        positional=True,
        is_path=True,
    )
    output: Path = option(help="folder to write", metavar="OUT", positional=True)
    format: Literal["hf", "tf1"] = option(help="format of the output")
    dtype: Literal["float32", "float16"] | None = option(
        None, help="dtype of the weights in the output; default: float32", only={"format": ("hf",)}
    )
    force: bool = option(False, help="replace an existing output of the same format")
