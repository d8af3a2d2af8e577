"""Extractive question answering: splits contexts into windows, and finds answers in logits."""

import logging
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from albert_tf.probabilities import sigmoid, softmax
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.sequences import EncodedSequence
from albert_tf.text.tokens import Tokens
from albert_tf.text.windows import Truncation, make_sequences

# Number of tokens by which the windows of a context overlap, so that every answer of up to 128
# tokens is inside one window. The transformers pipeline uses the same overlap. In
# google-research/albert, 128 is the distance between the starts of two windows.
ANSWER_OVERLAP: Final = 128
MAX_QUESTION: Final = 64  # tokens; google-research/albert, run_squad_v1.py and run_squad_v2.py
logger = logging.getLogger(__name__)


def question_windows(
    tokenizer: BaseTokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    length: int,
    stride: int | None = None,
    max_question: int = MAX_QUESTION,
    locations: Sequence[str] = (),
) -> list[list[EncodedSequence]]:
    """Returns the windows of each question and its context, as sequences with offsets and words.

    A context that several questions share is encoded only once.

    Args:
        questions, contexts: texts, one context per question.
        length: maximum number of tokens in a window.
        stride: number of tokens by which neighboring windows overlap. Default: `ANSWER_OVERLAP`,
            but at most half of the context tokens in a window.
        max_question: maximum number of tokens in a question, at most half a window.
        locations: file and line of each question, for the warning about long questions.
    """
    unique = {context: number for number, context in enumerate(dict.fromkeys(contexts))}
    encoded = tokenizer.tokens_of(list(unique), with_offsets=True)
    special = tokenizer.num_special_tokens_to_add(pair=True)
    longest = question_limit(length - special, max_question)
    windows = []
    for sample, question in enumerate(_encode_questions(tokenizer, questions, longest, locations)):
        room = length - special - len(question.ids)
        context = encoded[unique[contexts[sample]]]
        overlap = max(0, min(ANSWER_OVERLAP, room // 2)) if stride is None else stride
        truncation = Truncation(length, "only_second", stride=overlap)
        windows.append(make_sequences([question], [context], tokenizer.special, truncation))
    return windows


def question_limit(room: int, max_question: int) -> int:
    """Returns the maximum number of question tokens in windows of `room` text tokens."""
    return max(1, min(max_question, room // 2))


def context_part(window: EncodedSequence) -> tuple[int, np.ndarray]:
    """Returns the position of a window's first context token, and the context tokens' offsets."""
    question, context = window.texts
    separators = window.special.separators if window.special else 0
    return 1 + len(question.ids) + separators, context.offsets


def _encode_questions(
    tokenizer: BaseTokenizer, questions: Sequence[str], longest: int, locations: Sequence[str]
) -> list[Tokens]:
    """Encodes the questions; truncates long questions with a warning."""
    tokens = tokenizer.tokens_of(questions, with_offsets=True)
    cut = {number: long for number, long in enumerate(tokens) if len(long.ids) > longest}
    if cut:
        first = next(iter(cut))
        logger.warning(
            "%d of %d questions have more than %d tokens and are truncated. The first is %s. To "
            "keep more tokens (up to half a window), raise the limit for questions.",
            *(len(cut), len(questions), longest),
            locations[first] if locations else repr(questions[first][:60]),
        )
    for number, long in cut.items():
        tokens[number] = long.cut(0, longest)
    return tokens


NOWHERE: Final = -1e4  # logit of a position where no answer can start or end
CLS: Final = 0  # position of [CLS], whose score is that of "no answer"
CONTEXT: Final = 1  # index of the context in a window's texts
MARKS: Final = frozenset("\"'.,;:!?…、。，；：！？")
BRACKETS: Final = ("Ps", "Pe", "Pi", "Pf")  # Unicode categories of brackets and quotation marks
# Unicode categories of whitespace, control characters, and invisible characters such as U+200B. An
# answer or entity never starts or ends with one. tokenizer.js on the web page has the same rule.
INVISIBLE: Final = ("Zs", "Zl", "Zp", "Cc", "Cf")


class Span(NamedTuple):
    """An answer in a window.

    Attributes:
        start, end: positions of the first and the last token.
        score: probability in the window.
        logit: start logit plus end logit. The official scripts rank all windows' spans by this sum.
            For the SQuAD 2.0 head, the logit is the log probability.
    """

    start: int
    end: int
    score: float
    logit: float


class Decoding(NamedTuple):
    """How to read answers from outputs. Pipelines and exported models use the defaults.

    Attributes:
        spans: number of spans to examine in each window. Several can have the same text.
        longest: maximum number of tokens in an answer.
        aligned: whether to extend answers to whole words.
        kept: number of answers to keep in each window, or None for all.
        by_logit: whether to rank the answers of all windows by logit, as the authors' scripts do.
            If False, answers are ranked by probability, and the probabilities of answers with the
            same text in a window are added up.
    """

    spans: int = 12
    longest: int = 15
    aligned: bool = True
    kept: int | None = None
    by_logit: bool = False


DEPLOYED: Final = Decoding()
# google-research/albert, run_squad_v1.py and run_squad_v2.py: --n_best_size, --max_answer_length
OFFICIAL: Final = Decoding(spans=20, longest=30, aligned=False, by_logit=True)


class Answers(NamedTuple):
    """The answers to a question.

    Attributes:
        best: distinct answers, best first, as dicts with the keys "score", "start", "end", and
            "answer", which is `context[start:end]`.
        none: probability that there is no answer.
        null_score: score to compare with a threshold: the score of "no answer" minus the best
            answer's score, or the no-answer logit of the SQuAD 2.0 head.
    """

    best: list[dict[str, Any]]
    none: float
    null_score: float

    def text(self, threshold: float) -> str:
        """Returns the best answer, or "" if there is none or the null score exceeds `threshold`."""
        return "" if self.null_score > threshold or not self.best else self.best[0]["answer"]

    def confidence(self, threshold: float) -> float:
        """Returns the score of the answer that `text` returns."""
        return self.best[0]["score"] if self.text(threshold) else self.none


class BestSpans(NamedTuple):
    """The best spans of a window.

    Attributes:
        spans: spans with a positive score, best first.
        null: no-answer probability.
        null_logit: start logit plus end logit of `[CLS]`, or the no-answer logit of the SQuAD 2.0
            head.
    """

    spans: list[Span]
    null: float
    null_logit: float


class ContextPositions(NamedTuple):
    """The positions of a window.

    Attributes:
        offsets: start and end character of each position in its text.
        words: index of each position's word in the context, or None outside the context.
        possible: bool `[T]`, whether a position is in the context.
    """

    offsets: Sequence[tuple[int, int]]
    words: Sequence[int | None]
    possible: np.ndarray


def context_positions(window: EncodedSequence) -> ContextPositions:
    """Returns the positions of a window that contains a question and a context."""
    inside = [text == CONTEXT for text in window.sequence_ids]
    words = [
        word if is_context else None
        for word, is_context in zip(window.word_ids, inside, strict=True)
    ]
    return ContextPositions(window.offset_mapping, words, np.array(inside))


def find_answers(
    context: str,
    windows: Iterable[tuple[ContextPositions, Mapping[str, Any]]],
    answerability: bool,
    decoding: Decoding = DEPLOYED,
) -> Answers:
    """Returns the answers to a question, best first.

    Args:
        windows: positions and the model's outputs for each window of the question and its context.
        answerability: whether the model has the SQuAD 2.0 head.
    """
    answers, nulls, null_logits, best_logits = [], [], [], []
    for positions, outputs in windows:
        spans, null, null_logit = best_spans(
            outputs, positions.possible, decoding.spans, decoding.longest
        )
        nulls.append(null)
        null_logits.append(null_logit)
        best_logits += [span.logit for span in spans[:1]]
        if decoding.by_logit:
            spans = [span._replace(score=span.logit) for span in spans]
        texts = [read_span(context, positions, span, decoding.aligned) for span in spans]
        texts = [each for each in texts if each["answer"]]  # drops spans of whitespace
        answers.append(texts if decoding.by_logit else merge_same_text(texts[: decoding.kept]))
    best = merge_windows(answers)[: decoding.spans]
    if decoding.by_logit:
        best_logits = [answer["score"] for answer in best[:1]]
    ahead = 0.0 if answerability else max(best_logits, default=0.0)
    return Answers(best, min(nulls), min(null_logits) - ahead)


def best_spans(
    outputs: Mapping[str, Any], possible: np.ndarray, count: int, longest: int
) -> BestSpans:
    """Returns the best spans of a window. Ties are broken by position or by beam order.

    The score of a span is the product of its start and end probabilities. Both distributions cover
    the possible positions and `[CLS]`. The product at `[CLS]` is the no-answer probability. The
    SQuAD 2.0 head instead returns a beam of spans and a no-answer logit.

    Exported graphs (`albert_tf_export.words`) and the web page (`tasks.js`) use the same rules.

    Args:
        outputs: the model's outputs for one window, with or without padding.
        possible: bool `[T]`, whether an answer can start or end at a position.
        count: maximum number of spans.
        longest: maximum number of tokens in a span.
    """
    if "cls_logits" in outputs:
        spans = _beam_spans(outputs, possible, longest)
        null_logit = float(outputs["cls_logits"])
        null = float(sigmoid(null_logit))
    else:
        starts, ends = (outputs[name][: len(possible)] for name in ("start_logits", "end_logits"))
        spans, null = _logit_spans(starts, ends, possible, count, longest)
        null_logit = float(starts[CLS] + ends[CLS])
    return BestSpans(spans[:count], null, null_logit)


def _logit_spans(
    start_logits: np.ndarray, end_logits: np.ndarray, possible: np.ndarray, count: int, longest: int
) -> tuple[list[Span], float]:
    seen = possible.copy()
    seen[CLS] = True
    starts, ends = (
        softmax(np.where(seen, logits.astype("float64"), NOWHERE))
        for logits in (start_logits, end_logits)
    )
    null = float(starts[CLS] * ends[CLS])
    longest = min(longest, len(ends))
    followers = np.pad(ends * possible, (0, longest - 1))  # `longest` possible ends per start
    products = (starts * possible)[:, None] * sliding_window_view(followers, longest)
    best = np.argsort(-products, axis=None, kind="stable")[:count].tolist()
    # Spans with a score of 0 can end after the last position.
    found = [(at // longest, at // longest + at % longest, products.flat[at]) for at in best]
    return [
        Span(start, end, float(score), float(start_logits[start] + end_logits[end]))
        for start, end, score in found
        if score > 0
    ], null


def _beam_spans(outputs: Mapping[str, Any], possible: np.ndarray, longest: int) -> list[Span]:
    """Returns the valid spans of a beam (K ends for each of K starts); see `layers.AnswerSpans`."""
    beam = len(outputs["start_top_index"])
    starts = np.repeat(outputs["start_top_index"], beam).tolist()
    ends = outputs["end_top_index"].tolist()
    log_probs = np.repeat(outputs["start_top_log_probs"], beam) + outputs["end_top_log_probs"]
    spans = [
        Span(start, end, float(np.exp(log_prob)), float(log_prob))
        for start, end, log_prob in zip(starts, ends, log_probs, strict=True)
        if start <= end < min(start + longest, len(possible)) and possible[start] and possible[end]
    ]
    return sorted((span for span in spans if span.score > 0), key=lambda span: -span.score)


def read_span(
    context: str, positions: ContextPositions, span: Span, aligned: bool
) -> dict[str, Any]:
    """Returns a span as a dict. If `aligned` is True, the span is extended to whole words.

    The keys are "score", "start", "end", and "answer", which is `context[start:end]`.
    """
    first, last = _whole_words(context, positions, span) if aligned else span[:2]
    start, end = trimmed(context, positions.offsets[first][0], positions.offsets[last][1])
    return {"score": span.score, "start": start, "end": end, "answer": context[start:end]}


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the start and end of a span after stripping `INVISIBLE` characters."""
    while start < end and unicodedata.category(text[start]) in INVISIBLE:
        start += 1
    while end > start and unicodedata.category(text[end - 1]) in INVISIBLE:
        end -= 1
    return start, end


def _whole_words(context: str, positions: ContextPositions, span: Span) -> tuple[int, int]:
    """Extends a span to whole words, but not to the punctuation around them."""
    words = positions.words
    start = words.index(words[span.start])
    end = len(words) - 1 - words[::-1].index(words[span.end])
    while start < span.start and _is_punctuation(context[slice(*positions.offsets[start])]):
        start += 1
    while end > span.end and _is_punctuation(context[slice(*positions.offsets[end])]):
        end -= 1
    return start, end


def _is_punctuation(text: str) -> bool:
    """Returns whether a text consists of punctuation, brackets, and `INVISIBLE` characters."""
    return all(
        character in MARKS or unicodedata.category(character) in (*BRACKETS, *INVISIBLE)
        for character in text
    )


def merge_same_text(answers: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges a window's answers that have the same text, and adds up their scores."""
    by_text: dict[str, dict[str, Any]] = {}
    for answer in answers:
        known = by_text.setdefault(answer["answer"].lower(), answer)
        if known is not answer:
            known["score"] += answer["score"]
    return list(by_text.values())


def merge_windows(windows: Iterable[Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the answers of all windows, best first. Of equal answers, only the best is kept."""
    by_text: dict[str, dict[str, Any]] = {}
    for answer in chain.from_iterable(windows):
        known = by_text.setdefault(answer["answer"].lower(), answer)
        if answer["score"] > known["score"]:
            by_text[answer["answer"].lower()] = answer
    return sorted(by_text.values(), key=lambda answer: -answer["score"])
