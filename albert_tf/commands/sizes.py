"""`albert-tf sizes`"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.commands import size_tables
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.options import COUNT, check_options, option
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class OPTIONS:
    """The options of `albert-tf sizes`."""

    model: str | None = option(
        None,
        help="model to count: directory, configuration file, hub name or size",
        metavar="NAME",
    )
    batch_size: int = option(32, help="examples of a training step", range=COUNT)
    max_length: int | None = option(
        None,
        help=f"pieces of an example; default: {LENGTH}, or the most that the model takes",
        range=COUNT,
    )
    gradient_checkpointing: bool = option(
        False, help="recomputation of layers in the backward pass: less memory, more time"
    )
    json: bool = option(False, help="output as one JSON object")

    def __post_init__(self) -> None:
        check_options(self)


def run(options: OPTIONS) -> int:
    """Prints the tables, or all of it as JSON."""
    if options.model is None:
        names = (*size_tables.PAPER, "mini", "tiny")
        configs = {name: AlbertConfig.from_size(name) for name in names}
    else:
        configs = {options.model: _config(options.model)}
    positions = max(config.max_position_embeddings for config in configs.values())
    length = options.max_length or min(LENGTH, positions)
    options = dataclasses.replace(options, max_length=length)
    configs = _long_enough(configs, length)
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
    from albert_tf.checkpoints import finder

    path = Path(name).expanduser()
    if name in SIZES:
        return AlbertConfig.from_size(name)
    if path.suffix == ".json" and path.is_file():
        return AlbertConfig.from_json_file(path)
    return finder.read_config(name)


def _report(configs: Mapping[str, AlbertConfig], options: OPTIONS) -> dict[str, Any]:
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


def _counts(config: AlbertConfig, options: OPTIONS) -> dict[str, Any]:
    from albert_tf.models import counting

    assert options.max_length is not None
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
