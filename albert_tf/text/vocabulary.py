"""SentencePiece vocabularies that normalize raw text themselves: normalization, baking, training.

For the published vocabularies, Python code must first clean the text: it collapses whitespace,
applies NFKD, drops combining characters, and lowercases the text. The SentencePiece model then
applies its own table of rules (`nmt_nfkc`). `compile_rules` merges both steps into one table, so
that every program that loads the model file computes the same pieces from raw text.

The table maps strings regardless of their context. It differs from Python in the two cases in which
Python's result depends on the context:
- `str.lower` turns a capital sigma at the end of a word into `ς`, but the table always writes `σ`.
  The published vocabularies contain neither letter, so ids don't change.
- Hangul letters with an accent between them stay separate. Python drops the accent and composes
  them.

The table has no rules for characters that Python's Unicode version lacked when the table was
compiled. The published vocabularies' table ships with the package.
"""

import functools
import hashlib
import io
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import Any, Final

import sentencepiece

from albert_tf import assets
from albert_tf.errors import UserError, short_repr
from albert_tf.files import written_atomically
from albert_tf.options import (
    CHARACTER_COVERAGE,
    COUNT,
    NOT_NEGATIVE,
    THREADS,
    VOCABULARY,
    Range,
    checks_numbers,
)
from albert_tf.text.model_file import (
    Baked,
    DigitComma,
    ModelProto,
    Quotes,
    Source,
    compile_charsmap,
    describe,
    json_path,
    parse_model,
    read_file,
    rule_normalizer,
)
from albert_tf.text.texts import NO_CHARACTER, as_text
from albert_tf.text.tokens import SPECIAL_IDS, SPECIAL_TOKENS
from albert_tf.text.unigram_json import convert

# SHA-256 of the published vocabularies' own rules. Other models from that time have the same rules.
PUBLISHED_RULES: Final = "0942789e0111452f1cc446f70036e26d24458c3c7858c53cc12ca4d87531279b"
UNASSIGNED = ("Cn", "Co", "Cs")  # unassigned, private use, and surrogates, which have no rules
HANGUL_OPEN = range(0xAC00, 0xD7A4, 28)
HANGUL_FINALS = {chr(point) for point in range(0x11A8, 0x11C3)}
MARGIN = 1.0  # natural-log units; the rounding error of a sum of scores is below 0.01


@dataclass(frozen=True)
class Normalization:
    """The steps that clean raw text before the model's own rules apply; see `bake`.

    With `as_in_json`, the steps are those of a `tokenizer.json`: all marks count as accents, and if
    accents are kept, only the model's own rules compose characters.
    """

    lower_case: bool = True
    keep_accents: bool = False
    quotes: Quotes = "original"
    turkish_i: bool = False
    as_in_json: bool = False

    def __call__(self, text: str) -> str:
        """Applies the steps in Python. Whitespace becomes spaces, which aren't collapsed."""
        text = text if self.as_in_json else re.sub(r"\s", " ", text)
        if self.quotes == "huggingface":
            text = text.replace("``", '"').replace("''", '"')
        if self.turkish_i and self.lower_case:
            text = text.replace("İ", "i").replace("I\u0307", "i").replace("I", "ı")
        if not self.keep_accents:
            text = unicodedata.normalize("NFKD", text)
            is_accent = _is_mark if self.as_in_json else unicodedata.combining
            text = "".join(filterfalse(is_accent, text))
        elif not self.as_in_json:
            text = unicodedata.normalize("NFC", text)
        return lower(text) if self.lower_case else text


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def lower(text: str) -> str:
    """Lowercases each character separately."""
    return "".join(map(str.lower, text))


def rules_for(charsmap: bytes, normalization: Normalization) -> bytes:
    """Returns the compiled rules; for the published models, they are precompiled."""
    is_published = hashlib.sha256(charsmap).hexdigest() == PUBLISHED_RULES
    if is_published and normalization == Normalization():
        return assets.published_rules().read_bytes()
    return compile_rules(charsmap, normalization)


