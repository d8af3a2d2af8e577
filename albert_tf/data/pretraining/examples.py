"""Documents to records: the same function for every engine, on one machine and on many."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from albert_tf.data.corpus.documents import Document
from albert_tf.data.pretraining import draws
from albert_tf.data.pretraining.masking import Masked, Rows, draw, mask
from albert_tf.data.pretraining.options import SPECIAL_COUNT, ExampleOptions
from albert_tf.data.pretraining.pairs import Pairs, make_pairs, swapped
from albert_tf.data.pretraining.passages import Passages, as_passages
from albert_tf.data.pretraining.records import encode, encode_rows
from albert_tf.data.pretraining.rows import laid_out
from albert_tf.data.pretraining.words import word_table
from albert_tf.text.base_tokenizer import BaseTokenizer

BATCH: Final = 512  # rows that are masked side by side; what comes out doesn't depend on it
_ORDER: Final = 32  # a stream of draws


class ExampleMaker:
    """Makes the records of documents, each a pure function of the document and the options.

    With `pair_task="nsp"` second segments come from the other documents that are read together.

    Args:
        tokenizer: cuts sentences into pieces.
        options: what an example is.
        sentences: cuts a document into sentences.
    """

    def __init__(
        self,
        tokenizer: BaseTokenizer,
        options: ExampleOptions,
        sentences: Callable[[Document], list[str]],
    ):
        self.tokenizer, self.options, self.sentences = tokenizer, options, sentences
        self.table = word_table(tokenizer)

    def read(self, documents: Sequence[Document], counts: Counter[str]) -> Passages:
        """Documents as pieces.

        Args:
            counts: gets `sentences`, `tokens`, `long_sentences`, `empty_documents`.
        """
        seed = self.options.random_seed
        keys = [draws.key(seed, document.source, document.offset) for document in documents]
        sentences = [self.sentences(document) for document in documents]
        counts["sentences"] += sum(map(len, sentences))
        return as_passages(
            keys,
            [len(one) for one in sentences],
            self.tokenizer.encode_plain([each for one in sentences for each in one]),
            self.table.starts,
            self.options.max_seq_length - SPECIAL_COUNT,
            counts,
        )

    def records(
        self, given: Passages, copy: int, counts: Counter[str]
    ) -> Iterator[tuple[int, bytes]]:
        """The records of passages, in the order of the text.

        Args:
            copy: number of the copy, from 0; each has draws of its own.
            counts: gets `examples`, `single_words`; in static mode `masked` too.
        Yields:
            A number that tells a record's place among shuffled ones, and a `tf.train.Example`.
        """
        given = given._replace(keys=draws.child(given.keys, copy))
        pairs = make_pairs(given, self.options, counts)
        ranks = draws.child(pairs.keys, _ORDER).tolist()
        counts["examples"] += len(ranks)
        encoded = self._masked if self.options.mode == "static" else _segments
        for start in range(0, len(ranks), BATCH):
            part = pairs.part(start, start + BATCH)
            records = encoded(part, given.ids, counts)
            yield from zip(ranks[start : start + BATCH], records, strict=True)

    def _masked(self, pairs: Pairs, ids: np.ndarray, counts: Counter[str]) -> Iterator[bytes]:
        if self.options.pair_task == "sop":
            pairs = swapped(pairs)
        length = self.options.max_seq_length
        rows = laid_out(pairs, ids, self.table, length)
        masked = mask(rows, draw(pairs.keys), self.table, self.options)
        counts["masked"] += int(masked.counts.sum())
        return encode_rows(static_features(rows, masked, pairs.labels, self.table.starts))


def _segments(pairs: Pairs, ids: np.ndarray, counts: Counter[str]) -> Iterator[bytes]:
    """Records that are masked when they are read: segments in the text's order."""
    for first, second, label in zip(*(array.tolist() for array in pairs[1:]), strict=True):
        yield encode(
            {
                "segment_a": ids[slice(*first)].tolist(),
                "segment_b": ids[slice(*second)].tolist(),
                "next_sentence_labels": [label],
            }
        )


def static_features(
    rows: Rows, masked: Masked, labels: np.ndarray, word_starts: np.ndarray
) -> dict[str, np.ndarray]:
    """Features of masked records, under the original's names: `[R, T]`, `[R, P]` and `[R, 1]`."""
    at = np.arange(rows.ids.shape[1])
    inside = at < rows.lengths[:, None]
    segments = inside & (at >= rows.first[:, None])
    special = (at == 0) | (at == rows.first[:, None] - 1) | (at == rows.lengths[:, None] - 1)
    begins = special | (inside & word_starts[rows.ids])
    weights = np.arange(masked.positions.shape[1]) < masked.counts[:, None]
    return {
        "input_ids": masked.ids,
        "input_mask": inside,
        "segment_ids": segments,
        "token_boundary": begins,
        "masked_lm_positions": masked.positions,
        "masked_lm_ids": masked.labels,
        "masked_lm_weights": weights.astype(float),
        "next_sentence_labels": labels[:, None],
    }
