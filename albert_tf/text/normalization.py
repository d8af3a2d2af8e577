"""ALBERT's text normalization, compiled into the rules and scores of a SentencePiece model.

The published vocabularies expect text that Python code has cleaned first: white space collapsed,
NFKD, combining characters dropped, lower case. A SentencePiece model has a table of its own
(`nmt_nfkc`), which runs after that. `compile_rules` joins the two into one table, so that every
program that loads the model file gets the same pieces from raw text.

The table maps strings without looking at their neighbours. Python's result depends on neighbours
in two cases, where the two differ:
- `str.lower` turns a capital sigma at a word's end into `ς`; the table writes `σ` everywhere. The
  published vocabularies have neither letter, so their ids are the same.
- Hangul letters with an accent between them stay apart; Python drops the accent and they join.

Characters newer than the Unicode of the Python that compiles the table have no rule.
"""

import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sentencepiece

from albert_tf.text.model_file import ModelProto, NormalizerSpec, Quotes

UNASSIGNED = ("Cn", "Co", "Cs")  # Unassigned, private use, surrogates: no rule touches them.
HANGUL_OPEN = range(0xAC00, 0xD7A4, 28)
HANGUL_FINALS = {chr(point) for point in range(0x11A8, 0x11C3)}
MARGIN = 1.0  # Natural-log units; rounding in a sum of scores is below 0.01.


@dataclass(frozen=True)
class Normalization:
    """The steps that clean raw text before the model's own rules.

    Attributes:
        lower_case: lower-case the text (uncased models).
        keep_accents: compose letters and accents (NFC) instead of NFKD and the dropping of
            combining characters.
        quotes: "original" leaves pairs of grave accents and of apostrophes alone, as
            google-research/albert does; "huggingface" turns each pair into `"`.
        turkish_i: lower-case I to ı and İ to i, as Turkish and Azerbaijani do.
    """

    lower_case: bool = True
    keep_accents: bool = False
    quotes: Quotes = "original"
    turkish_i: bool = False

    def __call__(self, text: str) -> str:
        """Applies the steps in Python; each white space becomes a space, uncollapsed."""
        text = "".join(" " if character.isspace() else character for character in text)
        if self.quotes == "huggingface":
            text = text.replace("``", '"').replace("''", '"')
        if self.turkish_i and self.lower_case:
            text = text.replace("İ", "i").replace("I\u0307", "i").replace("I", "ı")
        if self.keep_accents:
            text = unicodedata.normalize("NFC", text)
        else:
            text = unicodedata.normalize("NFKD", text)
            text = "".join(c for c in text if not unicodedata.combining(c))
        return lower(text) if self.lower_case else text


def lower(text: str) -> str:
    """Lower-cases each character alone, without regard to its neighbours."""
    return "".join(character.lower() for character in text)


def compile_rules(model: bytes, normalization: Normalization) -> bytes:
    """Returns `normalization` followed by the model's own rules, as a `precompiled_charsmap`.

    Args:
        model: a serialized SentencePiece `ModelProto` that isn't baked.
    """
    sentencepiece.set_min_log_level(1)  # Otherwise it prints the size of every table.
    own = _normalizer(model_proto=model)
    has_rules = bool(ModelProto.FromString(model).normalizer_spec.precompiled_charsmap)
    keys = {key for key, _ in own.Decompile()} if has_rules else set()  # "identity" has none
    singles = _assigned_characters()
    keys |= singles | _closed_syllables({each: normalization(each) for each in singles})
    if normalization.keep_accents:
        keys |= _compositions(singles)
    if normalization.quotes == "huggingface":
        keys.update(("``", "''"))
    if normalization.turkish_i:
        keys.add("I\u0307")
    rules = [(key, own.Normalize(normalization(key))) for key in sorted(keys)]
    joined = _normalizer(norm_map=[(key, value) for key, value in rules if key != value])
    spec = NormalizerSpec()
    spec.ParseFromString(joined.serialized_normalizer_spec())
    return spec.precompiled_charsmap


def _assigned_characters() -> set[str]:
    """Returns every character that is assigned in this Python's Unicode."""
    characters = map(chr, range(1, sys.maxunicode + 1))
    return {each for each in characters if unicodedata.category(each) not in UNASSIGNED}


def _compositions(characters: set[str]) -> set[str]:
    """Returns each letter and accent that Unicode composes, such as ơ and a dot below to ợ.

    SentencePiece's own rules compose a letter with all of its accents alone.
    """
    canonical = (unicodedata.normalize("NFD", each) for each in characters)
    pairs = (unicodedata.normalize("NFC", each[:-1]) + each[-1] for each in canonical)
    return {pair for pair in pairs if len(pair) == 2}


def _closed_syllables(normalized: dict[str, str]) -> set[str]:
    """Returns open Hangul syllables, each followed by every character that becomes a final."""
    finals = [character for character, result in normalized.items() if result in HANGUL_FINALS]
    return {chr(point) + final for point in HANGUL_OPEN for final in finals}


def _normalizer(**source: Any) -> sentencepiece.SentencePieceNormalizer:
    """Returns a normalizer that only applies rules: it neither adds, trims nor escapes spaces."""
    return sentencepiece.SentencePieceNormalizer(
        **source,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )


def demote_digit_comma(model: ModelProto) -> None:
    """Lowers the scores of pieces that end in a digit and a comma, in place.

    google-research/albert encodes such a piece again without its comma. Here the piece scores a
    little less than the best way to write it with other pieces, so the search never chooses it. No
    score is lower than necessary: SentencePiece derives the penalty for unknown characters from
    the lowest score, and a large penalty costs float32 sums over a long text their precision.
    """
    normal = [piece for piece in model.pieces if piece.type == piece.NORMAL]
    scores = {each.piece: each.score for each in normal if not ends_in_digit_comma(each.piece)}
    floor = min(scores.values(), default=0.0)
    for each in normal:
        if ends_in_digit_comma(each.piece):
            each.score = best_score(each.piece, scores, floor) - MARGIN


def ends_in_digit_comma(piece: str) -> bool:
    """Whether the original would encode the piece again."""
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def best_score(text: str, scores: Mapping[str, float], floor: float) -> float:
    """Returns the highest sum of scores over the ways to write `text` with these pieces.

    Args:
        floor: score of a character that is not a piece.
    """
    best = [0.0]
    for end in range(1, len(text) + 1):
        best.append(max(_endings(text, end, best, scores, floor)))
    return best[-1]


def _endings(
    text: str, end: int, best: list[float], scores: Mapping[str, float], floor: float
) -> Iterable[float]:
    yield best[end - 1] + scores.get(text[end - 1], floor)
    for start in range(end - 1):
        if text[start:end] in scores:
            yield best[start] + scores[text[start:end]]
