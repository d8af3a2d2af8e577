"""`albert-tf answer`"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from albert_tf.cli.text_options import AnswerOptions, Block, check_model, print_results, with_inputs
from albert_tf.errors import UserError
from albert_tf.options import COUNT, option

SUMMARY = "answer questions from texts"
EXAMPLES = """examples:
  albert-tf answer --model my-model --question "Where is it?" --context "It is in the harbour."
  albert-tf answer --model my-model --question "Who came?" --context "$(cat story.txt)" --top-k 3
  albert-tf answer --model my-model --input questions.jsonl --unanswerable --json

Prints a line for each answer: its probability, its start and end in the text (in characters), and
the answer itself, which is empty for "no answer". An empty line separates questions. Long texts are
read in windows. Each line of a file is a JSON object with "question", "context", and optionally
"id".
"""


@dataclass(frozen=True, kw_only=True)
class OPTIONS(AnswerOptions):
    """The options of `albert-tf answer`."""

    input: str | None = option(
        None, help="JSONL file of questions; - for standard input", metavar="FILE", is_path=True
    )
    question: tuple[str, ...] = option(
        (),
        help="question to answer; may be repeated",
        repeated=True,
        may_be_empty=True,
        needs="context",
        instead_of="input",
    )
    context: str | None = option(
        None, help="text to answer from", may_be_empty=True, needs="question"
    )
    top_k: int = option(1, help="number of answers per question", range=COUNT)
    unanswerable: bool | None = option(
        None, help="allow 'no answer' as a result; default: only if fine-tuning chose a threshold"
    )


def check(options: OPTIONS) -> None:
    """Checks the questions, their file, and the model."""
    if not all(map(str.strip, options.question)):
        raise UserError("--question must not be empty.")
    if options.context is not None and not options.context.strip():
        raise UserError("--context must not be empty.")
    options.check_input()
    check_model(options.model, "AlbertForQuestionAnswering")


def run(options: OPTIONS) -> int:
    """Prints the answers to each question."""
    if options.input is not None:
        given = _rows(options)
    else:
        given = iter({"question": each, "context": options.context} for each in options.question)
    ask = options.pipeline(
        "question-answering",
        top_k=options.top_k,
        handle_impossible_answer=options.unanswerable,
    )
    results = (_result(row, found) for row, found in with_inputs(ask, given))
    return print_results(results, options.json)


def _result(question: dict[str, Any], found: Any) -> tuple[dict[str, Any], list[Block]]:
    answers = [found] if isinstance(found, dict) else found
    known: dict[str, Any] = {
        name: question[name] for name in ("id", "question") if name in question
    }
    block = [
        (f"{each['score']:.4f}", each["start"], each["end"], " ".join(each["answer"].split()))
        for each in answers
    ]
    return {**known, "answers": answers}, [block]


def _rows(options: OPTIONS) -> Iterator[dict[str, Any]]:
    path = options.input
    for number, line in enumerate(options.lines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number}, is not valid JSON: {error}.") from error
        names = ("question", "context")
        values = [row.get(name) for name in names] if isinstance(row, dict) else [None]
        if not all(isinstance(value, str) and value.strip() for value in values):
            raise UserError(
                f"{path}, line {number}, must be a JSON object with non-empty strings for "
                f'"question" and "context". Received: {line[:60]}.'
            )
        yield row
