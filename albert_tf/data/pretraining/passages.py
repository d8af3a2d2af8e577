"""Documents as pieces, in arrays that all later steps share."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Passages(NamedTuple):
    """Documents, one after another: D of them, with S sentences and N pieces in all.

    Attributes:
        keys: uint64 `[D]`, what the draws of a document depend on.
        ids: int32 `[N]`.
        starts: bool `[N]`, pieces that begin a word.
        bounds: int64 `[S + 1]`, the piece that each sentence begins with, and N.
        documents: int64 `[D + 1]`, the sentence that each document begins with, and S.
    """

    keys: np.ndarray
    ids: np.ndarray
    starts: np.ndarray
    bounds: np.ndarray
    documents: np.ndarray


def as_passages(
    keys: Sequence[int],
    sizes: Sequence[int],
    sentences: Sequence[np.ndarray],
    word_starts: np.ndarray,
    longest: int,
    counts: Counter[str],
) -> Passages:
    """Arrays of documents that are given as sentences.

    Args:
        keys: one for each document; documents without a piece are left out.
        sizes: sentences of each document.
        sentences: int32 arrays, the pieces of each sentence of all documents.
        word_starts: bool `[V]`, pieces that begin a word.
        longest: pieces of the longest sentence; longer ones become several, cut between words
            where there is one to begin.
        counts: gets `tokens`, `empty_documents`, `long_sentences`.
    """
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    document = np.repeat(np.arange(len(sizes)), sizes)[lengths > 0]
    filled = np.bincount(document, minlength=len(sizes))
    ids = np.concatenate([np.zeros(0, np.int32), *sentences])
    counts["tokens"] += len(ids)
    counts["empty_documents"] += int((filled == 0).sum())
    bounds = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
    documents = np.concatenate([[0], np.cumsum(filled[filled > 0])])
    starts = word_starts[ids]
    starts[bounds[:-1]] = True
    kept = np.array(keys, np.uint64)[filled > 0]
    return _with_shorter_sentences(Passages(kept, ids, starts, bounds, documents), longest, counts)


def _with_shorter_sentences(whole: Passages, longest: int, counts: Counter[str]) -> Passages:
    """The same pieces, and sentences of at most `longest`."""
    long = np.flatnonzero(np.diff(whole.bounds) > longest)
    if not len(long):
        return whole
    counts["long_sentences"] += len(long)
    begins = np.flatnonzero(whole.starts)
    cuts: list[int] = []
    for sentence in long:
        at, end = (int(bound) for bound in whole.bounds[sentence : sentence + 2])
        while end - at > longest:
            word = int(begins[np.searchsorted(begins, at + longest, side="right") - 1])
            at = word if word > at else at + longest
            cuts.append(at)
    bounds = np.sort(np.concatenate([whole.bounds, cuts]).astype(np.int64))
    starts = whole.starts.copy()
    starts[cuts] = True
    documents = np.searchsorted(bounds, whole.bounds[whole.documents])
    return whole._replace(bounds=bounds, starts=starts, documents=documents)
