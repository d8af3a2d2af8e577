"""What `albert-tf sizes` prints, beside the paper's figures."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

# ALBERT, arXiv 1909.11942, tables 1 and 2: millions of parameters.
PAPER: Final = {"base": 12, "large": 18, "xlarge": 60, "xxlarge": 235}
# Table 3: base with other embedding sizes, not shared and all shared.
PAPER_EMBEDDINGS: Final = {64: (87, 10), 128: (89, 12), 256: (93, 16), 768: (108, 31)}
# Table 4: base with other forms of sharing, E = 768 and E = 128.
PAPER_SHARING: Final = {"all": (31, 12), "attention": (83, 64), "ffn": (57, 38), "none": (108, 89)}
# Of a configuration, by the letters that the paper has for them.
SIZES: Final = {
    "embedding_size": "E",
    "hidden_size": "H",
    "num_hidden_layers": "L",
    "num_attention_heads": "A",
    "intermediate_size": "I",
    "share": "share",
}
# What a number takes.
BYTES: Final = {"float32": 4, "float16": 2, "int8": 1}
_APPLIED: Final = """\
Applied: the word table and every kernel once for each layer that uses it, V·E + E·H +
L·(4·H² + 2·H·I) + H². Sharing saves parameters, not work."""
_PAPERS_COUNT: Final = """\
Parameters: encoder and pooler, as the released checkpoints have them. The paper's 60M and 235M
aren't 58.7M and 222.6M rounded, nor are they with both heads of pretraining (59.0M and 223.2M); its
tables don't say what they count."""
_PROJECTION: Final = """\
With E = H = 768 the original leaves the projection out, so that it has 590,592 parameters fewer;
here, as in the files of Hugging Face, there always is one."""
_TRAINING: Final = ("weights", "gradients", "slots", "waiting", "activations", "all")
_MEMORY_NOTES: Final = """\
Slots are the two moments of Adam, AdamW or LAMB: with weights and gradients 16 bytes a parameter.
Waiting are the gradients of a shared weight's uses until TensorFlow sums them; activations are the
forward pass's results that the backward pass reads. A task's head, the step's passing results and
TensorFlow itself come on top: benchmarks/training_memory.py measures them."""


def text(report: Mapping[str, Any]) -> str:
    """The report of `sizes` as tables."""
    parts = [_sizes_table(report["models"]), _APPLIED]
    if "table_3" in report:
        parts += [_PAPERS_COUNT, _table_3(report["table_3"]), _table_4(report["table_4"])]
    else:
        rows = [[name, f"{count:,}"] for name, count in report["with_heads"].items()]
        parts.append("With a task's head\n" + _table(["", "parameters"], rows))
    return "\n\n".join([*parts, _memory_table(report), _MEMORY_NOTES])


def _sizes_table(models: Iterable[Mapping[str, Any]]) -> str:
    header = ["", *SIZES.values(), "parameters", "paper", "applied"]
    return _table(
        header,
        [
            [
                model["name"],
                *(str(model[field]) for field in SIZES),
                f"{model['parameters']:,}",
                f"{model['paper_millions']}M" if model["paper_millions"] else "",
                _millions(model["applied_parameters"]),
            ]
            for model in models
        ],
    )


def _table_3(rows: Iterable[Mapping[str, Any]]) -> str:
    found = {(row["embedding_size"], row["share"]): row for row in rows}
    return "Base with other embeddings (table 3)\n" + _table(
        ["E", "not shared", "paper", "all shared", "paper"],
        [
            [str(size), *_beside_paper(found[size, "none"]), *_beside_paper(found[size, "all"])]
            for size in PAPER_EMBEDDINGS
        ],
    )


def _table_4(rows: Iterable[Mapping[str, Any]]) -> str:
    found = {(row["embedding_size"], row["share"]): row for row in rows}
    return (
        "Base with other forms of sharing (table 4)\n"
        + _table(
            ["share", "E=768", "paper", "E=128", "paper"],
            [
                [share, *_beside_paper(found[768, share]), *_beside_paper(found[128, share])]
                for share in PAPER_SHARING
            ],
        )
        + "\n"
        + _PROJECTION
    )


def _beside_paper(row: Mapping[str, Any]) -> list[str]:
    return [f"{row['parameters']:,}", f"{row['paper_millions']}M"]


def _memory_table(report: Mapping[str, Any]) -> str:
    again = ", blocks computed again" if report["gradient_checkpointing"] else ""
    title = (
        "MB (10^6 bytes) of weights to serve, and to train in float32 with batches of "
        f"{report['batch_size']} rows of {report['max_length']} pieces{again}\n"
    )
    rows = [
        [
            model["name"],
            *(_megabytes(size) for size in model["weights_bytes"].values()),
            *(_megabytes(size) for size in model["training_bytes"].values()),
        ]
        for model in report["models"]
    ]
    return title + _table(["", *BYTES, *_TRAINING], rows)


def _table(header: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as they need, the first one at the left, the others at the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [header, *rows]
    )


def _millions(count: int) -> str:
    return f"{count / 1e6:.0f}M" if count >= 1e7 else f"{count / 1e6:.2f}M"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"
