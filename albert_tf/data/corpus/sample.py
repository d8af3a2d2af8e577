"""Draws a sample from a corpus of any size: bounded, seeded, independent of the reading order."""

import dataclasses
import hashlib
import heapq
from collections import Counter
from collections.abc import Sequence

from albert_tf.data.corpus.documents import Document, Split, documents
from albert_tf.data.corpus.files import InputFile
from albert_tf.data.corpus.options import CorpusOptions

PASSAGE = 4096  # bytes at most, a few paragraphs: small beside any sample
SMALLEST = 64  # bytes that a passage counts for at least, since Python takes 300 for any


def sample(
    files: Sequence[InputFile],
    options: CorpusOptions,
    limit: int,
    seed: int,
    counts: Counter[str],
) -> list[Document]:
    """Draws passages from all documents with equal probability; all passages if they are few.

    A passage is a document, or a part of it of at most `PASSAGE` bytes. Its rank depends on the
    seed, its file's name and its place in the file alone; the passages with the lowest ranks stay.

    Args:
        limit: bytes of text in the sample; a passage counts for at least `SMALLEST`.
        counts: gets the counts of `documents`, for passages.
    Returns:
        The sample, sorted by rank.
    Raises:
        UserError: as in `documents`.
    """
    options = dataclasses.replace(options, max_document_bytes=PASSAGE)
    kept: list[tuple[int, Document]] = []  # a heap, the highest rank first
    size, threshold = 0, 1 << 64
    for file in files:
        for document in documents(Split(file, 0, None), options, counts):
            rank = _rank(seed, document)
            if rank >= threshold:
                continue
            heapq.heappush(kept, (-rank, document))
            size += _size(document)
            while size > limit:
                lowest, dropped = heapq.heappop(kept)
                threshold = -lowest  # so that no later, smaller passage takes its place
                size -= _size(dropped)
    return [document for _, document in sorted(kept, reverse=True)]


def _rank(seed: int, document: Document) -> int:
    key = f"{seed}\0{document.source}\0{document.offset}".encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")


def _size(document: Document) -> int:
    return max(len(document.text), SMALLEST)