@functools.lru_cache(maxsize=8)  # compiling takes a second, and many models have the same rules
def compile_rules(charsmap: bytes, normalization: Normalization) -> bytes:
    """Merges `normalization` into the `precompiled_charsmap` of a model that isn't baked."""
    model = ModelProto()
    model.normalizer_spec.precompiled_charsmap = charsmap
    own = rule_normalizer(model_proto=model.SerializeToString())
    keys = [key for key, _ in own.Decompile()] if charsmap else []  # "identity" has no rules
    singles = _assigned_characters()
    normalized = _normalize_all(singles, normalization)
    keys += [key for key, text in normalized.items() if key != text]
    keys += _closed_syllables(normalized)
    if normalization.as_in_json:
        keys += [*filter(str.isspace, singles), *map(str.upper, tuple(keys))]
    elif normalization.keep_accents:
        keys += _compositions(singles)
    if normalization.quotes == "huggingface":
        keys += ["``", "''"]
    if normalization.turkish_i:
        keys.append("I\u0307")
    # The compiler is slow for unsorted keys. Unlike a set, a dict keeps the model's order, which is
    # fast to sort.
    cleaned = _normalize_all(sorted(dict.fromkeys(keys)), normalization)
    final = (re.sub(r"\s", " ", text) for text in own.Normalize([*cleaned.values()]))
    return compile_charsmap(zip(cleaned, final, strict=True))


def _normalize_all(texts: Iterable[str], normalization: Normalization) -> dict[str, str]:
    """Returns the normalized form of each text. Texts must not contain NUL."""
    texts = list(texts)
    # A single call is ten times as fast as a call per text, and no step applies across a NUL.
    return dict(zip(texts, normalization("\0".join(texts)).split("\0"), strict=True))


def _assigned_characters() -> set[str]:
    """Returns all characters assigned in Python's version of Unicode."""
    characters = map(chr, range(1, sys.maxunicode + 1))
    return {each for each in characters if unicodedata.category(each) not in UNASSIGNED}


def _compositions(characters: set[str]) -> set[str]:
    """Returns all pairs of a letter and an accent that Unicode composes, such as ơ and dot below.

    SentencePiece's own rules only compose a letter with all of its accents at once.
    """
    canonical = (unicodedata.normalize("NFD", each) for each in characters)
    pairs = (unicodedata.normalize("NFC", each[:-1]) + each[-1] for each in canonical)
    return {pair for pair in pairs if len(pair) == 2}


def _closed_syllables(normalized: dict[str, str]) -> set[str]:
    """Returns every open Hangul syllable, followed by every character that becomes a final."""
    finals = [character for character, result in normalized.items() if result in HANGUL_FINALS]
    return {chr(point) + final for point in HANGUL_OPEN for final in finals}


def demote_digit_comma(model: ModelProto) -> None:
    """Lowers the scores of a model's pieces that end in a digit and a comma.

    google-research/albert encodes such a piece again without the comma. Here, the piece's score is
    set just below the best score of any other way to split the same text, so the search never
    chooses the piece. The score isn't lower than necessary. SentencePiece derives the penalty for
    unknown characters from the lowest score, and a large penalty makes float32 sums over long texts
    imprecise.
    """
    normal = [piece for piece in model.pieces if piece.type == piece.NORMAL]
    scores = {each.piece: each.score for each in normal if not ends_in_digit_comma(each.piece)}
    floor = min(scores.values(), default=0.0)
    for each in normal:
        if ends_in_digit_comma(each.piece):
            each.score = best_score(each.piece, scores, floor) - MARGIN


def ends_in_digit_comma(piece: str) -> bool:
    """Returns whether the original code would encode a piece again."""
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def best_score(text: str, scores: Mapping[str, float], floor: float) -> float:
    """Returns the score of the best way to split `text` into pieces.

    A character that isn't a piece has the score `floor`.
    """
    best = [0.0]
    for end in range(1, len(text) + 1):
        sums = [
            best[start] + scores[text[start:end]]
            for start in range(end - 1)
            if text[start:end] in scores
        ]
        sums.append(best[end - 1] + scores.get(text[end - 1], floor))
        best.append(max(sums))
    return best[-1]


