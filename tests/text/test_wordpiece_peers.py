"""The same ids, words and decoded texts as transformers' BertTokenizer."""

import random
import unicodedata

import pytest

from albert_tf.text.wordpiece import WordPieceTokenizer
from tests.text.conftest import vocab_text

transformers = pytest.importorskip(
    "transformers", reason="needs transformers (pip install albert_tf[peers])"
)
pytestmark = pytest.mark.peers

# Punctuation and a mark that Unicode has put in other categories since transformers' tables.
CHANGED = "\u166d\u1734\u1885\u1886"
OPTIONS = [
    {},
    {"do_lower_case": False},
    {"strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"tokenize_chinese_chars": False},
]
WORDS = [
    *("the", "The", "LIBRARY", "worlding", "unaffables", "Cased", "CaséEd", "naïve", "café", "Éé"),
    *("中国", "人民", "北京大学", "天气", "龍", "カタ", "のア", "가각", "привет", "жж", "ﬁne", "½"),
    *("##ld", "a##b", "[CLS]", "[MASK]", "[UNK]", "[mask]", "[ SEP ]", "😀", "👍🏽", "don't"),
    "http://a.b/c?d=1",
]
MARKS = [*"，。！？；：（）《》“”、…·.,!?;:()[]{}'\"#@-_/&%$+=*<>|~^`「」—￥　"]
ODD = ["\x00", "\x01", "\x7f", "\x85", "\xad", "\u0301", "\u0308", "\u200b", "\u200d", "\u2028"]
ODD += ["\ufeff", "\ufffd", "\ue000", "\U000f0000", "\U0010fffd", "\t", "\n", "\r", "\x0b", "\xa0"]


def known_to_both():
    """Characters of Unicode 3.2, which every table has alike, but for a few."""
    points = (p for p in range(1, 0x110000) if not 0xD800 <= p < 0xE000)
    old = unicodedata.ucd_3_2_0
    characters = (chr(p) for p in points if chr(p) not in CHANGED)
    return [each for each in characters if old.category(each) not in ("Cn", "Co")]


def mixed_strings(count, seed):
    draw = random.Random(seed)
    characters = known_to_both()

    def part():
        kind = draw.random()
        if kind < 0.35:
            return draw.choice(WORDS)
        if kind < 0.5:
            return draw.choice(MARKS)
        if kind < 0.6:
            return draw.choice(ODD)
        if kind < 0.64:  # Around the limit for a word's length.
            return draw.choice("aの가éж") * draw.randint(97, 103)
        if kind < 0.72:
            return str(draw.randrange(10 ** draw.randint(1, 6)))
        if kind < 0.85:
            return "".join(draw.choice(characters) for _ in range(draw.randint(1, 4)))
        return draw.choice("中国人民大学北京上海天气很好我爱你们的")

    gaps = [" ", "", "", "  ", "\u3000"]
    return [
        "".join(part() + draw.choice(gaps) for _ in range(draw.randint(0, 12)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module", params=OPTIONS, ids=str)
def pair(request, tmp_path_factory):
    """Ours and theirs, of one `vocab.txt` and the same options."""
    folder = tmp_path_factory.mktemp("chinese")
    (folder / "vocab.txt").write_bytes(vocab_text("google"))
    theirs = transformers.BertTokenizer.from_pretrained(folder, **request.param)
    return WordPieceTokenizer(folder / "vocab.txt", **request.param), theirs


def differing(texts, got, wanted):
    rows = zip(texts, got, wanted, strict=True)
    return [(ascii(text), one, other) for text, one, other in rows if one != other]


def test_random_strings(pair):
    ours, theirs = pair
    texts = mixed_strings(5_000, seed=20251)
    wanted = theirs(texts).input_ids
    assert differing(texts, ours(texts).input_ids, wanted) == []
    assert sum(map(len, wanted)) > 50_000
    assert sum(row.count(ours.unk_token_id) for row in wanted) < 0.4 * sum(map(len, wanted))
    for skip in (False, True):
        decoded = [theirs.decode(row, skip_special_tokens=skip) for row in wanted[:500]]
        assert ours.batch_decode(wanted[:500], skip_special_tokens=skip) == decoded


@pytest.mark.slow
def test_every_old_character(pair):
    ours, theirs = pair
    texts = [f"a{character}b" for character in known_to_both()]
    assert len(texts) > 90_000
    assert differing(texts, ours(texts).input_ids, theirs(texts).input_ids) == []


def test_offsets_words_and_tokens(pair):
    """Where no character is dropped: ours belong to the piece before them."""
    ours, theirs = pair
    marks = {c for c in known_to_both() if unicodedata.category(c) in ("Mn", "Cc", "Cf")}
    dropped = marks.union(ODD)
    texts = [text for text in mixed_strings(2_000, 4) if not dropped & set(text)]
    assert len(texts) > 300
    one, other = (each(texts, return_offsets_mapping=True) for each in (ours, theirs))
    assert differing(texts, one.offset_mapping, other.offset_mapping) == []
    for row, text in enumerate(texts):
        assert one.word_ids(row) == other.word_ids(row), text
    tokens = [theirs.convert_ids_to_tokens(ids) for ids in other.input_ids]
    assert [ours.convert_ids_to_tokens(ids) for ids in one.input_ids] == tokens


def test_split_words(pair):
    ours, theirs = pair
    draw = random.Random(6)
    batch = [[draw.choice(WORDS) for _ in range(draw.randint(0, 9))] for _ in range(300)]
    batch = [words for words in batch if words] + [["", "中国", " ", "a b"]]
    one, other = (each(batch, is_split_into_words=True, padding=True) for each in (ours, theirs))
    assert differing(batch, one.input_ids, other.input_ids) == []
    for row in range(len(batch)):
        assert one.word_ids(row) == other.word_ids(row)


@pytest.mark.parametrize(("order", "lower"), [("google", False), ("first", True), ("last", False)])
def test_either_loads_what_the_other_writes(tmp_path, order, lower):
    """transformers 5 writes no vocab.txt: the vocabulary is in tokenizer.json."""
    ours = WordPieceTokenizer(vocab_text(order), do_lower_case=lower, model_max_length=99)
    ours.save_pretrained(tmp_path / "ours")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    assert not (tmp_path / "theirs" / "vocab.txt").exists()
    again = WordPieceTokenizer.from_pretrained(tmp_path / "theirs")
    assert type(theirs).__name__.startswith("BertTokenizer")
    texts = ["北京大学 Cased café [MASK]!", "hello"]
    for each in (theirs, again):
        assert each.model_max_length == 99
        assert each.get_vocab() == ours.get_vocab()
        assert each(texts, padding=True).input_ids == ours(texts, padding=True).input_ids
