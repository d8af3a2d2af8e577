"""The token classification pipeline."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError, short_repr
from albert_tf.evaluation.entities import OUTSIDE, parsed
from albert_tf.options import COUNT, NOT_NEGATIVE
from albert_tf.pipelines.base import (
    Outputs,
    Pipeline,
    as_text,
    check_numbers,
)
from albert_tf.probabilities import softmax
from albert_tf.tasks import TOKEN_CLASSIFICATION
from albert_tf.text.answers import trimmed
from albert_tf.text.sequences import EncodedSequence
from albert_tf.text.tokens import Tokens
from albert_tf.text.windows import word_windows


class Token(NamedTuple):
    """A token with its scores.

    Attributes:
        text: the token in the vocabulary, or the raw text of an unknown token.
        scores: `[C]`, the probability of each label.
        start, end: the token's start and end character in the text.
        position: the token's position; `[CLS]` is at 0.
        continues: whether the token belongs to the same word as the previous token.
    """

    text: str
    scores: np.ndarray
    start: int
    end: int
    position: int
    continues: bool


def _average(tokens: Sequence[Token]) -> np.ndarray:
    return np.mean([token.scores for token in tokens], axis=0)


# The scores of a word, or of tokens that share a character, by aggregation strategy.
_SCORES: Final[dict[str, Callable[[Sequence[Token]], np.ndarray]]] = {
    "simple": _average,
    "first": lambda word: word[0].scores,
    "average": _average,
    "max": lambda word: max(word, key=lambda token: token.scores.max()).scores,
}
STRATEGIES: Final = ("none", *_SCORES)


class SplitText(NamedTuple):
    """A text, possibly passed as a list of words.

    Attributes:
        text: the whole text.
        words: the words that the caller passed, or None.
        starts: the start character of each of these words in the text.
    """

    text: str
    words: Sequence[str] | None = None
    starts: Sequence[int] = ()


class TaggedSpan(NamedTuple):
    """A labeled span of characters."""

    label: str
    score: float
    start: int
    end: int


class TokenClassificationPipeline(Pipeline):
    """Token classification pipeline, which labels tokens or finds entities.

    The result for a text is a list of dicts. By default, there is a dict for every token, with the
    keys "entity", "score", "index", "word", "start", and "end". With `aggregation_strategy`, there
    is a dict for every entity, with the keys "entity_group", "score", "word", "start", and "end",
    where "word" is `text[start:end]`. A long text is split into windows. If entities from several
    windows overlap, only the longest is returned.

    Example:

    >>> from albert_tf import AlbertForTokenClassification, AlbertTokenizer
    >>> from albert_tf.pipelines import TokenClassificationPipeline
    >>> model = AlbertForTokenClassification.from_pretrained("small")  # not fine-tuned
    >>> tag = TokenClassificationPipeline(model, AlbertTokenizer.from_pretrained("small"))
    >>> [each["word"] for each in tag("Ada Lovelace", ignore_labels=None)][0]
    '▁ada'

    Args: see `Pipeline` and `Options`.
    """

    task = "token-classification"
    models = (TOKEN_CLASSIFICATION.model,)

    @dataclasses.dataclass(frozen=True)
    class Options:
        """Options for token classification.

        Attributes:
            stride: number of tokens by which the windows of a long text overlap. Default: 64, but
                at most a quarter of a window's text tokens.
            max_length: maximum number of tokens in a sequence, including special tokens. Default:
                the maximum that the model and the tokenizer support.
            aggregation_strategy: "none" returns every token. "simple" groups neighboring tokens of
                the same entity type. "first", "average", and "max" assign a single label to all
                tokens of a word, and then group the words.
            ignore_labels: labels to omit from the result. None keeps all labels.
            is_split_into_words: whether a text is a list of words, as in transformers. For a single
                list of words, a call returns a list with one result. "start" and "end" refer to the
                joined text.
            delimiter: string between the joined words.
        """

        stride: int | None = None
        max_length: int | None = None
        aggregation_strategy: str = "none"
        ignore_labels: Sequence[str] | None = ("O",)
        is_split_into_words: bool = False
        delimiter: str = " "

        def __post_init__(self) -> None:
            check_numbers(self, stride=NOT_NEGATIVE, max_length=COUNT)
            if self.aggregation_strategy not in STRATEGIES:
                raise UserError(
                    f"aggregation_strategy must be one of {', '.join(STRATEGIES)}. "
                    f"Received: {self.aggregation_strategy!r}."
                )

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        is_split = options.get("is_split_into_words", self.options.is_split_into_words)
        if is_split and isinstance(inputs, list):
            is_batch = all(isinstance(each, list | tuple) for each in inputs)
            inputs = inputs if is_batch else [inputs]
        return super().__call__(inputs, batch_size=batch_size, **options)

    def preprocess(self, given: Any, options: Options) -> SplitText:
        if not options.is_split_into_words:
            return SplitText(as_text(given))
        if not isinstance(given, list | tuple):
            raise TypeError(
                "With is_split_into_words=True, a text must be a list of words. Received: "
                f"{short_repr(given)}. Split the text, or drop is_split_into_words."
            )
        words = [as_text(word, "A word") for word in given]
        gap = len(options.delimiter)
        starts = [0, *accumulate(len(word) + gap for word in words)]
        return SplitText(options.delimiter.join(words), words, starts)

    def encode(self, examples: Sequence[SplitText], options: Options) -> Rows:
        length = options.max_length or self.max_length
        tokenizer = self.tokenizer
        windows, starts = [], []
        for example in examples:
            if example.words is None:
                [tokens] = tokenizer.tokens_of([example.text], with_offsets=True)
            else:
                [tokens] = tokenizer.tokens_of_words([example.words], with_offsets=True)
            spans = list(word_windows(tokens, length, options.stride))
            starts += [start for start, _ in spans]
            windows.append(
                [EncodedSequence([tokens.cut(*span)], tokenizer.special) for span in spans]
            )
        rows = Rows.of_windows(windows, tokenizer.pad_token_id)
        parts = [window.texts[0] for window in rows.details]
        rows.details = list(zip(parts, starts, strict=True))
        return rows

    def postprocess(
        self,
        example: SplitText,
        windows: Sequence[tuple[tuple[Tokens, int], Outputs]],
        options: Options,
    ) -> list[dict[str, Any]]:
        labels, strategy = self.model.config.labels, options.aggregation_strategy
        ignored = options.ignore_labels or ()
        results = []
        for (part, start), outputs in windows:
            logits = outputs["logits"][1 : 1 + len(part.ids)]  # without special tokens and padding
            tokens = self._tokens(example, part, start, softmax(logits, axis=-1))
            results += (
                labelled_tokens(tokens, labels, ignored)
                if strategy == "none"
                else entities(tokens, labels, strategy, example.text, ignored)
            )
        return without_overlaps(results) if len(windows) > 1 else results

    def _merge_options(self, options: Mapping[str, Any]) -> Options:
        given = dict(options)
        # Options of older transformers versions that set the strategy.
        is_grouped = given.pop("grouped_entities", None)
        is_first = given.pop("ignore_subwords", None)
        if is_grouped is not None or is_first is not None:
            strategy = ("first" if is_first else "simple") if is_grouped else "none"
            given.setdefault("aggregation_strategy", strategy)
        return super()._merge_options(given)

    def _tokens(
        self, example: SplitText, tokens: Tokens, start: int, scores: np.ndarray
    ) -> Iterator[Token]:
        """Yields a window's tokens. `start` is the index of the first token in the text."""
        names = self.tokenizer.convert_ids_to_tokens(tokens.ids)
        words, offsets = tokens.words.tolist(), tokens.offsets.tolist()
        rows = zip(names, tokens.ids, words, offsets, scores, strict=True)
        last = None
        for position, (name, index, word, span, probabilities) in enumerate(rows, start + 1):
            # For split texts, offsets are relative to each word.
            first = 0 if example.words is None else example.starts[word]
            start, end = first + span[0], first + span[1]
            is_unknown = index == self.tokenizer.unk_token_id
            yield Token(
                text=example.text[start:end] if is_unknown else name,
                scores=probabilities,
                start=start,
                end=end,
                position=position,
                continues=word == last and not is_unknown,
            )
            last = word