USER_DEFINED_PIECES: Final = ("(", ")", '"', "-", ".", "–", "£", "€")  # as in the published models
MAX_SENTENCE_BYTES: Final = 1 << 20  # by default, SentencePiece skips lines of over 4,192 bytes


def bake(
    source: Source,
    *,
    lower_case: bool = True,
    keep_accents: bool = False,
    digit_comma: DigitComma = "original",
    quotes: Quotes = "original",
    turkish_i: bool = False,
    origin: str | None = None,
) -> bytes:
    """Returns a SentencePiece model that normalizes raw text itself.

    Args:
        source: path or bytes of a published `spiece.model`.
        lower_case: whether to lowercase the text. Pass False for cased models.
        keep_accents: whether to keep accents and apply NFC instead of NFKD, as the Hugging Face
            option does. The original code always drops accents.
        digit_comma: "original" never chooses a piece that ends in a digit and a comma. This has the
            same effect as the original code's second pass over such pieces. "plain" keeps the
            trained scores.
        quotes: "huggingface" replaces two grave accents or two apostrophes with `"`. "original"
            keeps them, as google-research/albert does.
        turkish_i: whether to lowercase I to ı and İ to i, as in Turkish and Azerbaijani.
        origin: name of the model in error messages if `source` is bytes.
    Returns:
        The serialized model. `model_file.describe` returns the options that it contains.
    Raises:
        UserError: if the file doesn't exist, isn't an ALBERT vocabulary, or already contains the
            options of this function.
    """
    content, name = read_file(source, "spiece.model")
    origin = origin or name
    already = describe(content, origin=origin)
    if already is not None:
        raise UserError(
            f"{origin} already contains normalization options ({already}). Use it unchanged, or "
            f"pass the original model (sha256 {already.sha256})."
        )
    digest = hashlib.sha256(content).hexdigest()
    return _bake(content, Baked(digest, lower_case, keep_accents, digit_comma, quotes, turkish_i))


