"""BERT's cleaning and splitting of text, character by character.

The rules are those of google-research/albert's `BasicTokenizer` and transformers' `BertTokenizer`.
Where the two differ, transformers' apply: it drops private-use characters, and does not count
U+2B820 to U+2B91F as Chinese. Categories come from Python's `unicodedata`; transformers has older
tables, and differs on characters that are newer than them.
"""

import string
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

DROPPED: Final = ("Cc", "Cf", "Co")  # Control, format and private use.
CHINESE: Final = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B920, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)
# All characters that Unicode has assigned so far.
ASSIGNED: Final = (
    range(1, 0xD800),
    range(0xE000, 0x33480),
    range(0xE0000, 0xE0200),
    range(0xF0000, 0x110000),
)


@dataclass(frozen=True)
class Rules:
    """The cleaning and splitting of raw text before pieces are looked up.

    Attributes:
        lower_case: lower-case the text.
        strip_accents: apply NFD, then drop nonspacing marks.
        split_chinese: make every Chinese character a word.
    """

    lower_case: bool = True
    strip_accents: bool = True
    split_chinese: bool = True

    def __call__(self, character: str) -> str:
        """Returns the replacement of a character; spaces in it separate words."""
        category = unicodedata.category(character)
        if character in "\t\n\r" or (character.isspace() and category != "Cc"):
            return " "
        if category in DROPPED or character in "\0\ufffd":
            return ""
        text = character
        if self.strip_accents:
            text = unicodedata.normalize("NFD", text)
            text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        if self.lower_case:
            text = "".join(c.lower() for c in text)
        text = "".join(f" {c} " if is_punctuation(c) else c for c in text)
        return f" {text} " if self.split_chinese and is_chinese(character) else text

    def table(self) -> Iterator[tuple[str, str]]:
        """Yields every assigned character with its replacement."""
        for points in ASSIGNED:
            for character in map(chr, points):
                yield character, self(character)


def is_punctuation(character: str) -> bool:
    """Whether a character is always a word: ASCII's symbols, and Unicode's punctuation."""
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def is_chinese(character: str) -> bool:
    """Whether a character is Chinese: Unicode's ideographs, without kana and hangul."""
    return any(ord(character) in points for points in CHINESE)
