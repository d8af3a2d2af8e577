"""Compares the speed of `albert-tf build-data` with the original's algorithm: interleaved medians.

    python benchmarks/pretraining_data.py --input books/ --vocab spiece.model \\
        [--max-seq-length 512] [--copies 10] [--original-mb 1] [--mb 100] [--rounds 3]

The original's algorithm is original_pretraining_data.py, written from create_pretraining_data.py:
one process, including tokenizing and serializing (with albert_tf's serializer; its own is slower).
It gets the first --original-mb of albert_tf's text. Both read the same kind of file: a sentence a
line, a blank line between documents. A speed is text per second for one masked copy and for
--copies; the original makes 40 by default. The last table divides the time of one process by step.
"""

import argparse
import collections
import contextlib
import dataclasses
import functools
import itertools
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy
import sentencepiece
from original_pretraining_data import Original, features, tokenized

from albert_tf.data.corpus.documents import SENTENCEX, CorpusOptions, documents, splits
from albert_tf.data.corpus.files import find_inputs
from albert_tf.data.corpus.sentences import sentence_splitter, sentences
from albert_tf.data.jobs.job import SHARD_BYTES, make_job
from albert_tf.data.jobs.local import map_in_processes
from albert_tf.data.jobs.run import run_job
from albert_tf.data.pretraining import examples
from albert_tf.data.pretraining.masking import as_rows, mask
from albert_tf.data.pretraining.options import SPECIAL_COUNT, BuildDataOptions, ExampleOptions
from albert_tf.data.pretraining.pairs import make_pairs, swapped
from albert_tf.data.pretraining.records import encode, encode_rows, frame
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import Normalization, bake_file

MEGABYTE = 10**6


def write_sentences(inputs, path, size):
    """Writes `size` bytes of documents, a sentence a line; returns the bytes written."""
    options, split = CorpusOptions(), sentence_splitter(SENTENCEX, "en")
    parts = itertools.cycle(splits(find_inputs(inputs), SHARD_BYTES))
    found = (one for part in parts for one in documents(part, options, collections.Counter()))
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            file.write("\n".join(sentences(next(found), options, split)) + "\n\n")
    return path.stat().st_size


def original(text, output, vocab, flags):
    """Returns the seconds of the original's algorithm."""
    start = time.perf_counter()
    processor = sentencepiece.SentencePieceProcessor(model_file=vocab)
    ids = {processor.id_to_piece(number): number for number in range(processor.get_piece_size())}
    normalization = Normalization(lower_case=True, keep_accents=False, quotes="original")
    with text.open(encoding="utf-8") as lines:
        read = tokenized(lines, processor, normalization)
    made = Original(list(ids), **flags).examples(read)
    unknown = collections.defaultdict(lambda: 1, ids)
    with output.open("wb") as file:
        for example in made:
            file.write(frame(encode(features(example, unknown, flags))))
    return time.perf_counter() - start


def ours(text, folder, vocab, options, workers):
    """Returns the seconds of a job, from starting processes to the manifest."""
    start = time.perf_counter()
    asked = BuildDataOptions(
        input=(str(text),),
        output=str(folder),
        vocab=vocab,
        lines="sentences",
        **dataclasses.asdict(options),
    )
    job = make_job(asked)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        run_job(job, functools.partial(map_in_processes, workers=workers))
    return time.perf_counter() - start


