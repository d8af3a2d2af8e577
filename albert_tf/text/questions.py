"""Questions and their contexts to windows: rows with the question and a part of the context."""

import logging
from collections.abc import Sequence
from typing import Final

import numpy as np

from albert_tf.errors import UserError
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.rows import EncodedRow, Layout, make_rows, special_count
from albert_tf.text.segmenter import Pieces

SPECIAL: Final = special_count(True)
# google-research/albert, run_squad_v1.py and run_squad_v2.py.
STRIDE: Final = 128  # pieces
MAX_QUESTION: Final = 64  # pieces
logger = logging.getLogger(__name__)


def question_windows(
    tokenizer: BaseTokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    length: int,
    stride: int | None = None,
    max_question: int = MAX_QUESTION,
    places: Sequence[str] = (),
) -> list[list[EncodedRow]]:
    """Returns the windows of each question's context, as rows with offsets and words.

    A context that several questions share is encoded once.

    Args:
        questions, contexts: texts, one context for each question.
        length: maximum number of pieces in a window.
        stride: pieces that neighbouring windows share. Default: 128, but at most half of what a
            window has of the context.
        max_question: pieces to read of a question; at most half a window.
        places: of the questions, for a warning.
    Raises:
        UserError: the stride is too long for a window.
    """
    unique = {context: number for number, context in enumerate(dict.fromkeys(contexts))}
    encoded = _pieces(tokenizer, list(unique))
    longest = question_limit(length, max_question)
    found = []
    for sample, question in enumerate(_cut(tokenizer, questions, longest, places)):
        room = length - SPECIAL - len(question.ids)
        shared = max(0, min(STRIDE, room // 2)) if stride is None else stride
        layout = Layout(tokenizer.special, "only_second", length, shared, overflow=True)
        context = encoded[unique[contexts[sample]]]
        try:
            found.append(make_rows([question], [context], layout))
        except ValueError as error:
            raise UserError(str(error)) from error
    return found


def question_limit(length: int, max_question: int) -> int:
    """Returns the most pieces of a question in windows of `length` pieces."""
    return max(1, min(max_question, (length - SPECIAL) // 2))


def context_part(row: EncodedRow) -> tuple[int, np.ndarray]:
    """Returns the position of a window's first piece of the context, and the pieces' offsets."""
    question, context = row.texts
    return len(question.ids) + SPECIAL - 1, context.offsets


def _cut(
    tokenizer: BaseTokenizer, questions: Sequence[str], longest: int, places: Sequence[str]
) -> list[Pieces]:
    """Returns the pieces of questions; a long one is read up to its piece number `longest`."""
    found = _pieces(tokenizer, questions)
    cut = {row: each for row, each in enumerate(found) if len(each.ids) > longest}
    if cut:
        first = next(iter(cut))
        logger.warning(
            "%d of %d questions have more than %d pieces and lose their ends; the first: %s. A "
            "larger limit for questions reads more, up to half a window.",
            *(len(cut), len(questions), longest),
            places[first] if places else repr(questions[first][:60]),
        )
    texts = [questions[row][: int(each.offsets[longest - 1, 1])] for row, each in cut.items()]
    for row, each in zip(cut, _pieces(tokenizer, texts), strict=True):
        found[row] = each
    return found


def _pieces(tokenizer: BaseTokenizer, texts: Sequence[str]) -> list[Pieces]:
    return tokenizer._segmenter.encode(texts, split_special=True, details=True)
