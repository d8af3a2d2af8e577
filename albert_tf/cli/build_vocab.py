"""`albert-tf build-vocab`"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from albert_tf.data.corpus.options import CorpusInput, CorpusOptions
from albert_tf.errors import UserError
from albert_tf.options import CHARACTER_COVERAGE, VOCABULARY, Range, option, part

SUMMARY = "train a vocabulary on your own text"
EXAMPLES = """examples:
  albert-tf build-vocab --input 'wiki/**/*.txt.gz' --output spiece.model
  albert-tf build-vocab --input dump.jsonl --language de --cased --vocab-size 50000 \\
      --output german.model
  albert-tf build-vocab --input haber.txt --language tr --accents keep --output turkish.model

Writes a SentencePiece model with ALBERT's settings: a unigram model whose first five pieces are
<pad> <unk> [CLS] [SEP] [MASK], followed by ( ) " - . – £ €. The model itself lowercases text and
strips accents, so every SentencePiece runtime can tokenize raw text with it.

Dropping accents also drops the virama in Hindi, the tone marks in Thai, and the difference between
カ and ガ, and between и and й. By default, accents are kept if at least one in 400 words of the
sample has one. The command prints how many words change without accents, and which words would
become the same.

Reads all input and draws a sample of passages. The same input and options produce the same file.
"""
# Fraction of words with an accent: 0.0002 in English, 0.001 in English novels, 0.004 in Dutch, and
# at least 0.01 in each of 36 other languages with accents (docs/languages.md).
WITH_ACCENTS: Final = 1 / 400
SEED: Final = 12345  # for drawing the sample
_TURKISH_I: Final = ("tr", "az")  # Unicode's SpecialCasing.txt


@dataclass(frozen=True, kw_only=True)
class OPTIONS(CorpusInput):
    """The options of `albert-tf build-vocab`, which default to ALBERT's settings."""

    output: Path = option(help="vocabulary file to write", metavar="FILE")
    vocab_size: int = option(
        30_000, help="maximum number of pieces; a short text may yield fewer", range=VOCABULARY
    )
    cased: bool = option(False, help="distinguish upper and lower case")
    accents: Literal["auto", "keep", "drop"] = option(
        "auto",
        help="what to do with accents: keep, drop (é becomes e), or auto, which keeps them if at "
        "least one in 400 words has an accent",
    )
    character_coverage: float = option(
        CHARACTER_COVERAGE,
        help="fraction of the characters in the text that the vocabulary covers",
        range=Range(minimum=0.98, maximum=1),  # SentencePiece's own bounds
    )
    sample_bytes: int = option(
        40_000_000,  # keeps SentencePiece's memory below 1 GB
        help="size of the training sample in bytes; training needs 21 times as much memory",
        range=Range(minimum=1, maximum=2**50),
    )
    force: bool = option(False, help="replace an existing file")

    @property
    def turkish_i(self) -> bool:
        """Whether to lowercase I to ı."""
        return not self.cased and re.split("[-_]", self.language.lower())[0] in _TURKISH_I

    @property
    def reads_language(self) -> bool:
        """Whether the result depends on the language."""
        return super().reads_language or self.turkish_i


def run(options: OPTIONS) -> int:
    """Samples the corpus, then trains and writes the vocabulary; prints a line for each step."""
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
    """Samples passages from the corpus and prints how much text was read and sampled."""
    from albert_tf.data.corpus.documents import sample

    counts: Counter[str] = Counter()
    corpus = part(CorpusOptions, options)
    drawn = sample(files, corpus, options.sample_bytes, SEED, counts)
    size = sum(len(passage.text) for passage in drawn)
    bad = counts["bad_lines"]
    skipped = f", {_counted(bad, 'invalid line')} skipped" if bad else ""
    print(f"read     {_counted(len(files), 'file')}, {counts['bytes']:,} bytes of text{skipped}")
    print(f"sampled  {_counted(len(drawn), 'passage')}, {size:,} bytes", flush=True)
    if not drawn:
        raise UserError(
            f"There is no text to train on: {_counted(len(files), 'file')} with "
            f"{counts['bytes']:,} bytes of text, and --sample-bytes {options.sample_bytes}. "
            "Add text or raise --sample-bytes."
        )
    return drawn


def _keep_accents(drawn: list[Any], options: OPTIONS) -> bool:
    """Decides whether to keep accents and prints the effect of dropping them."""
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
    effect = _description(accents)
    print(f"accents  {'kept; dropping them' if keep else 'dropped, which'} {effect}")
    if not options.cased:
        print(f"case     lowercased, which {_description(case)}", flush=True)
    return keep


def _description(found: Any) -> str:
    """Describes what share of the words changes or merges, with the most frequent merges."""
    examples = "; ".join(", ".join(group) for group in found.examples)
    shares = f"changes {found.changed:.2%} of the words and merges {found.merged:.2%}"
    return shares + (f" ({examples})" if examples else "")


def _sentences(drawn: list[Any], options: OPTIONS) -> Iterator[str]:
    """Yields the sentences of a sample and frees each passage after use."""
    from albert_tf.data.corpus.sentences import sentence_splitter

    sentences = sentence_splitter(options.sentence_splitter, part(CorpusOptions, options))
    while drawn:
        yield from sentences(drawn.pop())


def _print_result(options: OPTIONS, model: bytes) -> None:
    """Prints the size of the vocabulary, and a note if the text was too short for all pieces."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    digest = hashlib.sha256(model).hexdigest()
    print(f"wrote    {options.output}, {pieces:,} pieces, sha256 {digest[:12]}")
    if pieces < options.vocab_size:
        print(
            f"note     the text yields only {pieces:,} of the {options.vocab_size:,} pieces; add "
            "more text for a larger vocabulary"
        )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
