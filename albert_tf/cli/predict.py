"""`albert-tf predict`"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from albert_tf.cli.text_options import (
    Block,
    TextInputOptions,
    print_json,
    print_results,
    print_row,
    with_inputs,
)
from albert_tf.data.hub import PARQUET
from albert_tf.data.options import TAG, TaskData
from albert_tf.data.readers import check_row
from albert_tf.data.table_output import add_columns, check_format, check_values, write_table
from albert_tf.errors import UserError, listed
from albert_tf.files import check_apart, check_free, is_exported, written_atomically
from albert_tf.options import option

if TYPE_CHECKING:
    from albert_tf.data.tasks.tagging import Sentence, Tagged

SUMMARY = "classify or score texts"
EXAMPLES = """examples:
  albert-tf predict --model my-model "A quiet delight." "Broken on arrival."
  albert-tf predict --model my-model --input reviews.txt --json > labels.jsonl
  albert-tf predict --model my-model --input reviews.csv --text-column body --output labeled.csv
  zcat reviews.gz | albert-tf predict --model my-model
  albert-tf predict --model my-tagger "Ada Lovelace was born in London ."
  albert-tf predict --model my-mnli-model --labels "sport,politics" "A late goal decided it."
  albert-tf predict --model my-sentence-model --input pairs.txt --pairs

