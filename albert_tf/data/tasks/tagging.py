"""Tags each word of a sentence, for named entities or parts of speech."""

import logging
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data import conll, hub
from albert_tf.data.readers import FORMATS, Row, check_file, locate, make_each, rows_of
from albert_tf.data.tasks.base import Graded, Keys, Outputs, Predicted, Task
from albert_tf.data.tasks.classification import one_class
from albert_tf.data.tasks.columns import columns
from albert_tf.data.tasks.rows import Rows, features_of
from albert_tf.data.tasks.spans import tags_of_spans, words_of_text
from albert_tf.data.text_files import warn_once
from albert_tf.errors import UserError, escaped, listed, short_repr
from albert_tf.evaluation.entities import (
    OUTSIDE,
    broken,
    entities,
    entity_report,
    entity_scores,
    has_prefixes,
    parsed,
    unprefixed,
)
from albert_tf.probabilities import softmax
from albert_tf.tasks import IGNORED
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.sequences import EncodedSequence
from albert_tf.text.windows import NO_WORD, deciding_tokens, word_windows

PREDICTIONS: Final = "predictions.conll"
_WORDS: Final[Sequence[str]] = (conll.WORDS, "tokens")  # column names in JSON
_TAGS: Final[Sequence[str]] = (conll.TAGS, "ner_tags")
_SHOWN: Final = 20  # maximum number of words in the logged sentence
logger = logging.getLogger(__name__)


class Sentence(NamedTuple):
    """A sentence's words, tags (names or class ids; None if unlabeled), and location."""

    words: tuple[str, ...]
    tags: tuple[str | int, ...] | None
    location: str = ""


class Tagged(NamedTuple):
    """The predicted tags of a sentence, one per word, and their probabilities."""

    tags: list[str]
    probabilities: list[float]


