"""`albert-tf sizes`"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.commands import size_tables
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.sizes import SIZES

SUMMARY = "count parameters, and the memory that training and serving take"
LENGTH = 128
EXAMPLES = """examples:
  albert-tf sizes
  albert-tf sizes --batch-size 32 --max-length 512 --gradient-checkpointing
  albert-tf sizes --model my-model --json

Without --model: the sizes that have names beside the paper's figures (tables 1, 3 and 4). All is
counted on the layers themselves, which take no memory for it. v1 and v2 are of one size and differ
in their training, and in dropout.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `sizes`."""
    parser.add_argument(
        "--model", help="count this one: model directory, configuration file, hub name or size"
    )
    memory = parser.add_argument_group("memory of training")
    memory.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
    memory.add_argument(
        "--max-length",
        type=int,
        help=f"pieces in a row (default: {LENGTH}, or the most that the model takes)",
    )
    memory.add_argument(
        "--gradient-checkpointing",
        action="store_true",
        help="compute each block again for the gradient, instead of keeping its results",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Prints the tables, or all of it as JSON."""
    for name in ("batch_size", "max_length"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be 1 or more. Received: {value}.")
    if options.model is None:
        names = (*size_tables.PAPER, "mini", "tiny")
        configs = {name: AlbertConfig.from_size(name) for name in names}
    else:
        configs = {options.model: _config(options.model)}
    if options.max_length is None:
        positions = max(config.max_position_embeddings for config in configs.values())
        options.max_length = min(LENGTH, positions)
    configs = _long_enough(configs, options.max_length)
    report = _report(configs, options)
    print(json.dumps(report) if options.json else size_tables.text(report))
    return 0


def _long_enough(configs: Mapping[str, AlbertConfig], length: int) -> dict[str, AlbertConfig]:
    """Those that take rows of this length."""
    longest = max(config.max_position_embeddings for config in configs.values())
    if length > longest:
        raise UserError(
            "--max-length must not be longer than the model's max_position_embeddings, "
            f"{longest}. Received: {length}."
        )
    return {
        name: config for name, config in configs.items() if length <= config.max_position_embeddings
    }


def _config(name: str) -> AlbertConfig:
    """What a size, a JSON file, a directory or a hub name says of its model."""
    from albert_tf.checkpoints import directory, formats, google

    path = Path(name).expanduser()
    if name in SIZES:
        return AlbertConfig.from_size(name)
    if path.suffix == ".json" and path.is_file():
        return AlbertConfig.from_json_file(path)
    config = path / directory.CONFIG
    if directory.is_preset(config) or (path.is_dir() and not config.is_file()):
        return formats.read(path).config
    if not path.is_dir() and google.matches(path):
        return formats.read(path).config
    return directory.read_config(directory.locate(name))


def _report(configs: Mapping[str, AlbertConfig], options: argparse.Namespace) -> dict[str, Any]:
    report: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("batch_size", "max_length", "gradient_checkpointing")
    }
    report["models"] = [
        {"name": name, **_counts(config, options), "paper_millions": size_tables.PAPER.get(name)}
        for name, config in configs.items()
    ]
    if options.model is None:
        report["table_3"] = [
            _variant(size, share, paper)
            for size, papers in size_tables.PAPER_EMBEDDINGS.items()
            for share, paper in zip(("none", "all"), papers, strict=True)
        ]
        report["table_4"] = [
            _variant(size, share, paper)
            for share, papers in size_tables.PAPER_SHARING.items()
            for size, paper in zip((768, 128), papers, strict=True)
        ]
    else:
        (config,) = configs.values()
        report["with_heads"] = _with_heads(config)
    return report


def _counts(config: AlbertConfig, options: argparse.Namespace) -> dict[str, Any]:
    from albert_tf.models import counting

    parameters = counting.parameters(config)
    training = counting.training_memory(
        config, options.batch_size, options.max_length, options.gradient_checkpointing
    )
    return {
        **{field: getattr(config, field) for field in size_tables.SIZES},
        "parameters": parameters,
        "applied_parameters": counting.applied_parameters(config),
        "weights_bytes": {name: parameters * size for name, size in size_tables.BYTES.items()},
        "training_bytes": {**training._asdict(), "total": sum(training)},
    }


def _variant(embedding_size: int, share: str, paper: int) -> dict[str, Any]:
    """A base model of table 3 or 4."""
    from albert_tf.models import counting

    config = AlbertConfig.from_size("base", embedding_size=embedding_size, share=share)
    return {
        "embedding_size": embedding_size,
        "share": share,
        "parameters": counting.parameters(config),
        "paper_millions": paper,
    }


def _with_heads(config: AlbertConfig) -> dict[str, int]:
    from albert_tf import models
    from albert_tf.models import counting

    heads = [name for name in models.__all__ if name.startswith("AlbertFor")]
    return {name: counting.parameters(config, getattr(models, name)) for name in heads}
