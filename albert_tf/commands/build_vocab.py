"""`albert-tf build-vocab`"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albert_tf.commands.corpus_options import add_corpus_options, add_option, corpus_options
from albert_tf.errors import UserError

SUMMARY = "train a vocabulary on text of your own"
EXAMPLES = """examples:
  albert-tf build-vocab --input 'wiki/**/*.txt.gz' --output spiece.model
  albert-tf build-vocab --input dump.jsonl --language de --cased --vocab-size 50000 \\
      --output german.model

A SentencePiece model with the settings of ALBERT's own: unigram, <pad> <unk> [CLS] [SEP] [MASK] as
the first five pieces, then ( ) " - . – £ € as pieces of their own. Lower-casing and the removal of
accents are built into the file, so that every SentencePiece runtime reads raw text with it.

All of the input is read, and a sample of passages drawn from it that depends on the seed alone; the
same input, options and seed give the same file.
"""
SAMPLE_BYTES = 40_000_000  # 21 times as much is SentencePiece's peak: below 1 GB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `build-vocab`; their defaults are the original's settings."""
    from albert_tf.text.vocabulary import CHARACTER_COVERAGE, THREADS

    add_corpus_options(parser)
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help="vocabulary to write"
    )
    add_option(
        parser,
        "--vocab-size",
        type=int,
        default=30_000,
        help="pieces; fewer are made if the text has no more. Default: %(default)s",
    )
    parser.add_argument("--cased", action="store_true", help="tell capitals from small letters")
    add_option(parser, "--keep-accents", action="store_true", help="tell é from e")
    add_option(
        parser,
        "--character-coverage",
        type=float,
        default=CHARACTER_COVERAGE,
        help="share of the text whose characters get a piece. Default: %(default)s",
    )
    add_option(
        parser,
        "--sample-bytes",
        type=int,
        default=SAMPLE_BYTES,
        help="text to train on; takes 21 times as much memory. Default: %(default)s",
    )
    parser.add_argument("--seed", type=int, default=12345, help="default: %(default)s")
    parser.add_argument(
        "--threads",
        type=int,
        default=THREADS,
        help="another number may round otherwise and so give another vocabulary. "
        "Default: %(default)s, on any machine",
    )
    parser.add_argument("--force", action="store_true", help="replace what is there")


def run(options: argparse.Namespace) -> int:
    """Reads, draws, trains and writes; prints a line about each."""
    from albert_tf.data.corpus.files import find_inputs, is_remote
    from albert_tf.files import check_apart, written_atomically
    from albert_tf.text.vocabulary import train_vocabulary

    output = options.output.expanduser()
    with written_atomically(output, force=options.force) as path:
        files = find_inputs(options.input)
        for file in files:
            if not is_remote(file.path):
                check_apart(file.path, output)
        model = train_vocabulary(
            _sentences(files, options),
            options.vocab_size,
            lower_case=not options.cased,
            keep_accents=options.keep_accents,
            character_coverage=options.character_coverage,
            max_sentences=0,
            threads=options.threads,
        )
        path.write_bytes(model)
    print(_made(output, model))
    return 0


def _sentences(files: list[Any], options: argparse.Namespace) -> Iterator[str]:
    """The sentences of a sample, which gets shorter as they are taken."""
    from collections import Counter

    from albert_tf.data.corpus.sample import sample
    from albert_tf.data.corpus.sentences import sentence_splitter, sentences

    corpus = corpus_options(options)
    split = sentence_splitter(options.sentence_splitter, corpus.language)
    counts: Counter[str] = Counter()
    drawn = sample(files, corpus, options.sample_bytes, options.seed, counts)
    size = sum(len(passage.text) for passage in drawn)
    bad = counts["bad_lines"]
    skipped = f", {_number(bad, 'bad line')} skipped" if bad else ""
    print(f"read     {_number(len(files), 'file')}, {counts['bytes']:,} bytes of text{skipped}")
    print(f"sampled  {_number(len(drawn), 'passage')}, {size:,} bytes", flush=True)
    if not drawn:
        raise UserError(
            "A vocabulary needs text. Received: "
            f"{_number(len(files), 'file')} with {counts['bytes']:,} bytes of it, and "
            f"--sample-bytes {options.sample_bytes}. Give more of either."
        )
    while drawn:
        yield from sentences(drawn.pop(), corpus, split)


def _made(output: Path, model: bytes) -> str:
    import hashlib

    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    digest = hashlib.sha256(model).hexdigest()
    return f"made     {output}, {pieces:,} pieces, sha256 {digest[:12]}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
