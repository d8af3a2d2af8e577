"""Builds records from documents. Every engine uses `ExampleMaker`."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from albert_tf.data.corpus.documents import Document
from albert_tf.data.pretraining import rng
from albert_tf.data.pretraining.masking import WordTable
from albert_tf.data.pretraining.options import SPECIAL_COUNT, ExampleOptions
from albert_tf.data.pretraining.pairs import Passages, make_pairs
from albert_tf.data.pretraining.records import encode
from albert_tf.text.base_tokenizer import BaseTokenizer

_ORDER: Final = 32  # a stream of random numbers


@dataclass(frozen=True)
class ExampleMaker:
    """Builds records from documents. Each record depends only on the document and the options.

    With `pair_task="nsp"`, however, second segments come from other documents in the same group.

    Attributes:
        tokenizer: tokenizer for the sentences.
        table: word table of the tokenizer's vocabulary.
        options: options that determine how documents become examples.
        sentences: function that splits a document into sentences.
    """

    tokenizer: BaseTokenizer
    table: WordTable
    options: ExampleOptions
    sentences: Callable[[Document], list[str]]

    def read(self, documents: Sequence[Document], counts: Counter[str]) -> Passages:
        """Tokenizes documents.

        Args:
            counts: receives `sentences`, `tokens`, `long_sentences`, and `empty_documents`.
        """
        seed = self.options.random_seed
        keys = [rng.key(seed, document.source, document.offset) for document in documents]
        sentences = list(map(self.sentences, documents))
        counts["sentences"] += sum(map(len, sentences))
        return as_passages(
            keys,
            [len(document) for document in sentences],
            self.tokenizer.encode_plain(list(chain.from_iterable(sentences))),
            self.table.starts,
            self.options.max_seq_length - SPECIAL_COUNT,
            counts,
        )

    def records(self, passages: Passages, counts: Counter[str]) -> Iterator[tuple[int, bytes]]:
        """Yields the records of passages, in text order.

        Args:
            counts: receives `examples` and `single_words`.
        Yields:
            A random number and a serialized `tf.train.Example`. Sorting by the number shuffles the
            records. An example contains two segments in text order and their label.
        """
        pairs = make_pairs(passages, self.options, counts)
        counts["examples"] += len(pairs.keys)
        columns = (rng.fold_in(pairs.keys, _ORDER), *pairs[1:])
        for rank, first, second, label in zip(*(each.tolist() for each in columns), strict=True):
            features = {
                "segment_a": passages.ids[slice(*first)].tolist(),
                "segment_b": passages.ids[slice(*second)].tolist(),
                "next_sentence_labels": [label],
            }
            yield rank, encode(features)


def as_passages(
    keys: Sequence[int],
    sizes: Sequence[int],
    sentences: Sequence[np.ndarray],
    word_starts: np.ndarray,
    longest: int,
    counts: Counter[str],
) -> Passages:
    """Collects the tokens of documents in arrays.

    Args:
        keys: a key for each document. Documents without tokens are dropped.
        sizes: number of sentences in each document.
        sentences: the tokens of every sentence, as int32 arrays.
        word_starts: bool `[V]`, whether a token begins a word.
        longest: maximum number of tokens in a sentence. A longer sentence is split into several,
            between words if possible.
        counts: receives `tokens`, `empty_documents`, and `long_sentences`.
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
    used = np.array(keys, np.uint64)[filled > 0]
    return _cut_sentences(Passages(used, ids, starts, bounds, documents), longest, counts)


def _cut_sentences(whole: Passages, longest: int, counts: Counter[str]) -> Passages:
    """Cuts sentences longer than `longest` tokens."""
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