def labelled_tokens(
    tokens: Iterable[Token], labels: Sequence[str], ignored: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns each token with its highest-scoring label, except tokens with an ignored label."""
    return [
        {
            "entity": labels[best],
            "score": float(token.scores[best]),
            "index": token.position,
            "word": token.text,
            "start": token.start,
            "end": token.end,
        }
        for token in tokens
        for best in [int(token.scores.argmax())]
        if labels[best] not in ignored
    ]


def entities(
    tokens: Iterable[Token],
    labels: Sequence[str],
    strategy: str,
    text: str,
    ignored: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Groups neighboring tokens of the same entity type into entities that don't overlap.

    Args:
        strategy: "simple" uses each token's own label, except that tokens of a single character
            (such as "½") share the label with the highest mean score. The other strategies assign a
            single label to all tokens of a word: "first" uses the label of the first token,
            "average" the label with the highest mean score, and "max" the label of the token with
            the highest score.
        ignored: entity types to omit. `OUTSIDE` refers to the label "O", not to a type with this
            name.
    """
    tagged = []
    for unit in _units(tokens, by_word=strategy != "simple"):
        scores = _SCORES[strategy](unit)
        label = labels[int(scores.argmax())]
        tagged.append(TaggedSpan(label, float(scores.max()), unit[0].start, unit[-1].end))
    found = []
    for group in grouped(tagged, labels):
        label = group[0].label
        kind = label.split("-", 1)[-1]
        start, end = trimmed(text, group[0].start, group[-1].end)
        if start < end and (label if kind == OUTSIDE else kind) not in ignored:
            found.append(
                {
                    "entity_group": kind,
                    "score": float(np.mean([each.score for each in group])),
                    "word": text[start:end],
                    "start": start,
                    "end": end,
                }
            )
    return found


def _units(tokens: Iterable[Token], by_word: bool) -> list[list[Token]]:
    """Groups tokens that share a character and, if `by_word` is True, the tokens of a word."""
    found: list[list[Token]] = []
    for token in tokens:
        continues = by_word and token.continues
        if found and (continues or token.start < found[-1][-1].end):
            found[-1].append(token)
        else:
            found.append([token])
    return found


def grouped(tagged: Sequence[TaggedSpan], labels: Sequence[str]) -> list[list[TaggedSpan]]:
    """Groups consecutive spans of the same entity type, including "O".

    A new group starts at "B-" and "S-", and after "E-" and "S-". A label without a prefix is
    treated like "I-".
    """
    known = parsed(labels)
    groups = [[tagged[0]]] if tagged else []
    for last, each in pairwise(tagged):
        if known[each.label].continues(known[last.label]):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def without_overlaps(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keeps the longest of overlapping entities, or the highest-scoring of equally long ones."""
    result: list[dict[str, Any]] = []
    # Tokens are sorted by index, because tokens of a single character have the same start.
    for each in sorted(found, key=lambda one: one.get("index", one["start"])):
        last = result[-1] if result else {"index": None, "end": -1}
        is_token = "index" in each
        if each["index"] == last["index"] if is_token else each["start"] < last["end"]:
            result[-1] = max(last, each, key=lambda one: (one["end"] - one["start"], one["score"]))
        else:
            result.append(each)
    return result
