"""The question answering pipeline."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError, short_repr
from albert_tf.options import COUNT, NOT_NEGATIVE
from albert_tf.pipelines.base import (
    Outputs,
    Pipeline,
    as_column,
    as_text,
    check_numbers,
)
from albert_tf.tasks import QUESTION_ANSWERING
from albert_tf.text.answers import (
    DEPLOYED,
    MAX_QUESTION,
    Answers,
    Decoding,
    context_positions,
    find_answers,
    question_windows,
)
from albert_tf.text.sequences import EncodedSequence, special_count

LENGTH: Final = 384  # tokens
SPARE: Final = DEPLOYED.spans - 2  # spans to examine beyond 2 * `top_k`


class QuestionInContext(NamedTuple):
    """A question and its context."""

    question: str
    context: str


class QuestionAnsweringPipeline(Pipeline):
    """Question answering pipeline, which answers questions with spans of a context.

    A call takes `question=` and `context=` (texts or lists of texts), or dicts with these keys. The
    result for a question is a dict with the keys "score", "start", "end", and "answer", which is
    `context[start:end]`.

    A long context is split into windows. The score of an answer is its probability in its window.
    Answers with the same text in a window are merged, and their scores are added up.

    With the SQuAD 2.0 head, the score of `""` is the probability that there is no answer. `""`
    comes first if its score exceeds one half, which corresponds to the authors' threshold of 0. A
    fine-tuned model instead uses the threshold that its evaluation stored in `config.thresholds`.
    All other answers come from the head's beam of five start positions with five end positions
    each.

    Example:

    >>> from albert_tf import AlbertForQuestionAnswering, AlbertTokenizer
    >>> from albert_tf.pipelines import QuestionAnsweringPipeline
    >>> model = AlbertForQuestionAnswering.from_pretrained("small")  # not fine-tuned
    >>> ask = QuestionAnsweringPipeline(model, AlbertTokenizer.from_pretrained("small"))
    >>> sorted(ask(question="Where is it?", context="It is in the harbour."))
    ['answer', 'end', 'score', 'start']

    Args: see `Pipeline` and `Options`.
    Source: google-research/albert, run_squad_v1.py and run_squad_v2.py.
    """

    task = "question-answering"
    models = (QUESTION_ANSWERING.model,)
    takes_pairs = True
    length_option = "max_seq_len"
    shortest = special_count(True) + 1

    @dataclasses.dataclass(frozen=True)
    class Options:
        """Options for question answering.

        Attributes:
            top_k: number of answers to return, best first. If it is 1, the result is a dict instead
                of a list.
            max_answer_len: maximum number of tokens in an answer.
            handle_impossible_answer: whether `""` (start 0, end 0) is a possible answer. Default:
                True if fine-tuning has stored a no-answer threshold in `config.thresholds`.
            align_to_words: whether to extend answers to whole words.
            doc_stride: number of tokens by which the windows of a context overlap. Default: 128,
                but at most half of the context tokens in a window.
            max_seq_len: maximum number of tokens in a window, including the question. Default:
                384, or less if the model or the tokenizer supports less.
            max_question_len: maximum number of tokens in a question, at most half a window.
        """

        top_k: int = 1
        max_answer_len: int = DEPLOYED.longest
        handle_impossible_answer: bool | None = None
        align_to_words: bool = True
        doc_stride: int | None = None
        max_seq_len: int | None = None
        max_question_len: int = MAX_QUESTION

        def __post_init__(self) -> None:
            counts = ("top_k", "max_answer_len", "max_question_len", "max_seq_len")
            check_numbers(self, doc_stride=NOT_NEGATIVE, **dict.fromkeys(counts, COUNT))

    def __call__(
        self,
        inputs: Any = None,
        *,
        question: Any = None,
        context: Any = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> Any:
        if inputs is None:
            inputs = _questions(question, context)
        elif question is not None or context is not None:
            raise TypeError(
                "Pass either question= and context=, or a dict with these keys, but not both."
            )
        return super().__call__(inputs, batch_size=batch_size, **options)

    def preprocess(self, given: Any, options: Options) -> QuestionInContext:
        if isinstance(given, tuple) and len(given) == 2:
            given = dict(zip(QuestionInContext._fields, given, strict=True))
        if not isinstance(given, Mapping):
            raise TypeError(
                "A question must be a dict with the keys 'question' and 'context'. "
                f"Received: {short_repr(given)}."
            )
        parts = []
        for name in QuestionInContext._fields:
            if given.get(name) is None:
                raise UserError(f"The {name} is missing. Pass both a question and a context.")
            parts.append(as_text(given[name], f"A {name}"))
            if not parts[-1].strip():
                raise UserError(f"A {name} must not be empty. Received: {short_repr(parts[-1])}.")
        return QuestionInContext(*parts)

    def encode(self, examples: Sequence[QuestionInContext], options: Options) -> Rows:
        length = options.max_seq_len or min(self.max_length, LENGTH)
        windows = question_windows(
            self.tokenizer,
            [example.question for example in examples],
            [example.context for example in examples],
            length,
            options.doc_stride,
            options.max_question_len,
        )
        return Rows.of_windows(windows, self.tokenizer.pad_token_id)

    def postprocess(
        self,
        example: QuestionInContext,
        windows: Sequence[tuple[EncodedSequence, Outputs]],
        options: Options,
    ) -> Any:
        decoding = Decoding(
            spans=2 * options.top_k + SPARE,
            longest=options.max_answer_len,
            aligned=options.align_to_words,
            kept=None if options.align_to_words else options.top_k,
        )
        answers = find_answers(
            example.context,
            [(context_positions(window), outputs) for window, outputs in windows],
            self.model.config.answerability,
            decoding,
        )
        ranked = self._with_none(answers, options)
        return ranked[0] if options.top_k == 1 else ranked[: options.top_k]

    def _with_none(self, answers: Answers, options: Options) -> list[dict[str, Any]]:
        """Adds "" to the answers if the options allow it or there is no other answer."""
        ranked, none = answers.best, {"score": answers.none, "start": 0, "end": 0, "answer": ""}
        config, may_be_none = self.model.config, options.handle_impossible_answer
        if may_be_none is None:
            may_be_none = config.thresholds is not None
        if not ranked:
            return [none if may_be_none else {**none, "score": 0.0}]
        if not may_be_none:
            return ranked
        if not config.answerability and not config.thresholds:
            return _sort([*ranked, none])
        if answers.null_score > (config.thresholds[0] if config.thresholds else 0.0):
            return [none, *ranked]
        return [ranked[0], *_sort([*ranked[1:], none])]


def _sort(answers: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(answers, key=lambda answer: -answer["score"])


def _questions(question: Any, context: Any) -> Any:
    """Returns a question or a list of questions. Questions can share a single context."""
    questions, contexts = as_column(question), as_column(context)
    if questions is None and contexts is None:
        return {"question": question, "context": context}
    questions = [question] if questions is None else questions
    contexts = [context] * len(questions) if contexts is None else contexts
    if len(questions) != len(contexts):
        raise UserError(
            "Pass one context per question, or one context for all questions. "
            f"Received: {len(questions)} questions and {len(contexts)} contexts."
        )
    return [{"question": q, "context": c} for q, c in zip(questions, contexts, strict=True)]
