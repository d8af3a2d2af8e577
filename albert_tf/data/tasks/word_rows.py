"""Words with tags as rows of pieces."""

import logging
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from albert_tf.data.tasks.rows import IGNORED, Rows
from albert_tf.evaluation.entities import OUTSIDE
from albert_tf.text.encoding import default_stride, special_count, windows

NO_WORD: Final = -1  # position of a row that decides no word's tag
logger = logging.getLogger(__name__)


def encode_words(
    words: Sequence[Sequence[str]],
    labels: Sequence[Sequence[int]] | None,
    tokenizer: Any,
    max_length: int,
) -> Rows:
    """Returns the rows of sentences: a sentence that is too long is several windows.

    A word's first piece has its label; all others have -100. Where windows overlap, the one in
    which the piece is farthest from the edges has the label. `Rows.details` has for each position
    the word whose label it has, or `NO_WORD`.

    Args:
        words: the words of each sentence.
        labels: the number of each word's tag, or None.
        max_length: maximum number of pieces in a row.
    """
    whole = tokenizer(
        [list(each) for each in words],
        is_split_into_words=True,
        add_special_tokens=False,
        truncation=False,
        split_special_tokens=True,
        verbose=False,
    )
    size = max_length - special_count(False)
    stride = default_stride(max_length)
    ids, details, samples = [], [], []
    for sample, pieces in enumerate(whole["input_ids"]):
        spans = list(windows(len(pieces), size, stride))
        firsts = _first_pieces(np.array(whole.word_ids(sample), int))
        best = _best_window(spans, len(pieces))
        for number, (start, end) in enumerate(spans):
            decided = np.where(best[start:end] == number, firsts[start:end], NO_WORD)
            details.append(np.pad(decided, 1, constant_values=NO_WORD))
            ids.append([tokenizer.cls_token_id, *pieces[start:end], tokenizer.sep_token_id])
            samples.append(sample)
    _count_words_without_pieces(words, details)
    targets = {}
    if labels is not None:
        known = [np.array([*labels[sample], IGNORED]) for sample in samples]  # at NO_WORD: the last
        targets["labels"] = [tags[row] for tags, row in zip(known, details, strict=True)]
    arrays = {"input_ids": ids, "token_type_ids": [[0] * len(row) for row in ids]}
    return Rows(arrays, targets, tokenizer.pad_token_id, samples, tags=True, details=details)


def _first_pieces(words: np.ndarray) -> np.ndarray:
    """Returns for each piece its word, or `NO_WORD` if it isn't the word's first."""
    return np.where(np.diff(words, prepend=NO_WORD) != 0, words, NO_WORD)


def _best_window(spans: Sequence[tuple[int, int]], length: int) -> np.ndarray:
    """Returns for each piece the window in which its shorter context is the longest."""
    context = np.full((len(spans), length), -1)
    for number, (start, end) in enumerate(spans):
        pieces = np.arange(start, end)
        before = pieces - start if start else length  # nothing is cut off at the text's ends
        after = end - 1 - pieces if end < length else length
        context[number, start:end] = np.minimum(before, after)
    return context.argmax(axis=0)


def _count_words_without_pieces(
    words: Sequence[Sequence[str]], details: Sequence[np.ndarray]
) -> None:
    count = sum(map(len, words)) - sum(int((row != NO_WORD).sum()) for row in details)
    if count:
        logger.warning(
            "%d words have no pieces (control characters, for example): they don't train, and are "
            "tagged %s.",
            count,
            OUTSIDE,
        )
