"""`albert-tf inspect-data`"""

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from albert_tf.errors import UserError

SUMMARY = "show examples for pretraining, and what they are like in numbers"
EXAMPLES = """examples:
  albert-tf inspect-data examples
  albert-tf inspect-data tf_examples.tfrecord --vocab spiece.model --examples 10 --skip 500

A piece to predict is shown as {piece → what the model sees}: [MASK], another piece, or itself.
Records of --mode dynamic are masked when they are read, and have no such marks. Files of the
original's create_pretraining_data.py are shown too; they need --vocab.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `inspect-data`."""
    parser.add_argument("input", metavar="FILE_OR_DIR", type=Path, help="records, or their folder")
    parser.add_argument("--vocab", help="vocabulary, or a model's folder; default: beside them")
    parser.add_argument("--examples", type=int, default=3, help="to show; default: %(default)s")
    parser.add_argument("--skip", type=int, default=0, help="records to pass over first")
    parser.add_argument(
        "--limit", type=int, default=10_000, help="records for the numbers; default: %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Shows the examples, then the numbers."""
    from albert_tf.data.pretraining.statistics import statistics
    from albert_tf.text.tokenizer import AlbertTokenizer

    for name in ("examples", "skip", "limit"):
        if getattr(options, name) < 0:
            raise UserError(f"--{name} must be 0 or more. Received: {getattr(options, name)}.")
    files = _files(options.input)
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or _folder(options.input))
    records = itertools.islice(_decoded(files), options.skip, None)
    shown = list(itertools.islice(records, options.examples))
    readable = [_readable(example, tokenizer) for example in shown]
    rest = itertools.islice(records, max(0, options.limit - len(shown)))
    numbers = statistics(itertools.chain(shown, rest), tokenizer.mask_token_id)
    if options.json:
        print(json.dumps({"examples": readable, "statistics": numbers}, ensure_ascii=False))
        return 0
    for number, example in enumerate(readable, start=options.skip):
        print(f"record {number}: {example['label']}, {example['pieces']} pieces")
        print(f"  A  {' '.join(example['segment_a'])}\n  B  {' '.join(example['segment_b'])}\n")
    print(_listing(numbers))
    return 0


def _files(path: Path) -> list[Path]:
    """The files of records: the one given, or those of a folder in order."""
    found = sorted(path.glob("*.tfrecord*")) if path.is_dir() else [path]
    if not found or not found[0].is_file():
        raise UserError(
            "Examples must be a TFRecord file, or a folder with some. "
            f"Received: {path}. Make some with: albert-tf build-data"
        )
    return found


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _decoded(files: list[Path]) -> Iterator[Mapping[str, Sequence[Any]]]:
    """The records of files.

    Raises:
        UserError: a damaged file, or records of something else.
    """
    from google.protobuf.message import DecodeError

    from albert_tf.data.pretraining.records import decode, read_records

    for path in files:
        for record in read_records(path):
            try:
                example = decode(record)
            except DecodeError:
                example = {}
            if not example.keys() & {"masked_lm_positions", "segment_a"}:
                raise UserError(
                    "Records must be examples for pretraining: with masked_lm_positions, or with "
                    f"segment_a. Received: {path} with {', '.join(example) or 'something else'}."
                )
            yield example


def _readable(example: Mapping[str, Sequence[Any]], tokenizer: Any) -> dict[str, Any]:
    """An example as pieces, the ones to predict marked."""
    from albert_tf.data.pretraining.statistics import is_masked, label_name

    if max(max(values, default=0) for values in _ids(example)) >= tokenizer.vocab_size:
        raise UserError(
            "Records must be of this vocabulary. Received: an id beyond its "
            f"{tokenizer.vocab_size} pieces. Name the one they were made with by --vocab."
        )
    pieces = tokenizer.convert_ids_to_tokens
    if is_masked(example):
        first, second = _marked(example, pieces)
    else:
        first, second = pieces(example["segment_a"]), pieces(example["segment_b"])
    count = len(first) + len(second) + (0 if is_masked(example) else 3)
    label = label_name(example["next_sentence_labels"][0])
    return {"label": label, "pieces": count, "segment_a": first, "segment_b": second}


def _ids(example: Mapping[str, Sequence[Any]]) -> list[Sequence[int]]:
    names = ("input_ids", "masked_lm_ids", "segment_a", "segment_b")
    return [example[name] for name in names if name in example]


def _marked(example: Mapping[str, Sequence[Any]], pieces: Any) -> tuple[list[str], list[str]]:
    from albert_tf.data.pretraining.statistics import predicted_positions

    length = sum(example["input_mask"])
    second = length - sum(example["segment_ids"])
    shown = pieces(example["input_ids"][:length])
    positions = predicted_positions(example)
    labels = pieces(example["masked_lm_ids"][: len(positions)])
    for position, label in zip(positions, labels, strict=True):
        shown[position] = f"{{{label} → {shown[position]}}}"
    return shown[:second], shown[second:]


def _listing(numbers: Mapping[str, Any]) -> str:
    """The numbers, one a line, shares in percent."""
    lines = [f"examples\t{numbers['examples']:,}"]
    for name, value in numbers.items():
        if name == "labels":
            lines += [f"{label}\t{count:,}" for label, count in value.items()]
        elif name == "length":
            lines.append(f"pieces\t{value['mean']:.1f} ({value['min']} to {value['max']})")
        elif isinstance(value, dict):
            shares = ", ".join(f"{key} {share:.1%}" for key, share in value.items())
            lines.append(f"{name}\t{shares}")
        elif name != "examples":
            lines.append(f"{name}\t{value:.1f}" if value > 1 else f"{name}\t{value:.1%}")
    return "\n".join(lines)
