"""`albert-tf inspect-data`"""

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from albert_tf.cli.text_options import aligned
from albert_tf.data.pretraining.options import IN_ORDER, SWAPPED
from albert_tf.errors import UserError, escaped
from albert_tf.options import NOT_NEGATIVE, Checked, option
from albert_tf.tasks import (
    ATTENTION_MASK,
    IGNORED,
    INPUT_IDS,
    MASKED_LM_LABELS,
    MASKED_LM_POSITIONS,
    SENTENCE_ORDER_LABEL,
    TOKEN_TYPE_IDS,
)
from albert_tf.text.base_tokenizer import BaseTokenizer

SUMMARY = "show pretraining examples and their statistics"
EXAMPLES = """examples:
  albert-tf inspect-data examples
  albert-tf inspect-data tf_examples.tfrecord --vocab spiece.model --examples 10

Shows a token to predict as {token → input}, where the input is [MASK], a different token, or the
token itself. Examples are masked as in evaluation; training draws new masks in each epoch. With
--vocab, also shows files from the original create_pretraining_data.py.
"""
COUNTED: Final = 10_000  # maximum number of examples whose tokens and masks are counted
BATCH: Final = 100
_LABELS: Final = {IN_ORDER: "in order", SWAPPED: "swapped", IGNORED: "without a label"}


@dataclass(frozen=True, kw_only=True)
class OPTIONS(Checked):
    """The options of `albert-tf inspect-data`."""

    input: str = option(
        help="output folder of build-data, or a TFRecord file from the original code",
        metavar="DIR_OR_FILE",
        positional=True,
        is_path=True,
    )
    vocab: str | None = option(
        None,
        help="vocabulary file or model directory; default: the vocabulary next to the records",
        metavar="FILE",
        is_path=True,
    )
    examples: int = option(3, help="number of examples to show", range=NOT_NEGATIVE)


def check(options: OPTIONS) -> None:
    """Checks that the records exist."""
    from albert_tf.data.corpus.files import find_inputs, is_remote

    if not is_remote(options.input):
        find_inputs([options.input])


def run(options: OPTIONS) -> int:
    """Prints the examples, then their statistics."""
    from albert_tf.data.pretraining.batches import evaluation_batches, whole_records
    from albert_tf.data.pretraining.sources import find_records
    from albert_tf.text.tokenizer import AlbertTokenizer

    files = find_records(options.input)
    if files.dynamic is None and options.vocab is None:
        raise UserError(
            "These records have no manifest. Pass the vocabulary that they were written with "
            "(--vocab)."
        )
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.input)
    size = min(files.vocab_size, tokenizer.vocab_size)
    files = dataclasses.replace(files, vocab_size=size)
    counts: Counter[str] = Counter()
    lengths: list[int] = []
    with whole_records(files):
        batches = evaluation_batches(files, BATCH)
        for inputs, targets in batches.take(COUNTED // BATCH).as_numpy_iterator():
            columns = {**inputs, **targets}
            for row in zip(*columns.values(), strict=True):
                example = dict(zip(columns, row, strict=True))
                if len(lengths) < options.examples:
                    print(f"example {len(lengths)}: {_description(example, tokenizer)}\n")
                lengths.append(int(example[ATTENTION_MASK.name].sum()))
                counts += _counts(example, tokenizer.mask_token_id)
    predicted = counts["masked"] + counts["unchanged"] + counts["random"]
    rows = [("examples", f"{sum(files.counts):,}"), ("files", f"{len(files.paths):,}")]
    if len(lengths) < sum(files.counts):
        rows.append(("counted below", f"{len(lengths):,}"))
    rows += [(name, f"{counts[name]:,}") for name in _LABELS.values() if counts[name]]
    mean = sum(lengths) / len(lengths)
    rows.append(("tokens", f"{mean:.1f} per example ({min(lengths)} to {max(lengths)})"))
    rows.append(("predicted", f"{predicted / sum(lengths):.1%} of the tokens"))
    for name in ("masked", "unchanged", "random"):
        rows.append((f"  {name}", f"{counts[name] / (predicted or 1):.1%} of these"))
    print(aligned(rows))
    return 0


def _description(example: dict[str, Any], tokenizer: BaseTokenizer) -> str:
    """Returns the label and tokens of an example as text that marks the tokens to predict."""
    length = int(example[ATTENTION_MASK.name].sum())
    second = length - int(example[TOKEN_TYPE_IDS.name].sum())
    shown = tokenizer.convert_ids_to_tokens(example[INPUT_IDS.name][:length].tolist())
    positions = example[MASKED_LM_POSITIONS.name].tolist()
    for position, label in zip(positions, example[MASKED_LM_LABELS.name].tolist(), strict=True):
        if label != IGNORED:
            (token,) = tokenizer.convert_ids_to_tokens([label])
            shown[position] = f"{{{token} → {shown[position]}}}"
    order = _LABELS[int(example[SENTENCE_ORDER_LABEL.name])]
    first, rest = (escaped(" ".join(tokens)) for tokens in (shown[:second], shown[second:]))
    return f"{order}, {length} tokens\n  A  {first}\n  B  {rest}"


def _counts(example: dict[str, Any], mask_id: int) -> Counter[str]:
    """Counts an example's label, and its masked, random, and unchanged prediction targets."""
    counts = Counter([_LABELS[int(example[SENTENCE_ORDER_LABEL.name])]])
    ids, labels = example[INPUT_IDS.name], example[MASKED_LM_LABELS.name]
    positions = example[MASKED_LM_POSITIONS.name]
    for token, label in zip(ids[positions].tolist(), labels.tolist(), strict=True):
        if label != IGNORED:
            unchanged = "unchanged" if token == label else "random"
            counts["masked" if token == mask_id else unchanged] += 1
    return counts
