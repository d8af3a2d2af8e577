"""How well a batch of pretraining examples is mixed: neighbours from one document, from one book.

    python benchmarks/mixing.py --input books/*.txt.gz --vocab spiece.model \\
        [--batch-size 256] [--max-seq-length 128] [--words 2000] [--build-data "--workers 2"] \\
        [--output DIR]

Cuts each book into documents of about --words words, runs `albert-tf build-data` on them (a file
for each book), and reads one epoch with `pretraining_batches`. An example's document is found by
its pieces. It prints the share of examples with another one of their document in the batch, and the
share of pairs in a batch that are from one document and from one book, beside the same numbers for
the same examples in a random order. With --output the records stay, and are not built again.
"""

import argparse
import gzip
import re
import shlex
import tempfile
from pathlib import Path

import numpy as np

from albert_tf.cli import main as albert_tf
from albert_tf.data.pretraining.batches import pretraining_batches
from albert_tf.data.pretraining.sources import find_records
from albert_tf.text.tokenizer import AlbertTokenizer

GRAM = 8  # pieces in a row that identify a document


def documents_of(path, words):
    """Lists of sentences, each of about `words` words."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        text = " ".join(file.read().split())
    found, size = [[]], 0
    for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", text):
        found[-1].append(sentence)
        size += sentence.count(" ") + 1
        if size > words:
            found, size = [*found, []], 0
    return [document for document in found if document]


def build(books, folder, output, options):
    """Runs build-data on a file for each book."""
    for number, book in enumerate(books):
        text = "\n\n".join("\n".join(document) for document in book)
        Path(folder, f"{number:03d}.txt").write_text(text + "\n", encoding="utf-8")
    command = f"build-data --input {folder}/*.txt --lines sentences --output {output} "
    command += f"--vocab {options.vocab} --max-seq-length {options.max_seq_length} "
    if albert_tf(shlex.split(command + options.build_data)):
        raise SystemExit("build-data failed.")


def grams(pieces):
    """uint64: a hash of each GRAM pieces in a row."""
    pieces = np.asarray(pieces, np.uint64)
    result = np.zeros(max(0, len(pieces) - GRAM + 1), np.uint64)
    for place in range(GRAM):
        result = result * np.uint64(1_000_003) + pieces[place : place + len(result)]
    return result


class Sources:
    """Finds the document of a row of pieces, by grams that occur in one document alone."""

    def __init__(self, documents):
        hashes = [np.unique(grams(pieces)) for pieces in documents]
        numbers = np.repeat(np.arange(len(hashes)), [len(each) for each in hashes])
        found, first, counts = np.unique(
            np.concatenate(hashes), return_index=True, return_counts=True
        )
        self.hashes, self.numbers = found[counts == 1], numbers[first[counts == 1]]

    def find(self, pieces):
        """The document's number, or -1."""
        wanted = grams(pieces)
        places = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        votes = self.numbers[places[self.hashes[places] == wanted]]
        return np.bincount(votes).argmax() if len(votes) else -1


def order_read(folder, sources, options):
    """int `[batches, B]`: the document of each example of an epoch."""
    files = find_records(folder)
    result = []
    batches = pretraining_batches(files, options.batch_size, seed=1)
    for inputs, labels in batches.take(files.steps_per_epoch(options.batch_size)):
        ids, lengths = inputs["input_ids"].numpy(), inputs["attention_mask"].numpy().sum(1)
        positions, pieces = inputs["masked_lm_positions"].numpy(), labels["labels"].numpy()
        for row in range(len(ids)):
            known = pieces[row] >= 0
            ids[row, positions[row][known]] = pieces[row][known]
        result.append([sources.find(row[:end]) for row, end in zip(ids, lengths, strict=True)])
    return len(files.paths), np.array(result)


def shares(documents, books):
    """Returns the shares of examples with another of their document, and of pairs of one document
    and of one book.
    """
    found = [np.unique(batch, return_counts=True)[1] for batch in documents]
    with_other = np.mean([(counts[counts > 1]).sum() / counts.sum() for counts in found])
    return with_other, same_pairs(documents), same_pairs(books[documents])


def same_pairs(batches):
    counts = [np.unique(batch, return_counts=True)[1] for batch in batches]
    size = batches.shape[1]
    return np.mean([(each * (each - 1)).sum() for each in counts]) / (size * (size - 1))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", type=Path, required=True, help="books")
    parser.add_argument("--vocab", required=True, help="spiece.model")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--max-seq-length", type=int, default=128)
    parser.add_argument("--words", type=int, default=2000, help="words of a document")
    parser.add_argument("--build-data", default="", help="further options of build-data")
    parser.add_argument("--output", help="folder for the records; default: a temporary one")
    return parser.parse_args()


def main():
    options = arguments()
    books = [documents_of(path, options.words) for path in sorted(options.input)]
    with tempfile.TemporaryDirectory() as scratch:
        output = options.output or f"{scratch}/out"
        if not Path(output, "manifest.json").exists():
            build(books, Path(scratch), output, options)
        tokenizer = AlbertTokenizer.from_pretrained(output)
        encoded = [
            np.concatenate(tokenizer.encode_plain(document)) for book in books for document in book
        ]
        files, found = order_read(output, Sources(encoded), options)
    book_of = np.repeat(np.arange(len(books)), [len(book) for book in books])
    print(
        f"{len(books)} books, {len(book_of)} documents, {found.size} examples in {files} files; "
        f"{(found < 0).mean():.2%} of no known document; batches of {options.batch_size}"
    )
    shuffled = np.random.default_rng(0).permutation(found.ravel()).reshape(found.shape)
    for name, order in (("as read", found), ("random order", shuffled)):
        with_other, document, book = shares(order, book_of)
        print(
            f"{name:13} {with_other:.1%} of examples with another of their document; pairs of one "
            f"document {document:.3%}, of one book {book:.2%}"
        )


if __name__ == "__main__":
    main()
