"""`albert-tf convert`"""

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUMMARY = "turn a checkpoint of any format into another format"
FORMATS = ("hf", "tf1", "keras-hub")
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `convert`."""
    parser.add_argument("input", metavar="IN", help="checkpoint, or name on the hub")
    parser.add_argument("output", metavar="OUT", type=Path, help="folder to write")
    parser.add_argument("--format", required=True, choices=FORMATS, help="format of the output")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="PART",
        help="head to leave out, e.g. sop_classifier, or pooler; may be repeated",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        help="dtype of the weights in hf; default: the input's",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Converts, and prints the report."""
    from albert_tf.checkpoints.conversion import convert

    report = convert(
        options.input,
        options.output,
        options.format,
        without=options.without,
        dtype=options.dtype,
        force=options.force,
    )
    print(json.dumps(report) if options.json else _readable(report))
    return 0


def _readable(report: Mapping[str, Any]) -> str:
    lines = [
        "\t".join(
            (
                row["in"] or "-",
                row["out"],
                "x".join(map(str, row["shape"])),
                row["dtype"],
                row["sha256"][:12],
            )
        )
        for row in report["tensors"]
    ]
    parameters = sum(math.prod(row["shape"]) for row in report["tensors"])
    lines.append(f"tensors\t{len(report['tensors'])}, {parameters:,} parameters")
    lines += [f"copied\t{name}" for name in report["files"]]
    lines += [f"left out\t{name}: no place for it there" for name in report["left_out"]]
    lines.append(f"digest\t{report['digest']}")
    return "\n".join([*lines, f"{report['input']} -> {report['output']}"])
