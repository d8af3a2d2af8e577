"""`albert-tf convert`"""

import argparse
import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.errors import UserError

SUMMARY = "turn a checkpoint of any format into another format"
FORMATS = ("hf", "tf1", "keras-hub")
EXAMPLES = """examples:
  albert-tf convert albert_base_v2/model.ckpt-best my-model --format hf
  albert-tf convert my-model my-half --format hf --dtype float16
  albert-tf convert my-model my-preset --format keras-hub --without sop_classifier

Reads Hugging Face's directories (safetensors, PyTorch, TensorFlow, Flax) and names on its hub,
TensorFlow 1 checkpoints (a directory, or a path without its ending), TF-Hub modules and KerasHub
presets. Writes hf (Hugging Face), tf1 (the original code) or keras-hub. The vocabulary comes along.
KerasHub's masked-word head has a layer-norm epsilon of 1e-5 in the place of ALBERT's 1e-12.

Prints each tensor's name before and after, shape, dtype and SHA-256 (first 12 digits), and a digest
over all of them, which is the same in every format. What was written is read again and compared.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `convert`."""
    parser.add_argument("input", metavar="IN", help="checkpoint, or name on the hub")
    parser.add_argument("output", metavar="OUT", type=Path, help="folder to write")
    parser.add_argument("--format", required=True, choices=FORMATS, help="of the output")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="PART",
        help="leave a head or the pooler out, e.g. sop_classifier; may be repeated",
    )
    parser.add_argument(
        "--dtype", choices=("float32", "float16"), help="of the weights in hf; default: as they are"
    )
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Converts, and prints what became of each tensor."""
    from albert_tf.checkpoints import directory, formats
    from albert_tf.files import check_apart

    path = formats.locate(options.input)
    if path != Path(options.input).expanduser():  # from the hub: the vocabulary too
        directory.locate(options.input)
    output = options.output.expanduser()
    check_apart(path, output)
    checkpoint, sources = formats.load(path)
    checkpoint = _chosen(checkpoint, options.without)
    if options.dtype is not None:
        checkpoint = _cast(checkpoint, options.dtype, options.format)
    files = _write(checkpoint, path, output, options.format, options.force)
    report = _report(checkpoint, sources, options.format)
    report |= {"input": checkpoint.origin, "output": str(output), **files}
    print(json.dumps(report) if options.json else _readable(report))
    return 0


def _chosen(checkpoint: Any, without: list[str]) -> Any:
    """The checkpoint that gets written: whole, without what is there twice or unwanted."""
    from albert_tf.checkpoints import names, shapes

    parts = {part for name in checkpoint.tensors if (part := names.part(name))}
    strangers = set(without) - parts
    if strangers:
        raise UserError(
            f"--without must name a part of the checkpoint: {', '.join(sorted(parts)) or 'none'}. "
            f"Received: {', '.join(sorted(strangers))}."
        )
    tensors = {
        name: tensor
        for name, tensor in checkpoint.tensors.items()
        if name not in names.REDUNDANT and names.part(name) not in without
    }
    faults = list(shapes.faults(checkpoint.config, tensors))
    if faults:
        listing = "\n  ".join(faults)
        raise UserError(
            f"The weights of {checkpoint.origin} must fit its configuration; nothing was written. "
            f"Received:\n  {listing}"
        )
    config = checkpoint.config
    if config.answerability and "start_logits" in without:
        config = dataclasses.replace(config, answerability=False)
    return checkpoint._replace(config=config, tensors=tensors)


def _cast(checkpoint: Any, dtype: str, kind: str) -> Any:
    """The checkpoint with weights of another precision."""
    if kind != "hf":
        raise UserError(f"--dtype goes with --format hf; others are float32. Received: {kind}.")
    tensors = {name: tensor.astype(dtype) for name, tensor in checkpoint.tensors.items()}
    lost = [name for name, tensor in tensors.items() if not np.isfinite(tensor).all()]
    if lost:
        raise UserError(
            f"Weights must lie within the range of {dtype}. Received: {', '.join(lost)}. Leave "
            "--dtype out."
        )
    return checkpoint._replace(tensors=tensors)


def _write(checkpoint: Any, path: Path, output: Path, kind: str, force: bool) -> dict[str, Any]:
    """Writes everything, reads it again, and gives the names of the tokenizer's files."""
    from albert_tf.checkpoints import formats, report
    from albert_tf.commands import companions
    from albert_tf.files import written_atomically

    found = companions.find(path, formats.detect(path))
    copies = companions.destinations(found, kind)
    with written_atomically(output, force=force) as folder:
        more = {}
        if kind == "keras-hub":
            vocabulary = [file for file in copies if copies[file] == formats.keras_hub.VOCABULARY]
            more = {"vocabulary": vocabulary[0].read_bytes()} if vocabulary else {}
        formats.WRITERS[kind](folder, checkpoint.config, checkpoint.tensors, **more)
        for file, name in copies.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / name)
        again = formats.read(folder).tensors
        if report.digest(again) != report.digest(checkpoint.tensors):
            raise RuntimeError("What was written reads otherwise than what was to be written.")
    left_out = sorted(name for name, file in found.items() if file not in copies)
    if kind != "hf":
        left_out += _only_in_hugging_faces(checkpoint.config)
    return {"files": sorted(copies.values()), "left_out": left_out}


def _report(checkpoint: Any, sources: Mapping[str, str], kind: str) -> dict[str, Any]:
    from albert_tf.checkpoints import formats, report

    stored = formats.stored_names(kind, checkpoint)
    rows = [
        {
            "name": name,
            "in": sources.get(name),
            "out": stored[name],
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype),
            "sha256": report.checksum(tensor),
        }
        for name, tensor in sorted(checkpoint.tensors.items())
    ]
    return {"tensors": rows, "digest": report.digest(checkpoint.tensors)}


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
    parameters = sum(_product(row["shape"]) for row in report["tensors"])
    lines.append(f"tensors\t{len(report['tensors'])}, {parameters:,} parameters")
    lines += [f"copied\t{name}" for name in report["files"]]
    lines += [f"left out\t{name}: no place for it there" for name in report["left_out"]]
    lines.append(f"digest\t{report['digest']}")
    return "\n".join([*lines, f"{report['input']} -> {report['output']}"])


def _only_in_hugging_faces(config: Any) -> list[str]:
    """What the other formats can't say of a model."""
    from albert_tf.config import unnamed_labels

    named = config.labels != tuple(unnamed_labels(config.num_labels).values())
    shares = config.share != "all"
    return named * ["labels' names"] + shares * [f"share={config.share}"]


def _product(shape: list[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total
