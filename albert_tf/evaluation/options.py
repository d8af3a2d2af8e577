"""The options of `evaluate`."""

from dataclasses import dataclass

from albert_tf.data.options import LabelledData
from albert_tf.options import COUNT, check_options, option


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(LabelledData):
    """The options of `evaluate`."""

    model: str = option(help="model directory, name on the hub, or small", metavar="NAME")
    batch_size: int = option(64, help="examples predicted at once", range=COUNT)

    def __post_init__(self) -> None:
        check_options(self)
