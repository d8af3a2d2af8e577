"""ALBERT's text normalisation, compiled into the rules that a SentencePiece model carries.

The published vocabularies expect text that Python code has cleaned first: white space collapsed,
NFKD, combining characters dropped, lower case. A SentencePiece model has a table of its own
(`nmt_nfkc`), which runs after that. `compile_rules` joins the two into one table, so that whoever
loads the model file gets the same pieces from raw text.

The table maps strings without looking at what stands around them. Where Python's result hangs on
that, they differ:
- `str.lower` turns a capital sigma at a word's end into `ς`; here it is `σ` everywhere. The
  published vocabularies have neither letter, so their ids are the same.
- Hangul letters with an accent between them stay apart; Python drops the accent and they join.

Characters newer than the Unicode of the Python that compiles the table have no rule.
"""

import sys
import unicodedata
from dataclasses import dataclass
from typing import Any, Literal

import sentencepiece

from albert_tf.text.sentencepiece_messages import NormalizerSpec

UNASSIGNED = ("Cn", "Co", "Cs")  # Unassigned, private use, surrogates: no rule touches them.
HANGUL_OPEN = range(0xAC00, 0xD7A4, 28)
HANGUL_FINALS = {chr(point) for point in range(0x11A8, 0x11C3)}


@dataclass(frozen=True)
class Normalization:
    """What happens to raw text before the model's own rules.

    Attributes:
        lower_case: lower-case the text (uncased models).
        keep_accents: leave out NFKD and the dropping of combining characters.
        quotes: "original" leaves pairs of grave accents and of apostrophes alone, as
            google-research/albert does; "huggingface" turns each pair into `"`.
    """

    lower_case: bool = True
    keep_accents: bool = False
    quotes: Literal["original", "huggingface"] = "original"

    def __call__(self, text: str) -> str:
        """Applies the steps in Python, white space one for one (SentencePiece collapses it)."""
        text = "".join(" " if character.isspace() else character for character in text)
        if self.quotes == "huggingface":
            text = text.replace("``", '"').replace("''", '"')
        if not self.keep_accents:
            text = unicodedata.normalize("NFKD", text)
            text = "".join(c for c in text if not unicodedata.combining(c))
        return lower(text) if self.lower_case else text


def lower(text: str) -> str:
    """Lower case without regard to a letter's place in its word."""
    return "".join(character.lower() for character in text)


def compile_rules(model: bytes, normalization: Normalization) -> bytes:
    """The model's own rules with `normalization` before them, as a `precompiled_charsmap`.

    Args:
        model: a serialized SentencePiece `ModelProto`, itself not baked.
    """
    sentencepiece.set_min_log_level(1)  # It reports the size of every table otherwise.
    own = _normalizer(model_proto=model)
    keys = {key for key, _ in own.Decompile()}
    singles = _assigned_characters()
    keys |= singles | _closed_syllables({each: normalization(each) for each in singles})
    if normalization.quotes == "huggingface":
        keys.update(("``", "''"))
    rules = [(key, own.Normalize(normalization(key))) for key in sorted(keys)]
    joined = _normalizer(norm_map=[(key, value) for key, value in rules if key != value])
    spec = NormalizerSpec()
    spec.ParseFromString(joined.serialized_normalizer_spec())
    return spec.precompiled_charsmap


def _assigned_characters() -> set[str]:
    """Every character that Unicode (as this Python knows it) says anything about."""
    characters = map(chr, range(1, sys.maxunicode + 1))
    return {each for each in characters if unicodedata.category(each) not in UNASSIGNED}


def _closed_syllables(normalized: dict[str, str]) -> set[str]:
    """Hangul syllables without a final, each with every character that turns into a final."""
    finals = [character for character, result in normalized.items() if result in HANGUL_FINALS]
    return {chr(point) + final for point in HANGUL_OPEN for final in finals}


def _normalizer(**source: Any) -> sentencepiece.SentencePieceNormalizer:
    """A normaliser that applies rules only: it adds, trims and escapes no white space."""
    return sentencepiece.SentencePieceNormalizer(
        **source,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
