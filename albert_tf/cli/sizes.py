"""`albert-tf sizes`"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from albert_tf.cli.text_options import aligned
from albert_tf.config import SIZES, AlbertConfig, applied_parameters, parameters
from albert_tf.options import Checked, option

SUMMARY = "show model sizes in parameters and compute"
EXAMPLES = """examples:
  albert-tf sizes
  albert-tf sizes --model my-model

Without --model, shows all named sizes. v1 and v2 models have the same size, but differ in training
and dropout.
"""
NAMES: Final = ("base", "large", "xlarge", "xxlarge", "mini", "tiny")
# Configuration fields, keyed by the paper's symbols.
FIELDS: Final = {
    "E": "embedding_size",
    "H": "hidden_size",
    "L": "num_hidden_layers",
    "A": "num_attention_heads",
    "I": "intermediate_size",
    "share": "share",
}
NOTES: Final = """\
Parameters: encoder and pooler. Compute: parameters applied in one forward pass, V·E + E·H +
L·(4·H² + 2·H·I) + H². Sharing saves parameters, but no computation.
The paper lists 235M for xxlarge, but the published checkpoint has the 222.6M shown above."""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(Checked):
    """The options of `albert-tf sizes`."""

    model: str | None = option(
        None,
        help="model directory, configuration file, Hub model ID, or size; default: all sizes",
        is_path=True,
    )


def run(options: OPTIONS) -> int:
    """Prints the table of sizes."""
    rows = [["", *FIELDS, "parameters", "compute"]]
    for name in [options.model] if options.model else NAMES:
        config = _config(name)
        compute = applied_parameters(config) / 1e6
        sizes = [str(getattr(config, field)) for field in FIELDS.values()]
        counts = [f"{parameters(config):,}", f"{compute:.{2 * (compute < 10)}f}M"]
        rows.append([name, *sizes, *counts])
    print(aligned(rows, numbers=True))
    print("\n" + NOTES)
    return 0


def _config(name: str) -> AlbertConfig:
    """Returns the configuration of a size, a JSON file, a directory, or a Hub model ID."""
    from albert_tf.checkpoints import finder

    path = Path(name)
    if name in SIZES:
        return AlbertConfig.from_size(name)
    if path.suffix == ".json" and path.is_file():
        return AlbertConfig.from_json_file(path)
    return finder.read_config(name)