def stages(text, vocab, options):
    """Returns the seconds of each step for all documents, in one process."""
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
            for part in splits(find_inputs([str(text)]), SHARD_BYTES)
            for document in documents(part, corpus, counts)
        ]

    tokenizer = AlbertTokenizer.from_pretrained(vocab)
    maker = examples.ExampleMaker(tokenizer, options, None)
    split = functools.partial(
        sentences, options=corpus, split=sentence_splitter(SENTENCEX, corpus.language)
    )
    found = timed("documents", read)
    cut = timed("sentences", lambda: [split(document) for document in found])
    flat = [sentence for one in cut for sentence in one]
    pieces = timed("pieces", tokenizer.encode_plain, flat)
    keys, sizes = list(range(len(cut))), [len(one) for one in cut]
    room = options.max_seq_length - SPECIAL_COUNT
    whole = examples.as_passages(keys, sizes, pieces, maker.table.starts, room, counts)
    pairs = timed("pairs", lambda: swapped(make_pairs(whole, options, counts)))
    times["masks"] = times["records"] = 0.0
    for start in range(0, len(pairs.keys), examples.BATCH):
        before = time.perf_counter()
        part = pairs.part(start, start + examples.BATCH)
        rows = as_rows(part, whole.ids, maker.table, options.max_seq_length)
        masked = mask(rows, part.keys, maker.table, options)
        between = time.perf_counter()
        given = examples.static_features(rows, masked, part.labels, maker.table.starts)
        for record in encode_rows(given):
            frame(record)
        times["masks"] += between - before
        times["records"] += time.perf_counter() - between
    return times


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", required=True, help="text: files or folders")
    parser.add_argument("--vocab", required=True, help="spiece.model as published")
    parser.add_argument("--max-seq-length", type=int, default=512)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--original-mb", type=float, default=1.0)
    parser.add_argument("--mb", type=float, default=100.0)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def main():
    options = arguments()
    length = options.max_seq_length
    flags = {
        "max_seq_length": length,
        "max_predictions_per_seq": round(0.15 * length),
        "masked_lm_prob": 0.15,
        "short_seq_prob": 0.1,
        "ngram": 3,
        "favor_shorter_ngram": True,
        "do_whole_word_mask": True,
        "random_seed": 12345,
        "dupe_factor": 1,
    }
    one = ExampleOptions(mode="static", **flags)
    several = dataclasses.replace(one, dupe_factor=options.copies)
    dynamic = dataclasses.replace(one, mode="dynamic")
    print(
        f"Python {platform.python_version()}, NumPy {numpy.__version__}, sentencepiece "
        f"{sentencepiece.__version__}, {os.cpu_count()} cores; sequences of {length}",
        flush=True,
    )
    speeds = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        few, many, fewer = folder / "few.txt", folder / "many.txt", folder / "fewer.txt"
        vocab = folder / "spiece.model"
        bake_file(options.vocab, vocab)
        few_bytes = write_sentences(options.input, few, options.original_mb * MEGABYTE)
        many_bytes = write_sentences(options.input, many, options.mb * MEGABYTE)
        fewer_bytes = write_sentences(options.input, fewer, options.mb / options.copies * MEGABYTE)
        copies = f"{options.copies} copies"
        for number in range(options.rounds):
            for name, count in (("1 copy", 1), (copies, options.copies)):
                given = {**flags, "dupe_factor": count}
                seconds = original(few, folder / "original.tfrecord", options.vocab, given)
                speeds["the original's algorithm", name].append(few_bytes / seconds)
            for name, chosen, text, size, workers in (
                ("static, 1 process", one, many, many_bytes, 1),
                ("static, 2 processes", one, many, many_bytes, 2),
                ("static, 1 process", several, fewer, fewer_bytes, 1),
                ("dynamic, 1 process", dynamic, many, many_bytes, 1),
            ):
                count = copies if chosen is several else "1 copy"
                place = folder / f"{name}-{count}-{number}"
                seconds = ours(text, place, str(vocab), chosen, workers)
                speeds[name, count].append(size / seconds)
                shutil.rmtree(place)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for (name, count), values in speeds.items():
            median = statistics.median(values)
            base = statistics.median(speeds["the original's algorithm", count])
            spread = f"{min(values) / MEGABYTE:.2f} to {max(values) / MEGABYTE:.2f}"
            print(
                f"{name:26} {count:10} {median / MEGABYTE:6.2f} MB/s ({spread}), "
                f"{median / base:5.1f} times the original's"
            )
        times = stages(fewer, options.vocab, one)
        print("where the time of one process goes:")
        for name, seconds in times.items():
            speed = fewer_bytes / seconds / MEGABYTE
            print(f"{name:12} {seconds / sum(times.values()):4.0%}  {speed:7.1f} MB/s")


if __name__ == "__main__":
    main()
