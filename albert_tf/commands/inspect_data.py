"""`albert-tf inspect-data`"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.commands.text_options import aligned, print_json
from albert_tf.data.pretraining.options import IN_ORDER, SPECIAL_COUNT, SWAPPED
from albert_tf.errors import UserError, escaped, listed
from albert_tf.options import NOT_NEGATIVE, check_options, option

SUMMARY = "show examples for pretraining, and their statistics"
EXAMPLES = """examples:
  albert-tf inspect-data examples
  albert-tf inspect-data tf_examples.tfrecord --vocab spiece.model --examples 10 --skip 500

A token to predict is shown as {token → input}, where the input is [MASK], another token or itself.
Records of --mode dynamic are masked anew in each epoch; here as in one of them. Files of the
original's create_pretraining_data.py are shown too; they need --vocab.
"""
Example = Mapping[str, Sequence[Any]]  # a decoded record


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
    json: bool = option(False, help="print one JSON object")

    def __post_init__(self) -> None:
        check_options(self)


def run(options: OPTIONS) -> int:
    """Prints the examples, then the statistics."""
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
    """Returns the file, or the files of the folder in order."""
    files = sorted(path.glob("*.tfrecord*")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise UserError(
            "Examples must be a TFRecord file, or a folder of TFRecord files. "
            f"Received: {path}. Write some with: albert-tf build-data"
        )
    return files


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _decoded(files: list[Path]) -> Iterator[Example]:
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


def _masked(examples: Iterator[Example], folder: Path, tokenizer: Any) -> Iterator[Example]:
    """Masks records of dynamic mode by the options in the manifest, where there is one."""
    from albert_tf.data.pretraining.examples import BATCH, masked_as_read
    from albert_tf.data.pretraining.masking import word_table
    from albert_tf.data.pretraining.options import ExampleOptions
    from albert_tf.data.pretraining.records import MANIFEST, read_manifest
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


def _readable(example: Example, tokenizer: Any) -> dict[str, Any]:
    """Returns an example as text of tokens, and marks those to predict."""
    _check_ids([example], tokenizer)
    pieces = tokenizer.convert_ids_to_tokens
    if _is_masked(example):
        first, second = _marked(example, pieces)
    else:
        first, second = pieces(example["segment_a"]), pieces(example["segment_b"])
    count = len(first) + len(second) + (0 if _is_masked(example) else SPECIAL_COUNT)
    label = _label_name(example["next_sentence_labels"][0])
    return {"label": label, "pieces": count, "segment_a": first, "segment_b": second}


def _check_ids(examples: Sequence[Example], tokenizer: Any) -> None:
    largest = max(max(ids, default=0) for example in examples for ids in _ids(example))
    if largest >= tokenizer.vocab_size:
        raise UserError(
            "Records must fit the vocabulary. Received: an id beyond its "
            f"{tokenizer.vocab_size} pieces. Give the one they were written with as --vocab."
        )


def _ids(example: Example) -> list[Sequence[int]]:
    names = ("input_ids", "masked_lm_ids", "segment_a", "segment_b")
    return [example[name] for name in names if name in example]


def _marked(example: Example, pieces: Any) -> tuple[list[str], list[str]]:
    length = sum(example["input_mask"])
    second = length - sum(example["segment_ids"])
    shown = pieces(example["input_ids"][:length])
    positions = _predicted_positions(example)
    labels = pieces(example["masked_lm_ids"][: len(positions)])
    for position, label in zip(positions, labels, strict=True):
        shown[position] = f"{{{label} → {shown[position]}}}"
    return shown[:second], shown[second:]


def _is_masked(example: Example) -> bool:
    """Returns whether an example is masked in its file (static mode)."""
    return "masked_lm_positions" in example


def statistics(examples: Iterable[Example], mask_id: int) -> dict[str, Any]:
    """Returns statistics of decoded records of one mode.

    Returns:
        `examples`: number of examples; `labels`: number of examples by label;
        `length`: `mean`, `min` and `max` in tokens, special ones included;
        `short`: share of examples of at most half the longest one's length;
        `told_by_lengths`, if all have a label: accuracy of guessing the order from the lengths of
        the segments alone, 0.5 if they give nothing away.
        For masked examples also `padding`: share of all positions; `predictions`: mean number;
        `predicted`: share of all tokens; `replaced`: share of predicted tokens that became `mask`,
        `random`, or were `kept`; `runs`: distribution of the lengths of predicted runs, in tokens;
        `words_per_run`: the same in words, if the records have `token_boundary`.
    """
    lengths: list[int] = []
    longer: list[int] = []  # tokens of the first segment, minus those of the second
    labels: list[int] = []
    replaced: Counter[str] = Counter()
    runs: Counter[int] = Counter()
    words: Counter[int] = Counter()
    positions_in_all = 0
    for example in examples:
        first, second = _segment_lengths(example)
        lengths.append(first + second + SPECIAL_COUNT)
        longer.append(first - second)
        labels.append(example["next_sentence_labels"][0])
        if not _is_masked(example):
            continue
        positions_in_all += len(example["input_ids"])
        positions = _predicted_positions(example)
        for position, label in zip(positions, example["masked_lm_ids"], strict=False):
            replaced[_replacement(example["input_ids"][position], label, mask_id)] += 1
        groups = _runs(positions)
        runs.update(map(len, groups))
        if begins := example.get("token_boundary"):
            words.update(1 + sum(begins[position] for position in run[1:]) for run in groups)
    if not lengths:
        return {"examples": 0}
    counts, longest = Counter(labels), max(lengths)
    result: dict[str, Any] = {
        "examples": len(lengths),
        "labels": {_label_name(label): counts[label] for label in sorted(counts)},
        "length": {"mean": sum(lengths) / len(lengths), "min": min(lengths), "max": longest},
        "short": sum(length <= longest / 2 for length in lengths) / len(lengths),
    }
    if counts.keys() <= {IN_ORDER, SWAPPED}:
        result["told_by_lengths"] = _told_by_lengths(longer, labels)
    if positions_in_all:
        total = replaced.total()
        result |= {
            "padding": 1 - sum(lengths) / positions_in_all,
            "predictions": total / len(lengths),
            "predicted": total / sum(lengths),
            "replaced": {
                name: replaced[name] / (total or 1) for name in ("mask", "random", "kept")
            },
            "runs": {length: runs[length] / runs.total() for length in sorted(runs)},
        }
        if words:
            result["words_per_run"] = {
                count: words[count] / words.total() for count in sorted(words)
            }
    return result


def _segment_lengths(example: Example) -> tuple[int, int]:
    """Returns the number of tokens of each segment, without special ones."""
    if not _is_masked(example):
        return len(example["segment_a"]), len(example["segment_b"])
    second = sum(example["segment_ids"]) - 1
    return sum(example["input_mask"]) - second - SPECIAL_COUNT, second


def _told_by_lengths(longer: Sequence[int], labels: Sequence[int]) -> float:
    """Returns the accuracy of guessing labels from the difference of the segments' lengths.

    Each half of the examples is guessed by the majority in the other half. Segments that will be
    swapped when they are read (dynamic mode) count in both orders.
    """
    halves: tuple[Counter[tuple[int, int]], ...] = (Counter(), Counter())
    swapped_later = SWAPPED not in labels
    for number, (difference, label) in enumerate(zip(longer, labels, strict=True)):
        halves[number % 2][difference, label] += 1
        if swapped_later:
            halves[number % 2][-difference, SWAPPED] += 1
    right = 0.0
    for rule, guessed in (halves, halves[::-1]):
        for (difference, label), count in guessed.items():
            vote = rule[difference, SWAPPED] - rule[difference, IN_ORDER]
            right += count * ((vote > 0) == (label == SWAPPED) if vote else 0.5)
    return right / sum(half.total() for half in halves)


def _predicted_positions(example: Example) -> list[int]:
    """Returns the predicted positions, without padding."""
    weights = example["masked_lm_weights"]
    pairs = zip(example["masked_lm_positions"], weights, strict=True)
    return [position for position, weight in pairs if weight]


def _replacement(token: int, label: int, mask_id: int) -> str:
    if token == mask_id:
        return "mask"
    return "kept" if token == label else "random"


def _runs(positions: Sequence[int]) -> list[list[int]]:
    """Returns the positions, increasing ones, in groups of neighbours."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position <= runs[-1][-1] + 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return runs


def _label_name(label: int) -> str:
    """Returns the name of a label."""
    return {IN_ORDER: "in order", SWAPPED: "swapped"}.get(label, "none")


def _listing(numbers: Mapping[str, Any]) -> str:
    """Returns the statistics as lines, shares in percent."""
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
