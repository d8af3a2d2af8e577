"""`albert-tf build-vocab`"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from albert_tf.data.corpus.documents import CorpusInput, CorpusOptions
from albert_tf.errors import UserError
from albert_tf.options import CHARACTER_COVERAGE, VOCABULARY, Range, option, part

SUMMARY = "train a vocabulary on your own text"
EXAMPLES = """examples:
  albert-tf build-vocab --input 'wiki/**/*.txt.gz' --output spiece.model
  albert-tf build-vocab --input dump.jsonl --language de --cased --vocab-size 50000 \\
      --output german.model
  albert-tf build-vocab --input haber.txt --language tr --accents keep --output turkish.model

Writes a SentencePiece model with the settings of ALBERT's: unigram, the first five pieces <pad>
<unk> [CLS] [SEP] [MASK], then the pieces ( ) " - . – £ €. Lower-casing and the removal of accents
are built into the file, so that every SentencePiece runtime reads raw text with it.

Dropping accents also drops the virama of Hindi, the tone marks of Thai, and the difference between
カ and ガ, и and й. By default accents stay if one word in 400 of the sample has one; the command
prints how many it would change without them, and which ones would become the same.

Reads all input, and draws a sample of passages. The same input and options give the same file.
"""
# Share of words with an accent: .0002 in English, .001 in English novels, .004 in Dutch and .01 or
# more in each of 36 other languages that are written with accents (docs/languages.md).
WITH_ACCENTS: Final = 1 / 400
SEED: Final = 12345  # of the sample
_TURKISH_I: Final = ("tr", "az")  # Unicode's SpecialCasing.txt


@dataclass(frozen=True, kw_only=True)
class OPTIONS(CorpusInput):
    """The options of `albert-tf build-vocab`; defaults are the settings of ALBERT's vocabulary."""

    output: Path = option(help="vocabulary to write", metavar="FILE")
    vocab_size: int = option(30_000, help="pieces; fewer if the text has no more", range=VOCABULARY)
    cased: bool = option(False, help="keep upper and lower case distinct")
    accents: Literal["auto", "keep", "drop"] = option(
        "auto",
        help="keep accents, or drop them (é becomes e); auto keeps them if one word in 400 has one",
    )
    character_coverage: float = option(
        CHARACTER_COVERAGE,
        help="share of the text whose characters get a piece",
        range=Range(minimum=0.98, maximum=1),  # SentencePiece's own bounds
    )
    sample_bytes: int = option(
        40_000_000,  # SentencePiece's peak stays below 1 GB.
        help="bytes of text to train on; takes 21 times as much memory",
        range=Range(minimum=1, maximum=2**50),
    )
    force: bool = option(False, help="replace an existing file")

    @property
    def turkish_i(self) -> bool:
        """Whether I becomes ı in lower case."""
        return not self.cased and re.split("[-_]", self.language.lower())[0] in _TURKISH_I

    @property
    def reads_language(self) -> bool:
        """Whether another language may change the result."""
        return super().reads_language or self.turkish_i


def run(options: OPTIONS) -> int:
    """Samples the corpus, trains and writes the vocabulary; prints a line about each step."""
    from albert_tf.data.corpus.files import is_remote
    from albert_tf.files import check_apart, written_atomically
    from albert_tf.text.vocabulary import train_vocabulary

    with written_atomically(options.output, force=options.force) as path:
        files = options.files()
        for file in files:
            if not is_remote(file.path):
                check_apart(file.path, options.output)
        drawn = _sample(files, options)
        model = train_vocabulary(
            _sentences(drawn, options),
            options.vocab_size,
            lower_case=not options.cased,
            keep_accents=_keep_accents(drawn, options),
            turkish_i=options.turkish_i,
            character_coverage=options.character_coverage,
            max_sentences=0,
        )
        path.write_bytes(model)
    _print_result(options, model)
    return 0


def _sample(files: list[Any], options: OPTIONS) -> list[Any]:
    """Draws passages from the corpus, and prints how much was read and drawn."""
    from collections import Counter

    from albert_tf.data.corpus.documents import sample

    counts: Counter[str] = Counter()
    corpus = part(CorpusOptions, options)
    drawn = sample(files, corpus, options.sample_bytes, SEED, counts)
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
    return drawn


def _keep_accents(drawn: list[Any], options: OPTIONS) -> bool:
    """Decides whether to keep accents; prints how many words lose a difference."""
    from collections import Counter

    from albert_tf.text.scripts import merge_statistics, words
    from albert_tf.text.vocabulary import Normalization

    counts: Counter[str] = Counter()
    for passage in drawn:
        counts.update(words(passage.text.decode()))
    as_written = Normalization(lower_case=False, keep_accents=True)
    accented = Normalization(not options.cased, keep_accents=True, turkish_i=options.turkish_i)
    plain = Normalization(not options.cased, turkish_i=options.turkish_i)
    accents = merge_statistics(counts, accented, plain)
    case = merge_statistics(counts, as_written, accented)
    keep = options.accents == "keep"
    if options.accents == "auto":
        keep = accents.changed >= WITH_ACCENTS
    print(f"accents  {'kept; dropping them' if keep else 'dropped, which'} {_described(accents)}")
    if not options.cased:
        print(f"case     lower-cased, which {_described(case)}", flush=True)
    return keep


def _described(found: Any) -> str:
    """Describes which words change or merge, and the most frequent that merge."""
    examples = "; ".join(", ".join(group) for group in found.examples)
    shares = f"changes {found.changed:.2%} of the words and merges {found.merged:.2%}"
    return shares + (f" ({examples})" if examples else "")


def _sentences(drawn: list[Any], options: OPTIONS) -> Iterator[str]:
    """Yields the sentences of a sample, and frees each passage."""
    from albert_tf.data.corpus.documents import sentence_splitter, sentences

    corpus = part(CorpusOptions, options)
    split = sentence_splitter(options.sentence_splitter, corpus.language)
    while drawn:
        yield from sentences(drawn.pop(), corpus, split)


def _print_result(options: OPTIONS, model: bytes) -> None:
    """Prints the size of the vocabulary, and whether the text was too small for more pieces."""
    import hashlib

    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    digest = hashlib.sha256(model).hexdigest()
    print(f"made     {options.output}, {pieces:,} pieces, sha256 {digest[:12]}")
    if pieces < options.vocab_size:
        print(
            f"note     the text supports only {pieces:,} of the {options.vocab_size:,} pieces; add "
            "more text for a larger vocabulary"
        )


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
