"""`albert-tf convert`"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from albert_tf.checkpoints.options import ConversionOptions
from albert_tf.commands.text_options import aligned
from albert_tf.files import check_free
from albert_tf.options import option, part

SUMMARY = "turn a checkpoint of any format into another format"
EXAMPLES = """examples:
  albert-tf convert albert_base_v2/model.ckpt-best my-model --format hf
  albert-tf convert my-model my-half --format hf --dtype float16
  albert-tf convert my-model my-preset --format keras-hub --without sop_classifier

Reads Hugging Face's directories (safetensors, PyTorch, TensorFlow, Flax) and names on its hub,
TensorFlow 1 checkpoints (a directory, or a path without its ending), TF-Hub modules and KerasHub
presets. Writes hf (Hugging Face), tf1 (the original code) or keras-hub, and copies the tokenizer's
files. KerasHub's masked-word head has a layer-norm epsilon of 1e-5 instead of ALBERT's 1e-12.

Prints each tensor's name before and after, shape, dtype and SHA-256 (first 12 digits), and a digest
over all of them, which is the same in every format. Reads the output again and compares it.
"""


@dataclass(frozen=True)
class OPTIONS(ConversionOptions):
    """The options of `albert-tf convert`."""

    json: bool = option(False, help="output as one JSON object")


def check(options: OPTIONS) -> None:
    """Looks for the input, and refuses an output that exists."""
    from albert_tf.checkpoints import finder

    finder.find(options.input)
    check_free(options.output, options.force)


def run(options: OPTIONS) -> int:
    """Converts, and prints the report."""
    from albert_tf.checkpoints.conversion import convert

    report = convert(part(ConversionOptions, options))
    print(json.dumps(report) if options.json else _readable(report))
    return 0


def _readable(report: Mapping[str, Any]) -> str:
    tensors = [
        (
            row["in"] or "-",
            row["out"],
            "x".join(map(str, row["shape"])),
            row["dtype"],
            row["sha256"][:12],
        )
        for row in report["tensors"]
    ]
    parameters = sum(math.prod(row["shape"]) for row in report["tensors"])
    rows = [("tensors", f"{len(tensors)}, {parameters:,} parameters")]
    rows += [("copied", name) for name in report["files"]]
    rows += [("left out", f"{name}: no place for it there") for name in report["left_out"]]
    rows.append(("digest", report["digest"]))
    return "\n".join([aligned(tensors), aligned(rows), f"{report['input']} -> {report['output']}"])
