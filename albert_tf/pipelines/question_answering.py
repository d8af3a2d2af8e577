"""Answers to questions from texts that hold them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

from scipy.special import expit

from albert_tf.errors import UserError
from albert_tf.models import AlbertForQuestionAnswering
from albert_tf.pipelines import spans
from albert_tf.pipelines.answers import answer, places
from albert_tf.pipelines.base import Outputs, Pipeline
from albert_tf.pipelines.batches import Row
from albert_tf.pipelines.inputs import as_text
from albert_tf.pipelines.long_texts import features, windows

SPECIAL: Final = 3  # [CLS] and two [SEP]
SPARE: Final = 10  # spans of a window to look at beyond twice those wanted: some are one answer


@dataclasses.dataclass(frozen=True)
class QuestionAnsweringOptions:
    """How answers are looked for.

    Attributes:
        top_k: how many answers, best first; one is given without a list.
        max_answer_len: pieces of an answer at most.
        handle_impossible_answer: also consider that there is none: `""`, from 0 to 0.
        align_to_words: extend an answer to whole words.
        doc_stride: pieces of the context that its windows share. Default: 128, half a window at
            most.
        max_seq_len: pieces of a window with its question. Default: 384, if the model takes as many.
        max_question_len: pieces of the question that are read, half a window at most.
        padding: for those who come from Hugging Face. Rows are padded as needed, whatever it says.
    """

    top_k: int = 1
    max_answer_len: int = 15
    handle_impossible_answer: bool = False
    align_to_words: bool = True
    doc_stride: int | None = None
    max_seq_len: int | None = None
    max_question_len: int = 64
    padding: Any = None

    def __post_init__(self) -> None:
        for name in ("top_k", "max_answer_len", "max_question_len"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be 1 or more. Received: {getattr(self, name)}.")


class Question(NamedTuple):
    """A question and the text to find its answer in."""

    question: str
    context: str


class QuestionAnsweringPipeline(Pipeline[QuestionAnsweringOptions]):
    """`{"score": …, "start": …, "end": …, "answer": …}`, `answer` being `context[start:end]`.

    Called with `question=` and `context=` (texts, or lists of them), or with dicts that have these
    keys. A long context is read in windows. An answer's score is its probability in its window;
    answers of one window that read alike are one, with the sum of their scores.

    With the SQuAD 2.0 head the score of `""` is the probability that there is no answer, and `""`
    comes first if that exceeds one half, which is what its authors' threshold of 0 means; otherwise
    the head's beam of five starts and five ends each is all there is to choose from.

    Args: see `Pipeline`, and `QuestionAnsweringOptions` for the options.
    Source: google-research/albert, run_squad_v1.py and run_squad_v2.py.
    """

    task = "question-answering"
    models = (AlbertForQuestionAnswering,)
    options_type = QuestionAnsweringOptions

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
            inputs = _asked(question, context)
        elif question is not None or context is not None:
            raise TypeError(
                "Questions come as question= and context=, or as dicts. Received: both."
            )
        return super().__call__(inputs, batch_size=batch_size, **options)

    def example(self, given: Any, options: QuestionAnsweringOptions) -> Question:
        if isinstance(given, tuple) and len(given) == 2:
            given = dict(zip(Question._fields, given, strict=True))
        if not isinstance(given, Mapping):
            raise TypeError(f"A question is a dict with question and context. Received: {given!r}.")
        parts = []
        for name in Question._fields:
            if given.get(name) is None:
                raise UserError(
                    f"A question needs a question and a context. Received: no {name}. "
                    "Give both: question=…, context=…."
                )
            parts.append(as_text(given[name], f"A {name}"))
            if not parts[-1].strip():
                raise UserError(f"A {name} must not be empty. Received: {parts[-1]!r}.")
        return Question(*parts)

    def encode(
        self, examples: Sequence[Question], options: QuestionAnsweringOptions
    ) -> Iterable[list[Row]]:
        return [self._windows(example, options) for example in examples]

    def finish(
        self,
        example: Question,
        rows: Sequence[Row],
        found: Sequence[Outputs],
        options: QuestionAnsweringOptions,
    ) -> Any:
        count = 2 * options.top_k + SPARE
        nulls, answers = [], []
        for row, each in zip(rows, found, strict=True):
            possible = row.details.possible
            if self.model.config.answerability:
                null = float(expit(each["cls_logits"]))
                best = spans.beam_spans(each, possible, options.max_answer_len)[:count]
            else:
                starts, ends = (each[name][: row.length] for name in ("start_logits", "end_logits"))
                best, null = spans.best_spans(starts, ends, possible, count, options.max_answer_len)
            nulls.append(null)
            texts = [
                answer(example.context, row.details, span, options.align_to_words) for span in best
            ]
            texts = [each for each in texts if each["answer"]]  # not white space alone
            answers.append(
                spans.collected(texts[: None if options.align_to_words else options.top_k])
            )
        ranked = self._with_none(spans.surest(answers), min(nulls), options)
        return ranked[0] if options.top_k == 1 else ranked[: options.top_k]

    def _with_none(
        self, ranked: list[dict[str, Any]], null: float, options: QuestionAnsweringOptions
    ) -> list[dict[str, Any]]:
        """The answers, with "" among them if it is asked for or there is no other."""
        none = {"score": null, "start": 0, "end": 0, "answer": ""}
        if not ranked:
            return [none if options.handle_impossible_answer else {**none, "score": 0.0}]
        if not options.handle_impossible_answer:
            return ranked
        if not self.model.config.answerability:
            return sorted([*ranked, none], key=lambda answer: -answer["score"])
        if null > 0.5:
            return [none, *ranked]
        return [ranked[0], *sorted([*ranked[1:], none], key=lambda answer: -answer["score"])]

    def _windows(self, example: Question, options: QuestionAnsweringOptions) -> list[Row]:
        length = min(self.max_length, 384) if options.max_seq_len is None else options.max_seq_len
        if not SPECIAL < length <= self.max_length:
            raise UserError(
                f"max_seq_len must lie between {SPECIAL + 1} and {self.max_length}, the most that "
                f"the model and the tokenizer take. Received: {length}."
            )
        longest = max(1, min(options.max_question_len, (length - SPECIAL) // 2))
        question = self._cut(example.question, longest)
        room = length - SPECIAL - len(self.tokenizer.tokenize(question))
        stride = options.doc_stride
        encoding = windows(
            self.tokenizer,
            question,
            example.context,
            truncation="only_second",
            max_length=length,
            stride=max(0, min(128, room // 2)) if stride is None else stride,
            return_offsets_mapping=True,
        )
        return [
            features(encoding, place, places(encoding, place))
            for place in range(len(encoding["input_ids"]))
        ]

    def _cut(self, question: str, length: int) -> str:
        offsets = self.tokenizer(
            question,
            add_special_tokens=False,
            return_offsets_mapping=True,
            split_special_tokens=True,
        )["offset_mapping"]
        return question if len(offsets) <= length else question[: offsets[length - 1][1]]


def _asked(question: Any, context: Any) -> Any:
    """One question, or a list of them; one context may do for several questions."""
    if not isinstance(question, list) and not isinstance(context, list):
        return {"question": question, "context": context}
    questions = question if isinstance(question, list) else [question]
    contexts = context if isinstance(context, list) else repeat(context, len(questions))
    if isinstance(contexts, list) and len(questions) != len(contexts):
        raise UserError(
            "There must be as many contexts as questions, or one for all. "
            f"Received: {len(questions)} questions, {len(contexts)} contexts."
        )
    return [{"question": q, "context": c} for q, c in zip(questions, contexts, strict=True)]