Prints a line for each text: its label and probability or, for a regression model, its scores. For a
multi-label model, the line contains every label that reaches its threshold. For a tagging model,
prints each word and its tag on a line, and an empty line between texts; whitespace separates words.
For a sentence embedding model, prints the cosine similarity of each pair. Files of any size are
read as needed. With --output, writes a table with all columns of the input and the new columns
label and score (only score for a regression model, and cosine for a sentence embedding model). If
the input already has one of these columns, the names of all new columns begin with predicted_.
"""
_TAGGER: Final = "AlbertForTokenClassification"
_ENCODER: Final = "AlbertModel"
_CLASSIFIER: Final = "AlbertForSequenceClassification"


@dataclass(frozen=True, kw_only=True)
class OPTIONS(TextInputOptions):
    """The options of `albert-tf predict`."""

    text_pair_column: str | None = option(
        None, help="name of the table column with the second text of each pair"
    )
    pairs: bool = option(False, help="read each text as a tab-separated pair")
    labels: str | None = option(
        None,
        help="comma-separated labels for zero-shot classification with a natural language "
        "inference model",
        metavar="LABELS",
        excludes=("pairs", "text_pair_column"),
    )
    output: Path | None = option(
        None,
        help="table to write instead of printing (.csv, .tsv, .jsonl, .json, or .parquet): the "
        "columns of the input table, with labels and scores",
        metavar="FILE",
        excludes=("json",),
    )
    force: bool = option(False, help="replace an existing file", needs="output")

    @property
    def has_pairs(self) -> bool:
        return self.pairs or (self.text_pair_column is not None and self.has_table)

    @property
    def has_table(self) -> bool:
        """Whether the file is a table. With `pairs`, this requires `text_pair_column`."""
        return super().has_table and (not self.pairs or self.text_pair_column is not None)


def check(options: OPTIONS) -> tuple[str, list[str]]:
    """Checks the texts, the model, and the first pairs of a file.

    Returns:
        The model's class, and the names of the table's columns if there is an output.
    """
    wanted = _model_class(options.model)
    if options.labels is not None and wanted != _CLASSIFIER:
        raise UserError(
            "--labels requires a model that was fine-tuned on natural language inference. "
            f"Received: {options.model}, an {wanted}."
        )
    if wanted == _ENCODER and not options.has_pairs:
        raise UserError(
            f"{options.model} compares text pairs. Pass --pairs, or print vectors with albert-tf "
            "embed."
        )
    if wanted == _TAGGER and options.has_pairs:
        raise UserError(
            f"--pairs requires a text-pair model. Received: {options.model}, a tagging model."
        )
    options.check_texts(wanted)
    names = [] if options.output is None else _check_output(options, wanted, options.output)
    if options.has_pairs and options.can_be_read_again:
        deque(_pairs(islice(options.texts(), _CHECKED), options.source), maxlen=0)
    return wanted, names


def run(options: OPTIONS, found: tuple[str, list[str]]) -> int:
    """Prints a line for each text or, with `output`, writes a table."""
    model_class, names = found
    if options.output is not None:
        return _write(options, model_class, names, options.output)
    given = options.texts()
    if model_class == _TAGGER:
        return print_results(_tags(options, given), options.json)
    if model_class == _ENCODER:
        for text, cosine in with_inputs(partial(_cosines, options), given):
            if options.json:
                print_json({"text": text, "cosine": cosine})
            else:
                print_row((f"{cosine:.4f}",))
        return 0
    for text, answer in _answers(options, given):
        if options.json:
            named = {"labels": answer.labels} if answer.has_several else {"label": answer.labels[0]}
            print_json({"text": text, **named, "probabilities": answer.scores})
        else:
            print_row(
                cell for name in answer.labels for cell in (name, f"{answer.scores[name]:.4f}")
            )
    return 0


class _Answer(NamedTuple):
    """A classifier's answer.

    Attributes:
        labels: the predicted labels; for a regression model, the names of all its outputs.
        scores: the probabilities of all labels, or the regression outputs, keyed by name.
        has_several: whether there can be any number of labels.
        has_numbers: whether the model is a regression model.
    """

    labels: list[str]
    scores: dict[str, float]
    has_several: bool = False
    has_numbers: bool = False

    def columns(self) -> dict[str, Any]:
        """Returns the columns of a table."""
        scores: Any = [self.scores[name] for name in self.labels]
        labels: Any = self.labels
        if not self.has_several:
            (labels,), (scores,) = labels, scores
        return {"score": scores} if self.has_numbers else {"label": labels, "score": scores}


def _answers(options: OPTIONS, given: Iterator[str]) -> Iterator[tuple[str, _Answer]]:
    """Yields each text with a classifier's answer."""
    from albert_tf.data.tasks.labels import MULTI_LABEL, chosen_labels

    if options.labels is not None:
        choose = options.pipeline("zero-shot-classification", candidate_labels=options.labels)
        for text, found in with_inputs(choose, given):
            scores = dict(zip(found["labels"], found["scores"], strict=True))
            yield text, _Answer(found["labels"][:1], scores)
        return
    label = options.pipeline("text-classification", top_k=None)  # warns about truncated texts
    config, kind = label.model.config, label.model.config.problem_type
    has_numbers = kind == "regression"
    has_several = kind == MULTI_LABEL or (has_numbers and config.num_labels > 1)
    # The scores of a regression model are returned unchanged.
    function = "none" if has_numbers else None

    def label_texts(stream: Iterator[str]) -> Any:
        given = _pairs(stream, options.source) if options.has_pairs else stream
        return label(given, function_to_apply=function)

    for text, found in with_inputs(label_texts, given):
        by_label = {each["label"]: each["score"] for each in found}
        scores = {name: by_label[name] for name in config.labels}
        labels = [found[0]["label"]]
        if kind == MULTI_LABEL:
            labels = chosen_labels(scores.values(), config)
        elif has_numbers:  # all numbers are answers, not only the largest
            labels = list(config.labels)
        yield text, _Answer(labels, scores, has_several, has_numbers)


def _check_output(options: OPTIONS, model_class: str, output: Path) -> list[str]:
    """Checks the output and all rows of the table, and returns the names of its columns."""
    if not options.has_table:
        raise UserError(
            "--output adds columns to a table. Pass a table with --input (and --text-pair-column, "
            f"for pairs). Received: {options.source or 'texts'}."
        )
    if model_class == _TAGGER:
        raise UserError(
            "--output requires a model that labels whole texts. Received: "
            f"{options.model}, a tagging model. Print its tags with --json."
        )
    check_format(output)
    check_apart(str(options.source), output)
    check_free(output, options.force)
    names: dict[str, None] = {}
    for row in options.rows():
        check_row(row)
        names.update(dict.fromkeys(row.fields))
    if not names:
        raise UserError(f"The table must have at least one row. Received: {options.source}.")
    if not _keeps_types(options, output):
        check_values([*names], (row.fields for row in options.rows()), output.suffix)
    return list(names)


