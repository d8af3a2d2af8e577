"""WordPiece vocabularies like those of the Chinese models."""

import functools

import pytest

from albert_tf.text.wordpiece.rules import Rules
from albert_tf.text.wordpiece.tokenizer import WordPieceTokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
PIECES = [
    *"中国人民大学北京上海天气很好我爱你们的一二三丁",
    *"，。！？；：（）《》“”、…·",
    *".,!?;:()[]{}'\"#@-_/&%$+=*<>|~^`",
    *LETTERS,
    *"éüñßαβжのアイ가각",
    *("the", "film", "library", "wor", "##ld", "##ing", "##s", "hello", "un", "##aff", "##able"),
    *("##！", "##0", "##1", "##9", "19", "##の", "##ア", "ing", "a##b", "国家"),
    *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyzéж가"),
    *("##中", "##国", "Cased", "##Ed", "C", "É", "##É"),
]


def lines(order="google", pieces=PIECES):
    """Returns a vocabulary's pieces; "google" has special tokens at 0 and from 100 to 103."""
    if order == "google":
        unused = [f"[unused{number}]" for number in range(1, 100)]
        return list(dict.fromkeys(["[PAD]", *unused, *SPECIAL[1:], *pieces]))
    if order == "last":
        return list(dict.fromkeys([*pieces, *reversed(SPECIAL)]))
    return list(dict.fromkeys([*SPECIAL, *pieces]))


@pytest.fixture(scope="session", autouse=True)
def rules_are_applied_once():
    """Caches the replacements of 340,000 characters, which take half of a vocabulary's time."""
    make = Rules.table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rules, "table", functools.lru_cache(lambda rules: list(make(rules))))
        yield


@pytest.fixture(scope="session")
def vocab_text():
    """Returns a function that writes a `vocab.txt`, given the order of its special tokens."""
    return lambda order="google": "".join(f"{line}\n" for line in lines(order))


@pytest.fixture(scope="session")
def chinese(vocab_text) -> WordPieceTokenizer:
    return WordPieceTokenizer(vocab_text().encode())
