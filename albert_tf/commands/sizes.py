"""`albert-tf sizes`"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from albert_tf import counting
from albert_tf.commands.text_options import aligned
from albert_tf.config import SIZES, AlbertConfig
from albert_tf.errors import UserError
from albert_tf.options import COUNT, check_options, option

SUMMARY = "count parameters, and the memory that training and serving take"
EXAMPLES = """examples:
  albert-tf sizes
  albert-tf sizes --batch-size 32 --max-length 512 --gradient-checkpointing
  albert-tf sizes --model my-model --json

Without --model: the named sizes. v1 and v2 have the same size; they differ in training and dropout.
"""
NAMES: Final = ("base", "large", "xlarge", "xxlarge", "mini", "tiny")
# A configuration's fields, by the letters that the paper has for them.
FIELDS: Final = {
    "embedding_size": "E",
    "hidden_size": "H",
    "num_hidden_layers": "L",
    "num_attention_heads": "A",
    "intermediate_size": "I",
    "share": "share",
}
BYTES: Final = {"float32": 4, "float16": 2, "int8": 1}
NOTES: Final = """\
Parameters: encoder and pooler. Compute: parameters that a pass applies, V·E + E·H +
L·(4·H² + 2·H·I) + H². Sharing saves parameters, not work.
Memory in MB (10^6 bytes): weights to serve; then a training step in float32. Slots are the moments
of Adam, AdamW or LAMB; waiting are gradients of a shared weight's uses, until TensorFlow sums them;
activations are results that the backward pass reads. A task's head, intermediate results and
TensorFlow itself come on top: benchmarks/training_memory.py measures them."""


@dataclass(frozen=True, kw_only=True)
class OPTIONS:
    """The options of `albert-tf sizes`."""

    model: str | None = option(
        None, help="model directory, configuration file, hub name or size; default: all sizes"
    )
    batch_size: int = option(32, help="number of rows in a training batch", range=COUNT)
    max_length: int | None = option(
        None,
        help="number of tokens in a row; default: 128, or the model's limit if that is less",
        range=COUNT,
    )
    gradient_checkpointing: bool = option(
        False, help="recomputation of each block for the gradient, which saves activations"
    )
    json: bool = option(False, help="output as one JSON object")

    def __post_init__(self) -> None:
        check_options(self)


def run(options: OPTIONS) -> int:
    """Prints a table of sizes and one of memory, or all of it as JSON."""
    if options.model is None:
        configs = {name: AlbertConfig.from_size(name) for name in NAMES}
    else:
        configs = {options.model: _config(options.model)}
    longest = max(config.max_position_embeddings for config in configs.values())
    length = options.max_length or min(128, longest)
    if length > longest:
        raise UserError(
            "--max-length must not be longer than the model's max_position_embeddings, "
            f"{longest}. Received: {length}."
        )
    models = [
        {"name": name, **_counts(config, options, length)}
        for name, config in configs.items()
        if length <= config.max_position_embeddings
    ]
    if options.json:
        print(json.dumps({**vars(options), "max_length": length, "models": models}))
        return 0
    again = ", blocks computed again" if options.gradient_checkpointing else ""
    header = ["", *FIELDS.values(), "parameters", "compute"]
    print(aligned([header, *map(_size_row, models)], numbers=True))
    batch = f"{options.batch_size} sequences of {length} tokens"
    print(f"\nMemory; training with batches of {batch}{again}")
    header = ["", *BYTES, *models[0]["training_bytes"]]
    print(aligned([header, *map(_memory_row, models)], numbers=True))
    print("\n" + NOTES)
    return 0


def _config(name: str) -> AlbertConfig:
    """Reads the configuration of a size, a JSON file, a directory or a hub name."""
    from albert_tf.checkpoints import finder

    path = Path(name).expanduser()
    if name in SIZES:
        return AlbertConfig.from_size(name)
    if path.suffix == ".json" and path.is_file():
        return AlbertConfig.from_json_file(path)
    return finder.read_config(name)


def _counts(config: AlbertConfig, options: OPTIONS, length: int) -> dict[str, Any]:
    parameters = counting.parameters(config)
    training = counting.training_memory(
        config, options.batch_size, length, options.gradient_checkpointing
    )
    return {
        **{field: getattr(config, field) for field in FIELDS},
        "parameters": parameters,
        "applied_parameters": counting.applied_parameters(config),
        "weights_bytes": {name: parameters * size for name, size in BYTES.items()},
        "training_bytes": {**training._asdict(), "total": sum(training)},
    }


def _size_row(model: dict[str, Any]) -> list[str]:
    compute = model["applied_parameters"] / 1e6
    sizes = [str(model[field]) for field in FIELDS]
    return [model["name"], *sizes, f"{model['parameters']:,}", f"{compute:.{2 * (compute < 10)}f}M"]


def _memory_row(model: dict[str, Any]) -> list[str]:
    sizes = [*model["weights_bytes"].values(), *model["training_bytes"].values()]
    return [model["name"], *(f"{size / 1e6:,.1f}" for size in sizes)]