def _keeps_types(options: OPTIONS, output: Path) -> bool:
    """Returns whether columns are copied with their types, from one Parquet file to another."""
    return Path(str(options.source)).suffix == output.suffix == PARQUET


def _write(options: OPTIONS, model_class: str, names: Sequence[str], output: Path) -> int:
    """Writes the input table with columns for the predictions and returns exit status 0."""
    found: Iterator[dict[str, Any]]
    if model_class == _ENCODER:
        found = ({"cosine": cosine} for cosine in _cosines(options, options.texts()))
    else:
        found = (answer.columns() for _, answer in _answers(options, options.texts()))
    first = next(found)
    taken = not first.keys().isdisjoint(names)
    added = {name: f"predicted_{name}" if taken else name for name in first}
    if both := [name for name in added.values() if name in names]:
        raise UserError(
            f"--output would replace the columns {listed(map(repr, both))} of the table. Rename or "
            f"remove them. Received: {options.source}."
        )
    new = ({added[name]: value for name, value in more.items()} for more in chain([first], found))
    with written_atomically(output, force=options.force) as path:
        if _keeps_types(options, output):
            add_columns(path, Path(str(options.source)), new)
        else:
            rows = ({**row.fields, **more} for row, more in zip(options.rows(), new, strict=True))
            write_table(path, [*names, *added.values()], rows, output.suffix)
    print(f"{', '.join(added.values())} added: {output}")
    return 0


def _model_class(model: str) -> str:
    """Returns the class to predict with: for sentence embedding models, the encoder."""
    if is_exported(model):
        from albert_tf.runtimes.exported import read_facts

        task, _, embedding = read_facts(model)
        names = [task.model]
    else:
        from albert_tf.checkpoints import finder, sentence_transformers

        found = finder.find(model)
        names = found.architectures()
        embedding = sentence_transformers.read(found.folder) if names == [_ENCODER] else None
    if _TAGGER in names:
        return _TAGGER
    return _ENCODER if names == [_ENCODER] and embedding is not None else _CLASSIFIER


def _cosines(options: OPTIONS, stream: Iterator[str]) -> Iterator[float]:
    """Yields the cosine similarity of the two texts of each pair."""
    embed = options.pipeline("feature-extraction", normalize=True, return_tensors=True)
    pairs, count = _pairs(stream, options.source), embed.ahead * options.batch_size
    while block := list(islice(pairs, count)):
        firsts, seconds = (
            embed([pair[place] for pair in block], truncation=True) for place in range(2)
        )
        yield from (float(first @ second) for first, second in zip(firsts, seconds, strict=True))


def _tags(
    options: OPTIONS, given: Iterator[str]
) -> Iterator[tuple[dict[str, Any], Sequence[Block]]]:
    """Splits texts at whitespace, as `finetune` does, and yields their words with their tags."""
    from albert_tf.data.tasks.outputs import model_outputs
    from albert_tf.data.tasks.tagging import Sentence, Tagging

    task = Tagging(TaskData(task=TAG, data=Path()))
    tag = options.pipeline("token-classification")
    config, count = tag.model.config, tag.ahead * options.batch_size

    def tag_texts(stream: Iterator[str]) -> Iterator["tuple[Sentence, Tagged]"]:
        while sentences := [Sentence(tuple(text.split()), None) for text in islice(stream, count)]:
            rows = task.encode(sentences, tag.tokenizer, config, tag.max_length)
            rows.longest = config.max_position_embeddings
            outputs = model_outputs(rows, tag.model, options.batch_size)
            found = task.predictions(sentences, rows, outputs, config)
            yield from zip(sentences, found, strict=True)

    for text, (sentence, found) in with_inputs(tag_texts, given):
        row = {"text": text, "words": sentence.words, **found._asdict()}
        yield row, [list(zip(sentence.words, found.tags, strict=True))]


def _pairs(texts: Iterable[str], path: str | None) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(texts, start=1):
        first, tab, second = text.partition("\t")
        if not tab:
            location = "" if path is None else f"{path}, line {number}, "
            raise UserError(
                f"A pair must be two texts separated by a tab. Received: {location}{text[:60]!r}."
            )
        yield first, second


_CHECKED: Final = 10_000  # pairs checked before the model loads
