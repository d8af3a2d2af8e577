"""What every reader gives: a configuration, and tensors under Hugging Face's names."""

from typing import NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig


class Checkpoint(NamedTuple):
    """A checkpoint of any format in memory.

    Attributes:
        config: of the model that the weights are from.
        tensors: by Hugging Face's names without the prefix "albert.", in its orientation.
        origin: what messages call it: its place and format.
    """

    config: AlbertConfig
    tensors: dict[str, np.ndarray]
    origin: str
