"""`albert-tf inspect-data`"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.commands.text_options import aligned, print_json
from albert_tf.errors import UserError, escaped, listed
from albert_tf.options import NOT_NEGATIVE, check_options, option

SUMMARY = "show examples for pretraining, and their statistics"
EXAMPLES = """examples:
  albert-tf inspect-data examples
  albert-tf inspect-data tf_examples.tfrecord --vocab spiece.model --examples 10 --skip 500

A piece to predict is shown as {piece → input}, where the input is [MASK], another piece or itself.
Records of --mode dynamic are masked anew in each epoch; here as in one of them. Files of the
original's create_pretraining_data.py are shown too; they need --vocab.
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS:
    """The options of `albert-tf inspect-data`."""

    input: Path = option(
        help="file of records, or their folder", metavar="FILE_OR_DIR", positional=True
    )
    vocab: str | None = option(
        None,
        help="vocabulary, or a model's folder; default: the one beside the records",
        metavar="FILE",
    )
    examples: int = option(3, help="number of examples to show", range=NOT_NEGATIVE)
    skip: int = option(0, help="number of records to skip", range=NOT_NEGATIVE)
    limit: int = option(10_000, help="number of records in the statistics", range=NOT_NEGATIVE)
    json: bool = option(False, help="output as one JSON object")

    def __post_init__(self) -> None:
        check_options(self)


def run(options: OPTIONS) -> int:
    """Prints the examples, then the statistics."""
    from albert_tf.data.pretraining.statistics import statistics
    from albert_tf.text.tokenizer import AlbertTokenizer

    files = _files(options.input)
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or _folder(options.input))
    decoded = itertools.islice(_decoded(files), options.skip, None)
    records = _masked(decoded, _folder(options.input), tokenizer)
    shown = list(itertools.islice(records, options.examples))
    readable = [_readable(example, tokenizer) for example in shown]
    rest = itertools.islice(records, max(0, options.limit - len(shown)))
    numbers = statistics(itertools.chain(shown, rest), tokenizer.mask_token_id)
    if options.json:
        print_json({"examples": readable, "statistics": numbers})
        return 0
    for number, example in enumerate(readable, start=options.skip):
        print(f"record {number}: {example['label']}, {example['pieces']} pieces")
        first, second = (escaped(" ".join(example[f"segment_{name}"])) for name in "ab")
        print(f"  A  {first}\n  B  {second}\n")
    print(_listing(numbers))
    return 0


def _files(path: Path) -> list[Path]:
    """The file, or the files of the folder in order."""
    found = sorted(path.glob("*.tfrecord*")) if path.is_dir() else [path]
    if not found or not found[0].is_file():
        raise UserError(
            "Examples must be a TFRecord file, or a folder of TFRecord files. "
            f"Received: {path}. Write some with: albert-tf build-data"
        )
    return found


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _decoded(files: list[Path]) -> Iterator[Mapping[str, Sequence[Any]]]:
    """Reads the records of files.

    Raises:
        UserError: a damaged file, or other records than pretraining examples.
    """
    from google.protobuf.message import DecodeError

    from albert_tf.data.pretraining.records import check_example, decode, read_records

    for path in files:
        for number, record in enumerate(read_records(path)):
            try:
                example = decode(record)
            except DecodeError:
                example = {}
            if not example.keys() & {"masked_lm_positions", "segment_a"}:
                raise UserError(
                    "Records must be examples for pretraining: with masked_lm_positions, or with "
                    f"segment_a. Received: {path} with {listed(example) or 'no features'}."
                )
            check_example(example, f"record {number} of {path}")
            yield example


def _masked(
    examples: Iterator[Mapping[str, Sequence[Any]]], folder: Path, tokenizer: Any
) -> Iterator[Mapping[str, Sequence[Any]]]:
    """Masks records of dynamic mode by the options in the manifest, where there is one."""
    from albert_tf.data.pretraining.examples import BATCH, masked_as_read
    from albert_tf.data.pretraining.options import ExampleOptions
    from albert_tf.data.pretraining.records import MANIFEST, read_manifest
    from albert_tf.data.pretraining.words import word_table
    from albert_tf.files import read_bytes

    path = folder / MANIFEST
    if not path.is_file():
        yield from examples
        return
    settings = read_manifest(read_bytes(path), str(path))["settings"]
    options = ExampleOptions.from_dict(settings["examples"])
    if options.mode == "static":
        yield from examples
        return
    table = word_table(tokenizer)
    while batch := list(itertools.islice(examples, BATCH)):
        _check_ids(batch, tokenizer)
        yield from masked_as_read(batch, table, options)


def _readable(example: Mapping[str, Sequence[Any]], tokenizer: Any) -> dict[str, Any]:
    """An example as pieces, those to predict marked."""
    from albert_tf.data.pretraining.statistics import is_masked, label_name

    _check_ids([example], tokenizer)
    pieces = tokenizer.convert_ids_to_tokens
    if is_masked(example):
        first, second = _marked(example, pieces)
    else:
        first, second = pieces(example["segment_a"]), pieces(example["segment_b"])
    count = len(first) + len(second) + (0 if is_masked(example) else 3)
    label = label_name(example["next_sentence_labels"][0])
    return {"label": label, "pieces": count, "segment_a": first, "segment_b": second}


def _check_ids(examples: Sequence[Mapping[str, Sequence[Any]]], tokenizer: Any) -> None:
    largest = max(max(ids, default=0) for example in examples for ids in _ids(example))
    if largest >= tokenizer.vocab_size:
        raise UserError(
            "Records must fit the vocabulary. Received: an id beyond its "
            f"{tokenizer.vocab_size} pieces. Give the one they were written with as --vocab."
        )


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
    """The statistics, one a line, shares in percent."""
    rows = [("examples", f"{numbers['examples']:,}")]
    for name, value in numbers.items():
        if name == "labels":
            rows += [(label, f"{count:,}") for label, count in value.items()]
        elif name == "length":
            rows.append(("pieces", f"{value['mean']:.1f} ({value['min']} to {value['max']})"))
        elif isinstance(value, dict):
            shares = ", ".join(f"{key} {share:.1%}" for key, share in value.items())
            rows.append((name, shares))
        elif name != "examples":
            rows.append((name, f"{value:.1f}" if value > 1 else f"{value:.1%}"))
    return aligned(rows)
