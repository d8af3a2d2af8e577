"""Text pairs with scores, and texts that belong together: STS-B and your own files."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.readers import Row, check_row, make_each, rows_of
from albert_tf.data.tables import BAD_ROW, NO_HEADER
from albert_tf.data.tasks.base import Graded, Keys, Outputs, Predicted, Task, grade_number
from albert_tf.data.tasks.classification import text_sequences
from albert_tf.data.tasks.labels import read_score, write_tsv
from albert_tf.data.tasks.rows import Rows
from albert_tf.data.text_files import warn_once
from albert_tf.errors import UserError, listed
from albert_tf.text.base_tokenizer import BaseTokenizer

# Default column names, from STS-B and other common datasets.
FIRST: Final = ("sentence1", "anchor", "text")
SECOND: Final = ("sentence2", "positive", "text_pair")
NEGATIVE: Final = "negative"
SCORE: Final = ("score", "label")
# How a model is trained on each kind of file.
_KINDS: Final = {
    "pairs with scores": "trained to match the cosine of each pair to its score",
    "pairs without scores": "trained to find each text's partner among all partners in the batch",
    "triplets": "trained to find each text's partner among all partners and negatives in the batch",
}
_BLOCK: Final = 1024  # examples ranked at a time


class SimilarityExample(NamedTuple):
    """Two texts to compare; or a text, its partner, and an optional negative text.

    The score is a non-negative number, or None.
    """

    texts: tuple[str, ...]
    score: float | None
    location: str = ""


class Match(NamedTuple):
    """A prediction for an example.

    Attributes:
        cosine: cosine similarity of the first two texts.
        rank: 1-based rank of the second text among all candidates, by similarity to the first
            text; None if the examples have scores.
        best: the candidate that is most similar to the first text.
    """

    cosine: float
    rank: int | None = None
    best: str = ""


class Similarity(Task[SimilarityExample, Match]):
    """Sentence embeddings, trained on pairs with scores or on texts that belong together.

    The columns of the first file determine the kind of examples, and are kept in `columns`. All
    other labeled files must contain examples of the same kind.
    """

    model = "AlbertForSimilarity"

    def read(self, path: Path, labelled: bool = True) -> list[SimilarityExample]:
        columns = self._columns_of(path, labelled)
        score = columns.get("score")
        texts = [name for role, name in columns.items() if role != "score"]
        if labelled:
            self.columns = self.columns or columns
            if columns.keys() != self.columns.keys():
                raise UserError(
                    "All files of a dataset must contain the same kind of examples. Received: "
                    f"{_kind(columns)} in {path}, but {_kind(self.columns)} in train. Remove the "
                    "additional column from one file, or add it to the other."
                )

        def example(row: Row) -> SimilarityExample:
            found = tuple(row.text(name, may_be_empty=not labelled) for name in texts)
            number = read_score(row.text(score), row.location, minimum=0) if score else None
            return SimilarityExample(found, number, row.location)

        skip = self.options.skip_bad_rows if labelled else None
        rows = rows_of(path, [*texts, score], self.options.encoding)
        return make_each(path, rows, example, skip)

    def _columns_of(self, path: Path, labelled: bool) -> dict[str, str]:
        """Determines which column has which role, from the file's first row and the options."""
        options = self.options
        rows = rows_of(path, (None,), options.encoding)
        if options.skip_bad_rows:
            rows = (row for row in rows if BAD_ROW not in row.fields)
        first = next(rows, None)
        if first is None:
            raise UserError(f"A file must have at least one row. Received: {path}.")
        check_row(first)
        names = [str(name) for name in first.fields]

        def column(given: str | None, known: Sequence[str], option: str) -> str:
            found = given or next((name for name in known if name in names), None)
            if found is None:
                raise UserError(
                    f"A file of --task similarity must have a column {' or '.join(known)}. "
                    f"Received: {path}, with {listed(map(repr, names))}. Name it with --{option}. "
                    f"{NO_HEADER}"
                )
            return found

        columns = {
            "text": column(options.text_column, FIRST, "text-column"),
            "text_pair": column(options.text_pair_column, SECOND, "text-pair-column"),
        }
        negative = NEGATIVE if NEGATIVE in names else None
        score = options.label_column or next((name for name in SCORE if name in names), None)
        if negative is not None and score is not None:
            raise UserError(
                "Examples must have either scores or negatives. Received: "
                f"{path}, with the columns {score!r} and {negative!r}. Remove one of them."
            )
        if negative is not None:
            columns["negative"] = negative
        if score is not None and labelled:
            columns["score"] = score
        return columns

    def config_fields(self, train: Sequence[SimilarityExample]) -> dict[str, Any]:
        kind = _kind(self.columns)
        columns = ", ".join(self.columns.values())
        warn_once(f"{self.options.data}: {kind} ({columns}); {_KINDS[kind]}.")
        fields = super().config_fields(train)
        if train[0].score is not None:
            if len({example.score for example in train}) == 1:
                raise UserError(
                    f"All {len(train):,} examples of {self.options.data} have the score "
                    f"{train[0].score:g}. Add examples with different scores, or remove the column."
                )
            fields = {
                "id2label": {0: "score"},
                "problem_type": "regression",
                "largest_score": largest_score(train),
            }
        elif len(set(_groups(train))) == 1:
            raise UserError(
                f"All {len(train):,} examples of {self.options.data} share their texts. Add "
                "examples with different texts, to serve as negatives."
            )
        return fields

    def check(self, examples: Sequence[SimilarityExample], config: AlbertConfig) -> None:
        """Warns about scores that the model can't reach. They enter the loss unchanged."""
        largest = config.largest_score or math.inf
        scores = [example.score or 0.0 for example in examples]
        above = [score for score in scores if score > largest]
        if above:
            warn_once(
                f"{len(above):,} of {len(examples):,} scores are above {largest:g}, the largest "
                "score in the training data, which corresponds to a cosine of 1. The largest is "
                f"{max(above):g}. The model can't predict them; train it on such scores as well."
            )

    def encode(
        self,
        examples: Sequence[SimilarityExample],
        tokenizer: BaseTokenizer,
        config: AlbertConfig,
        max_length: int,
    ) -> Rows:
        texts = [text for example in examples for text in example.texts]
        sequences, cut = text_sequences(tokenizer, texts, None, max_length)
        each = iter(sequences)
        choices = [[next(each) for _ in example.texts] for example in examples]
        labels: dict[str, Sequence[Any]] = {}
        if self._is_scored(examples):
            scale = config.largest_score or largest_score(examples)
            labels["labels"] = [(example.score or 0.0) / scale for example in examples]
        else:
            labels["groups"] = _groups(examples)
        rows = Rows.of_choices(choices, labels, tokenizer.pad_token_id)
        rows.cut, rows.max_length = min(cut, len(rows)), max_length
        return rows

    @staticmethod
    def _is_scored(examples: Sequence[SimilarityExample]) -> bool:
        return examples[0].score is not None

    def predictions(
        self,
        examples: Sequence[SimilarityExample],
        rows: Rows,
        outputs: Outputs,
        config: AlbertConfig,
    ) -> list[Match]:
        vectors = np.stack([output["embeddings"] for output in outputs]).astype("float32")
        cosines = np.sum(vectors[:, 0] * vectors[:, 1], axis=-1).clip(-1, 1)
        if self._is_scored(examples):
            return [Match(float(cosine)) for cosine in cosines]
        groups = np.array(_groups(examples))
        others = np.concatenate(list(vectors[:, 1:].swapaxes(0, 1)))
        anchors, *columns = zip(*(example.texts for example in examples), strict=True)
        texts = list(chain(*columns))
        numbers = {text: number for number, text in enumerate({*anchors, *texts})}
        first, candidates = (
            np.array([numbers[each] for each in part]) for part in (anchors, texts)
        )
        found = []
        for start in range(0, len(examples), _BLOCK):
            block = np.arange(start, min(start + _BLOCK, len(examples)))
            scores = vectors[block, 0] @ others.T
            own = scores[np.arange(len(block)), block]
            # Exclude other candidates that belong to the text: texts in its group, and equal texts.
            is_excluded = candidates == first[block, None]
            is_excluded |= candidates == candidates[block, None]
            is_excluded[:, : len(examples)] |= groups[block, None] == groups
            is_excluded[np.arange(len(block)), block] = False
            scores[is_excluded] = -np.inf
            # Partners rank last in a tie, so a model with one vector for all texts scores low.
            ranks = (scores >= own[:, None]).sum(axis=1)
            best = scores.argmax(axis=1)
            for row, rank, other in zip(block, ranks, best, strict=True):
                found.append(Match(float(cosines[row]), int(rank), texts[other]))
        return found

    def scores(self, predicted: Predicted[SimilarityExample, Match]) -> dict[str, float]:
        """Returns the `spearman` and `pearson` correlations between scores and cosines.

        Without scores, returns `accuracy` (the fraction of texts that rank their partner first)
        and `mrr` (the mean reciprocal rank).
        """
        if self._is_scored(predicted.examples):
            from albert_tf.evaluation.metrics import evaluate

            labels = np.array([example.score for example in predicted.examples])
            cosines = np.array([match.cosine for match in predicted.predictions])
            return evaluate(("spearman", "pearson"), labels, cosines)
        ranks = np.array([match.rank for match in predicted.predictions])
        return {"accuracy": float((ranks == 1).mean()), "mrr": float((1 / ranks).mean())}

    def grade(self, predicted: Predicted[SimilarityExample, Match]) -> list[Graded]:
        scale = predicted.config.largest_score or largest_score(predicted.examples)
        return [
            Graded(example.texts[0], example.texts[1], match.best, match.cosine, match.rank == 1)
            if example.score is None
            else grade_number(self.text(example), example.score, match.cosine * scale)
            for example, match in predicted.pairs
        ]

    def write(self, predicted: Predicted[SimilarityExample, Match], folder: Path) -> None:
        """Writes a TSV file of indices and cosines."""
        cosines = [f"{match.cosine:.6f}" for match in predicted.predictions]
        write_tsv(folder / "predictions", predicted.examples, cosines)

    def texts(self, example: SimilarityExample) -> Iterable[str]:
        return example.texts

    def keys(self, examples: Sequence[SimilarityExample]) -> Keys:
        """Returns the groups of texts that belong together, if any group has several examples."""
        groups = _groups(examples)
        is_shared = not self._is_scored(examples) and len(set(groups)) < len(groups)
        return Keys(groups=groups if is_shared else None)


def _kind(columns: Mapping[str, str]) -> str:
    """Returns the key of `_KINDS` for the columns of a file."""
    with_scores, pairs, triplets = _KINDS
    if "score" in columns:
        return with_scores
    return triplets if "negative" in columns else pairs


def _groups(examples: Sequence[SimilarityExample]) -> list[int]:
    """Returns group ids. Examples that share a text, even indirectly, are in the same group."""
    parents: dict[str, str] = {}

    def root(text: str) -> str:
        while (parent := parents.setdefault(text, text)) != text:
            parents[text] = parents[parent]
            text = parent
        return text

    for example in examples:
        parents[root(example.texts[0])] = root(example.texts[1])
    numbers: dict[str, int] = {}
    return [numbers.setdefault(root(example.texts[0]), len(numbers)) for example in examples]


def largest_score(examples: Sequence[SimilarityExample]) -> float:
    """Returns the largest score, but at least 1. In training data, it corresponds to a cosine of 1.

    Other data is scaled by the largest score in the model's training data, `config.largest_score`,
    unless the model wasn't trained on scores.
    """
    return max(1.0, *(example.score or 0.0 for example in examples))
