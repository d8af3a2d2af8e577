"""Splits text in any script into words, and finds words that a normalization merges."""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple

# Prefixes of the Unicode names of characters in scripts without spaces between words.
_UNSPACED: Final = (
    *("CJK ", "BOPOMOFO", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "YI "),
    *("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI ", "NEW TAI ", "JAVANESE", "BALINESE"),
)


class MergeStatistics(NamedTuple):
    """The effect of a normalization on the words of a text.

    Attributes:
        changed: fraction of words that change, in `[0, 1]`.
        merged: fraction of words that become equal to a more frequent word.
        examples: the largest groups of words that become equal, most frequent word first.
    """

    changed: float
    merged: float
    examples: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=1 << 16)
def is_unspaced(character: str) -> bool:
    """Returns whether a character belongs to a script without spaces between words."""
    return unicodedata.name(character, "").startswith(_UNSPACED)


def words(text: str) -> Iterator[str]:
    """Yields the words of a text: sequences of letters, digits, and the marks on them.

    In a script without spaces, each letter with its marks is a word.
    """
    return (match.group() for match in _word().finditer(text))


def merge_statistics(
    counts: Mapping[str, int],
    before: Callable[[str], str],
    after: Callable[[str], str],
    examples: int = 3,
) -> MergeStatistics:
    """Measures which words `after` changes or merges, compared with `before`.

    Args:
        counts: frequency of each word.
        before, after: normalization functions.
        examples: number of groups to return, each with its three most frequent words.
    """
    distinct: Counter[str] = Counter()
    for word, count in counts.items():
        distinct[_compose(before(word))] += count
    changed = 0
    groups: dict[str, list[tuple[int, str]]] = {}
    for word, count in distinct.items():
        new = _compose(after(word))
        changed += count * (new != word)
        groups.setdefault(new, []).append((-count, word))
    merged = []
    for group in groups.values():
        _, *others = ordered = sorted(group)
        if others:
            merged.append((sum(count for count, _ in others), [word for _, word in ordered[:3]]))
    merged.sort()
    total = distinct.total() or 1
    lost = -sum(count for count, _ in merged)
    return MergeStatistics(
        changed / total, lost / total, tuple(tuple(group) for _, group in merged[:examples])
    )


def _compose(word: str) -> str:
    """Applies NFKC, as SentencePiece's own rules do."""
    return unicodedata.normalize("NFKC", word)


@cache
def _word() -> re.Pattern[str]:
    characters = [chr(point) for point in range(sys.maxunicode + 1)]
    marks = _class(each for each in characters if unicodedata.category(each)[0] == "M")
    unspaced = _class(each for each in characters if each.isalpha() and is_unspaced(each))
    letter = rf"[^\W_{unspaced}]"
    return re.compile(rf"[{unspaced}][{marks}]*|{letter}(?:{letter}|[{marks}])*")


def _class(characters: Iterable[str]) -> str:
    """Converts sorted characters to ranges for a regular expression's character class."""
    ranges: list[list[str]] = []
    for each in characters:
        if ranges and ord(each) == ord(ranges[-1][1]) + 1:
            ranges[-1][1] = each
        else:
            ranges.append([each, each])
    return "".join(f"{first}-{last}" for first, last in ranges)