def ensure_baked(source: Source, **wanted: object) -> tuple[bytes, Baked]:
    """Returns a baked model and the record of its options. Bakes the model first if necessary.

    In `wanted`, None means the model's own option or, if it has none, the default of `bake`.
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    if path := json_path(source):
        content, origin = _bake(*convert(path, given.get("digit_comma")), True), str(path)
    else:
        content, origin = read_file(source, "spiece.model")
    baked = describe(content, origin=origin)
    if baked is None:
        baked = Baked(hashlib.sha256(content).hexdigest(), **given)  # type: ignore[arg-type]
        return _bake(content, baked), baked
    differing = {name: value for name, value in given.items() if getattr(baked, name) != value}
    if differing:
        has = ", ".join(f"{name}={getattr(baked, name)!r}" for name in differing)
        asked = ", ".join(f"{name}={value!r}" for name, value in differing.items())
        raise UserError(
            f"{origin} contains {has}, which can't be changed. Received: {asked}. Drop these "
            f"options, or start from the original vocabulary (sha256 {baked.sha256})."
        )
    return content, baked


def with_tokens(model: bytes, tokens: Iterable[str]) -> bytes:
    """Returns a baked model with the tokens appended.

    Each token has the score of the most probable piece, so that it wins over any two other pieces.
    Texts without the token are encoded as before. SentencePiece's "user-defined" pieces don't
    always win, because their score counts once per byte.
    """
    proto = parse_model(model, "the model")
    score = max(piece.score for piece in proto.pieces if piece.type == piece.NORMAL)
    for token in tokens:
        proto.pieces.add(piece=token, score=score)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def bake_file(
    source: Source, target: str | os.PathLike[str], *, force: bool = False, **options: Any
) -> None:
    """Writes `bake(source, **options)` to `target` atomically."""
    model = bake(source, **options)
    with written_atomically(target, force=force) as path:
        path.write_bytes(model)


@functools.lru_cache(maxsize=8)
def _bake(content: bytes, options: Baked, as_in_json: bool = False) -> bytes:
    proto = ModelProto.FromString(content)
    normalization = Normalization(
        options.lower_case, options.keep_accents, options.quotes, options.turkish_i, as_in_json
    )
    own = proto.normalizer_spec.precompiled_charsmap
    proto.normalizer_spec.precompiled_charsmap = rules_for(own, normalization)
    proto.normalizer_spec.remove_extra_whitespaces = True
    proto.normalizer_spec.name = str(options)
    if options.digit_comma == "original":
        demote_digit_comma(proto)
    # SentencePiece finds a user-defined "[SEP]" in a text, but the graph operator doesn't.
    for piece in [proto.pieces[index] for index in options.special or SPECIAL_IDS]:
        if piece.type != piece.UNKNOWN:
            piece.type = piece.CONTROL
    return proto.SerializeToString()


@checks_numbers(
    vocab_size=VOCABULARY,
    character_coverage=Range(above=0, maximum=1),
    seed_sentencepiece_size=COUNT,
    max_sentences=NOT_NEGATIVE,  # 0 means all
    threads=COUNT,
)
def train_vocabulary(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lower_case: bool = True,
    keep_accents: bool = False,
    digit_comma: DigitComma = "original",
    quotes: Quotes = "original",
    turkish_i: bool = False,
    character_coverage: float = CHARACTER_COVERAGE,
    seed_sentencepiece_size: int = 1_000_000,
    max_sentences: int = 10_000_000,
    threads: int = THREADS,
) -> bytes:
    """Trains a SentencePiece vocabulary with ALBERT's settings and builds the options into it.

    Example:

    >>> from albert_tf import AlbertTokenizer, train_vocabulary
    >>> model = train_vocabulary(["the cat sat on the mat", "a dog barked"], vocab_size=40)
    >>> tokenizer = AlbertTokenizer(model)
    >>> tokenizer.decode(tokenizer.encode("The CAT", add_special_tokens=False))
    'the cat'

    Args:
        texts: lines of raw text. Stray bytes are treated as spaces.
        vocab_size: maximum number of pieces, including the 5 special tokens. The vocabulary is
            smaller if the text contains too few pieces.
        lower_case: see `vocabulary.bake`.
        keep_accents: see `vocabulary.bake`.
        digit_comma: see `vocabulary.bake`.
        quotes: see `vocabulary.bake`.
        turkish_i: see `vocabulary.bake`.
        character_coverage: fraction of the text's characters that the vocabulary covers.
        seed_sentencepiece_size: number of candidate pieces at the start of training.
        max_sentences: number of randomly drawn lines to keep in memory, or 0 for all.
        threads: number of threads, which can affect rounding, and therefore the vocabulary.
    Returns:
        The unigram model, with ids 0 to 4 for `<pad>`, `<unk>`, `[CLS]`, `[SEP]`, and
        `[MASK]`.
    Raises:
        UserError: if there is no text, or `vocab_size` is too small for the text's characters.
        TypeError: if `texts` is a single text.
    """
    if isinstance(texts, str | bytes):
        raise TypeError(
            f"texts must be lines, such as a list or an open file. Received: {short_repr(texts)}."
        )
    normalization = Normalization(lower_case, keep_accents, quotes, turkish_i)
    lines = (as_text(text).replace(NO_CHARACTER, " ") for text in texts)
    model = io.BytesIO()
    options = Baked("", lower_case, keep_accents, digit_comma, quotes, turkish_i)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(normalization, lines),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            seed_sentencepiece_size=seed_sentencepiece_size,
            input_sentence_size=max_sentences,
            max_sentence_length=MAX_SENTENCE_BYTES,
            num_threads=threads,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIAL_TOKENS[2:]),
            user_defined_symbols=list(USER_DEFINED_PIECES),
            minloglevel=3,
        )
    except RuntimeError as error:
        raise UserError(
            f"SentencePiece can't train a vocabulary with vocab_size={vocab_size} on this text "
            f"({error}). Pass more text, or change vocab_size."
        ) from error
    content = model.getvalue()
    return _bake(content, replace(options, sha256=hashlib.sha256(content).hexdigest()))
