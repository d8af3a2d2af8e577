"""Compares the speed of `albert-tf build-data` with the original's algorithm.

    python -m benchmarks.pretraining_data --input books/ --vocab spiece.model \\
        [--max-seq-length 512] [--original-mb 1] [--mb 100] [--rounds 3]

The original's algorithm is original_pretraining_data.py, a reimplementation of
create_pretraining_data.py. It runs in one process, and its time includes tokenizing and serializing
(with albert_tf's serializer, because its own is slower). It reads the first --original-mb MB of the
same text, with one sentence per line and a blank line between documents. The original masks one
copy (of 40 by default) while it writes, and albert_tf masks later. The last table splits the time
of one process by step.
"""

import collections
import itertools
import os
import tempfile
import time
from functools import partial
from pathlib import Path

import sentencepiece

from albert_tf.data.corpus.documents import documents, splits
from albert_tf.data.corpus.files import find_inputs
from albert_tf.data.corpus.options import SENTENCEX, CorpusOptions
from albert_tf.data.corpus.sentences import sentence_splitter
from albert_tf.data.jobs.job import SHARD_BYTES, make_job
from albert_tf.data.jobs.local import map_in_processes
from albert_tf.data.jobs.run import run_job
from albert_tf.data.pretraining import examples
from albert_tf.data.pretraining.masking import word_table
from albert_tf.data.pretraining.options import SPECIAL_COUNT, BuildDataOptions, ExampleOptions
from albert_tf.data.pretraining.pairs import make_pairs
from albert_tf.data.pretraining.records import encode, frame
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import Normalization, bake_file
from benchmarks import harness
from benchmarks.original_pretraining_data import Original, features, tokenized

PACKAGES = ("numpy", "sentencepiece")
MEGABYTE = 10**6


def write_sentences(inputs, path, size):
    """Writes `size` bytes of documents, one sentence per line."""
    options = CorpusOptions()
    sentences = sentence_splitter(SENTENCEX, options)
    parts = itertools.cycle(splits(find_inputs(inputs), SHARD_BYTES))
    found = (one for part in parts for one in documents(part, options, collections.Counter()))
    with open(path, "w", encoding="utf-8") as file:
        while file.tell() < size:
            file.write("\n".join(sentences(next(found))) + "\n\n")


def original(text, vocab, flags):
    """Returns the MB/s of the original's algorithm."""
    flags = {**flags, "dupe_factor": 1}
    start = time.perf_counter()
    processor = sentencepiece.SentencePieceProcessor(model_file=vocab)
    ids = {processor.id_to_piece(number): number for number in range(processor.get_piece_size())}
    normalization = Normalization(lower_case=True, keep_accents=False, quotes="original")
    with open(text, encoding="utf-8") as lines:
        read = tokenized(lines, processor, normalization)
    made = Original(list(ids), **flags).examples(read)
    unknown = collections.defaultdict(lambda: 1, ids)
    with tempfile.TemporaryFile() as file:
        for example in made:
            file.write(frame(encode(features(example, unknown, flags))))
    return os.path.getsize(text) / MEGABYTE / (time.perf_counter() - start)


def ours(text, vocab, flags, workers):
    """Returns the MB/s of a job, from the start of the processes to the manifest."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        options = BuildDataOptions(
            input=(text,), output=folder, vocab=vocab, lines="sentences", **flags
        )
        run_job(make_job(options), partial(map_in_processes, workers=workers))
        return os.path.getsize(text) / MEGABYTE / (time.perf_counter() - start)


def stages(text, vocab, flags):
    """Returns the seconds that each step takes for all documents in one process."""
    options = ExampleOptions(**flags)
    corpus, counts = CorpusOptions(lines="sentences"), collections.Counter()
    times = {}

    def timed(name, function, *arguments):
        start = time.perf_counter()
        result = function(*arguments)
        times[name] = time.perf_counter() - start
        return result

    def read():
        return [
            document
            for part in splits(find_inputs([text]), SHARD_BYTES)
            for document in documents(part, corpus, counts)
        ]

    tokenizer = AlbertTokenizer.from_pretrained(vocab)
    maker = examples.ExampleMaker(tokenizer, word_table(tokenizer), options, None)
    split = sentence_splitter(SENTENCEX, corpus)
    found = timed("documents", read)
    cut = timed("sentences", lambda: [split(document) for document in found])
    flat = [sentence for one in cut for sentence in one]
    pieces = timed("pieces", tokenizer.encode_plain, flat)
    keys, sizes = list(range(len(cut))), [len(one) for one in cut]
    room = options.max_seq_length - SPECIAL_COUNT
    whole = examples.as_passages(keys, sizes, pieces, maker.table.starts, room, counts)
    timed("pairs", make_pairs, whole, options, counts)
    timed("pairs and records", lambda: [*map(frame, dict(maker.records(whole, counts)).values())])
    times["records"] = times.pop("pairs and records") - times["pairs"]
    return times


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--input", nargs="+", required=True, help="text: files or folders")
    parser.add_argument("--vocab", required=True, help="spiece.model as published")
    parser.add_argument("--max-seq-length", type=int, default=512)
    parser.add_argument("--original-mb", type=float, default=1.0)
    parser.add_argument("--mb", type=float, default=100.0)
    options = parser.parse_args()
    flags = {
        "max_seq_length": options.max_seq_length,
        "max_predictions_per_seq": round(0.15 * options.max_seq_length),
        "masked_lm_prob": 0.15,
        "short_seq_prob": 0.1,
        "ngram": 3,
        "favor_shorter_ngram": True,
        "do_whole_word_mask": True,
        "random_seed": 12345,
    }
    with tempfile.TemporaryDirectory() as scratch:
        few, many = (f"{scratch}/{name}.txt" for name in ("few", "many"))
        vocab = f"{scratch}/spiece.model"
        bake_file(options.vocab, Path(vocab))
        write_sentences(options.input, few, options.original_mb * MEGABYTE)
        write_sentences(options.input, many, options.mb * MEGABYTE)
        theirs = "the original's algorithm"
        cases = {
            theirs: (original, few, options.vocab, flags),
            "1 process": (ours, many, vocab, flags, 1),
            "2 processes": (ours, many, vocab, flags, 2),
        }
        cases = {name: partial(harness.fresh, *case) for name, case in cases.items()}
        rounds = harness.take_turns(cases, options.rounds)
        times = harness.fresh(stages, many, options.vocab, flags)
        size = os.path.getsize(many) / MEGABYTE

    def row(name, speeds):
        if isinstance(speeds, str):
            return [name, speeds]
        speed, base = harness.medians(speeds), rounds[theirs]
        ratio = "" if isinstance(base, str) else f"{speed / harness.medians(base):.1f}"
        return [name, f"{speed:.2f} ({min(speeds):.2f} to {max(speeds):.2f})", ratio]

    rows = [row(name, speeds) for name, speeds in rounds.items()]
    shares = [
        [name, f"{seconds / sum(times.values()):.0%}", f"{size / seconds:.1f}"]
        for name, seconds in times.items()
    ]
    tables = [
        harness.table(["", "MB/s", "times the original's"], rows),
        harness.table(["step of one process", "of the time", "MB/s"], shares),
    ]
    harness.report(options, PACKAGES, tables, {**rounds, "steps": times})


if __name__ == "__main__":
    main()