class Tagging(Task[Sentence, Tagged]):
    """A tag for each word, predicted at its first token."""

    model = "AlbertForTokenClassification"
    formats = tuple(dict.fromkeys((*FORMATS, *conll.ENDINGS)))

    def read(self, path: Path, labelled: bool = True) -> list[Sentence]:
        check_file(path, self.formats, "words with tags")
        options = self.options
        words, tags = _WORDS, _TAGS
        if path.name.endswith(conll.ENDINGS) and not hub.is_hub(path):
            columns = options.text_column, options.label_column
            rows = locate(path, conll.sentences(path, *columns, labelled, options.encoding))
        else:
            rows = rows_of(path, (), options.encoding)
            words = (options.text_column,) if options.text_column else _WORDS
            tags = (options.label_column,) if options.label_column else _TAGS

        def sentence(row: Row) -> Sentence:
            if by_span := words_of_text(row, options.text_column):
                spans = options.label_column, list(by_span)
                found = tags_of_spans(row, *spans) if labelled else None
                return Sentence(tuple(by_span.values()), found, row.location)
            row_words = _words(row, words)
            return Sentence(
                row_words, _tags(row, tags, len(row_words)) if labelled else None, row.location
            )

        skip = options.skip_bad_rows if labelled else None
        return make_each(path, rows, sentence, skip)

    def config_fields(self, train: Sequence[Sentence]) -> dict[str, Any]:
        """Returns a new model's labels: "O" and the other tags, sorted, or one label per class id.

        Logs the first sentence with several tags, so that the user sees how the file was read.
        """
        tags = {tag for sentence in train for tag in sentence.tags or ()}
        numbers = [tag for tag in tags if isinstance(tag, int)]
        names = sorted(
            (tag for tag in tags if isinstance(tag, str)), key=lambda tag: (tag != OUTSIDE, tag)
        )
        if numbers:
            names = [f"LABEL_{number}" for number in range(max(numbers) + 1)]
        if len(names) < 2:
            raise UserError(
                "Tagging requires at least two tags. "
                f"Received: {len(train)} sentences, all words with the tag {short_repr(names[0])}."
            )
        shown = next((each for each in train if len({*(each.tags or ())}) > 1), train[0])
        pairs = zip(shown.words, shown.tags or (), strict=True)
        words = " ".join(f"{word}/{tag}" for word, tag in islice(pairs, _SHOWN))
        warn_once(f"{shown.location}: words with their tags, as they were read: {escaped(words)}")
        return {"id2label": dict(enumerate(names)), "problem_type": None}

    def check(self, examples: Sequence[Sentence], config: AlbertConfig) -> None:
        known = {*config.labels, *range(len(config.labels))}
        for example in examples:
            for number, tag in enumerate(example.tags or ()):
                if tag not in known:
                    raise UserError(
                        f"A tag must be one of {listed(config.labels)}. Received: "
                        f"{short_repr(tag)} for the word {short_repr(example.words[number])}, "
                        f"number {number + 1} of the sentence at {example.location}."
                    )

    def encode(
        self,
        examples: Sequence[Sentence],
        tokenizer: BaseTokenizer,
        config: AlbertConfig,
        max_length: int,
    ) -> Rows:
        labels = None if examples[0].tags is None else self.class_ids(examples, config)
        words = [example.words for example in examples]
        rows = word_rows(tokenizer, words, labels, max_length=max_length)
        stray = unprefixed(config.labels)
        if labels is not None and stray:
            warn_once(
                "Tags are scored by accuracy only. Entity F1 requires a prefix such as B- on every "
                f"tag except O. Received: {listed(stray)}. If one is from a header, name the "
                "file's columns with --text-column and --label-column."
            )
        known = parsed(config.labels)
        count = broken([known[config.labels[tag]] for tag in tags] for tags in labels or ())
        if count and not stray:
            logger.warning(
                "%d I- or E- tags don't continue an entity. Each begins a new entity, as in "
                "conlleval.",
                count,
            )
        return rows

    def predictions(
        self, examples: Sequence[Sentence], rows: Rows, outputs: Outputs, config: AlbertConfig
    ) -> list[Tagged]:
        """Returns the tags of each sentence; a word without tokens gets "O"."""
        names = config.labels
        outside = OUTSIDE if OUTSIDE in names else names[0]
        predicted = [
            Tagged([outside] * len(example.words), [1.0] * len(example.words))
            for example in examples
        ]
        for sentence, words, output in zip(rows.examples, rows.details, outputs, strict=True):
            tagged = predicted[sentence]
            for word, probabilities in zip(
                words[words != NO_WORD],
                softmax(output["logits"][np.flatnonzero(words != NO_WORD)], axis=-1),
                strict=True,
            ):
                tagged.tags[word] = names[probabilities.argmax()]
                tagged.probabilities[word] = float(probabilities.max())
        return predicted

    def scores(self, predicted: Predicted[Sentence, Tagged]) -> dict[str, float]:
        """Returns entity and word scores, and the result of `one_class` for the tags."""
        expected, found = self._tags(predicted)
        scores = entity_scores(expected, found, predicted.config.labels)
        return scores | one_class(list(chain(*found)), list(chain(*expected)))

    def by_class(self, predicted: Predicted[Sentence, Tagged]) -> dict[str, dict[str, float]]:
        """Returns the scores of each entity type, or of each tag if tags have no prefixes."""
        from albert_tf.evaluation.metrics import by_class  # imports scikit-learn, which is slow

        names = predicted.config.labels
        expected, found = self._tags(predicted)
        if has_prefixes(names):
            return entity_report(expected, found, names)
        ids = {name: number for number, name in enumerate(names)}
        return by_class(
            names, *(np.array([ids[tag] for tag in chain(*tags)]) for tags in (expected, found))
        )

    def _tags(
        self, predicted: Predicted[Sentence, Tagged]
    ) -> tuple[list[list[str]], list[list[str]]]:
        """Returns the expected and the predicted tags of each sentence."""
        expected = self.tag_names(predicted.examples, predicted.config)
        return expected, [tagged.tags for tagged in predicted.predictions]

    def grade(self, predicted: Predicted[Sentence, Tagged]) -> list[Graded]:
        """Compares the entities of each sentence, or its tags if tags have no prefixes."""
        known = parsed(predicted.config.labels)
        prefixed = has_prefixes(predicted.config.labels)

        def found_in(tags: Sequence[str]) -> Sequence[Any]:
            return entities(known[tag] for tag in tags) if prefixed else tags

        def entities_of(words: Sequence[str], tags: Sequence[str]) -> str:
            spans = entities(known[tag] for tag in tags)
            return ", ".join(f"{' '.join(words[start:end])} ({name})" for name, start, end in spans)

        expected, _ = self._tags(predicted)
        return [
            Graded(
                self.text(example),
                entities_of(example.words, tags),
                entities_of(example.words, tagged.tags),
                min(tagged.probabilities),
                found_in(tags) == found_in(tagged.tags),
            )
            for (example, tagged), tags in zip(predicted.pairs, expected, strict=True)
        ]

    def confusions(self, predicted: Predicted[Sentence, Tagged]) -> list[tuple[str, str]]:
        """Returns the expected and the predicted entity type of each word.

        The type is "O" for a word outside entities, and the tag itself if tags have no entity
        prefix.
        """
        kinds = {
            label: OUTSIDE if label == OUTSIDE else label if tag.kind == OUTSIDE else tag.kind
            for label, tag in parsed(predicted.config.labels).items()
        }
        expected = self.tag_names(predicted.examples, predicted.config)
        return [
            (kinds[tag], kinds[other])
            for tags, tagged in zip(expected, predicted.predictions, strict=True)
            for tag, other in zip(tags, tagged.tags, strict=True)
        ]

    def write(self, predicted: Predicted[Sentence, Tagged], folder: Path) -> None:
        """Writes words, labels (if any), and predicted tags in conlleval's format."""
        with (folder / PREDICTIONS).open("w", encoding="utf-8", newline="\n") as file:
            for example, prediction in predicted.pairs:
                words = [" ".join(word.split()) for word in example.words]
                names = [] if example.tags is None else self.tag_names([example], predicted.config)
                for row in zip(words, *names, prediction.tags, strict=True):
                    file.write("\t".join(row) + "\n")
                file.write("\n")

    def texts(self, example: Sentence) -> Iterable[str]:
        return [" ".join(example.words)]

    def keys(self, examples: Sequence[Sentence]) -> Keys:
        return Keys(labels=[tuple(map(str, example.tags or ())) for example in examples])

    def class_ids(self, examples: Sequence[Sentence], config: AlbertConfig) -> list[list[int]]:
        """Returns the class id of each word's tag in labeled sentences."""
        known = {tag: number for number, name in enumerate(config.labels) for tag in (name, number)}
        return [[known[tag] for tag in example.tags or ()] for example in examples]

    def tag_names(self, examples: Sequence[Sentence], config: AlbertConfig) -> list[list[str]]:
        """Returns the name of each word's tag in labeled sentences."""
        return [[config.labels[tag] for tag in tags] for tags in self.class_ids(examples, config)]


def _column(row: Row, names: Sequence[str]) -> Sequence[Any]:
    """Returns the list in the first of these columns that the row contains."""
    name = next((name for name in names if name in row.fields), None)
    if name is None:
        raise UserError(
            f"Every row must have a column {' or '.join(map(repr, names))}. Received: "
            f"{row.location}, with {listed(map(repr, row.fields))}."
        )
    return row.items(name)


def _words(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    words = _column(row, names)
    if not words or not all(isinstance(word, str) for word in words):
        raise UserError(
            "A sentence must be a list of at least one word. "
            f"Received: {short_repr(words)} ({row.location})."
        )
    return tuple(words)


def _tags(row: Row, names: Sequence[str], count: int) -> tuple[str | int, ...]:
    tags = _column(row, names)
    if len(tags) != count:
        raise UserError(
            "A sentence must have a tag for each word. "
            f"Received: {row.location}, with {count} words and {len(tags)} tags."
        )
    types = {type(tag) for tag in tags}
    if types not in ({str}, {int}) or "" in tags:
        raise UserError(
            "The tags of a sentence must be either all names or all class ids. "
            f"Received: {short_repr(list(tags))} ({row.location})."
        )
    return tuple(tags)


def word_rows(
    tokenizer: BaseTokenizer,
    words: Sequence[Sequence[str]],
    tags: Sequence[Sequence[int]] | None = None,
    *,
    max_length: int | None = None,
) -> Rows:
    """Returns the rows of sentences; see `data.token_classification_dataset`.

    The first token of a word gets the word's label; all other labels are -100. A sentence that is
    too long is split into several rows. Where rows overlap, a token is labeled in the row in which
    it is farthest from the edges; see `deciding_tokens`. For each position, `Rows.details` contains
    the index of the word labeled there, or `NO_WORD`.
    """
    words, tags = columns(words=words, tags=tags)
    for number, sentence in enumerate(words):
        given = sentence if tags is None else tags[number]
        if isinstance(sentence, str) or len(sentence) != len(given):
            raise UserError(
                "Each sentence must be a list of words with a tag for each word. Received: "
                f"{short_repr(sentence)} with {short_repr(given)}."
            )
        if others := [word for word in sentence if not isinstance(word, str | bytes)]:
            raise UserError(
                f"Words must be strings. Received: {short_repr(others[0])} in sentence {number}, "
                f"{short_repr(sentence)}. Convert numbers with str(word), and drop missing values."
            )
    if tags is not None and any(
        len(row) and np.asarray(row).dtype.kind not in "iu" for row in tags
    ):
        raise UserError(
            f"tags must be class ids. Received: {short_repr(tags[0])}. "
            "Map label names to class ids with config.label2id."
        )
    max_length = max_length or tokenizer.model_max_length
    encoded = tokenizer.tokens_of_words(words)
    sequences, details, samples = [], [], []
    for sample, tokens in enumerate(encoded):
        spans = word_windows(tokens, max_length)
        for span, decided in zip(spans, deciding_tokens(tokens.words, spans), strict=True):
            details.append(np.pad(decided, 1, constant_values=NO_WORD))
            sequences.append(EncodedSequence([tokens.cut(*span)], tokenizer.special))
            samples.append(sample)
    lost = sum(map(len, words)) - sum(int((row != NO_WORD).sum()) for row in details)
    if lost:
        logger.warning(
            "%d words have no tokens (for example, control characters). They are ignored in "
            "training, and are tagged %s.",
            *(lost, OUTSIDE),
        )
    targets = {}
    if tags is not None:
        known = [np.array([*tags[sample], IGNORED]) for sample in samples]  # NO_WORD picks the last
        targets["labels"] = [each[row] for each, row in zip(known, details, strict=True)]
    pad_id = tokenizer.pad_token_id
    return Rows(features_of(sequences), targets, pad_id, samples, tags=True, details=details)
