"""The original pipeline, the Python tokenizer, the graph and TFLite give the same ids."""

import functools
import gzip
import json
import random
import re
import sys
import unicodedata

import pytest
import sentencepiece

from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import bake
from tests.text.conftest import graph_ids, original_ids, original_normalization

pytestmark = pytest.mark.filterwarnings("ignore:A sequence of .* exceeds model_max_length")


def python_ids(tokenizer, texts):
    encoding = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
    return encoding.input_ids


def operator_ids(tokenizer, texts):
    """Returns ids from the operator of the graph, run eagerly."""
    return tokenizer.in_graph().tokenize(texts).to_list()


COUNT = 10_000  # random strings
# Characters that nmt_nfkc reads in another way since the published vocabulary was trained.
RULES_CHANGED = {"\u200d", "\u061c"}


def golden_rows(golden, name="tokenization"):
    with gzip.open(golden / "E_tokenization" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def rows(golden, published, rebuilt_vocabulary):
    """The golden rows; nine of them need the rules of the published file itself."""
    rows = golden_rows(golden)
    assert len(rows) == 2958
    if published == rebuilt_vocabulary:
        rows = [row for row in rows if not RULES_CHANGED & set(row["text"])]
        assert len(rows) == 2949
    return rows


def expected(row, column):
    """Ids of a column of the golden set, where "same" means the same as the original."""
    value = row["orig"] if row[column] == "same" else row[column]
    return value["ids"] if isinstance(value, dict) else value


def differing(texts, got, wanted):
    rows = zip(texts, got, wanted, strict=True)
    return [(text, one, other) for text, one, other in rows if one != other]


@pytest.mark.parametrize("runtime", ["python", "graph", "tflite"])
def test_golden_ids_of_the_original(rows, published_tokenizer, tflite_ids, runtime):
    texts = [row["text"] for row in rows]
    model = published_tokenizer.model_bytes
    if runtime == "python":
        got = python_ids(published_tokenizer, texts)
    else:
        got = {"graph": graph_ids, "tflite": tflite_ids}[runtime](model, texts)
    wanted = [row["orig"]["ids"] for row in rows]
    if runtime == "tflite":  # Its file has 512 places, 2 of them for special tokens.
        wanted = [ids[:510] for ids in wanted]
    assert differing(texts, got, wanted) == []


def test_golden_ids_without_the_digit_comma_rule(rows, published):
    texts = [row["text"] for row in rows]
    tokenizer = AlbertTokenizer(published, digit_comma="plain")
    wanted = [expected(row, "plain_sentencepiece_ids") for row in rows]
    assert differing(texts, python_ids(tokenizer, texts), wanted) == []
    assert len(differing(texts, wanted, [row["orig"]["ids"] for row in rows])) > 100


def test_golden_ids_of_hugging_face_slow(rows, published):
    """Its quotes, and its special tokens inside text; it also reads them in lower case."""
    texts = [row["text"] for row in rows]
    tokenizer = AlbertTokenizer(published, quotes="huggingface")
    got = tokenizer(texts, add_special_tokens=False).input_ids
    wanted = [expected(row, "hf_slow_4.57.6") for row in rows]
    assert [text for text, *_ in differing(texts, got, wanted)] == ["<PAD>", "<UNK>"]


def test_golden_pairs(golden, published_tokenizer):
    for row in golden_rows(golden, "pairs_truncation"):
        options = {"max_length": row["max_seq_length"], "padding": "max_length"}
        assert published_tokenizer(row["text_a"], row["text_b"], truncation=True, **options) == {
            "input_ids": row["input_ids"],
            "token_type_ids": row["segment_ids"],
            "attention_mask": row["input_mask"],
        }


@pytest.mark.slow
def test_every_code_point_published(published, published_tokenizer, tflite_ids):
    """Each character as `aXb`, 64 of them a text, but for those that this Python may not know."""
    points = map(chr, range(sys.maxunicode + 1))
    assigned = [f"a{each}b" for each in points if unicodedata.category(each) not in ("Cs", "Cn")]
    texts = [" ".join(assigned[start : start + 64]) for start in range(0, len(assigned), 64)]
    wanted = original_ids(published, texts)
    model = published_tokenizer.model_bytes
    assert differing(texts, python_ids(published_tokenizer, texts), wanted) == []
    assert differing(texts, graph_ids(model, texts), wanted) == []
    assert differing(texts, tflite_ids(model, texts), [ids[:510] for ids in wanted]) == []


@functools.cache
def assigned_characters():
    characters = map(chr, range(1, 0x32000))
    return [each for each in characters if unicodedata.category(each) not in ("Cn", "Co", "Cs")]


def mixed_script_strings(count, seed):
    """Words, numbers, white space of all kinds, accents and any other character, mixed."""
    draw, assigned = random.Random(seed), assigned_characters()
    words = ["the", "The", "QUICK", "naïve", "café", "élan", "straße", "ﬁne", "Ωmega", "привет"]
    words += ["Ёлка", "東京", "서울", "ไทย", "العربية", "हिन्दी", "😀", "don't"]
    spaces = [" ", "  ", *"\t\n\u00a0\u3000\u200b\ufeff\u0085\x1f\u2028", ""]
    marks = list(".,;:!?()\"'`-–£€/&%[]<>_") + ["\u0301", "\u0308", "\u00ad", "\x00", "\x7f", "▁"]

    def part():
        kind = draw.random()
        if kind < 0.4:
            return draw.choice(words)
        if kind < 0.55:
            return draw.choice(marks)
        if kind < 0.65:
            return f"{draw.randrange(10 ** draw.randint(1, 6)):,}"
        if kind < 0.8:
            return "".join(draw.choice(assigned) for _ in range(draw.randint(1, 4)))
        return chr(draw.randrange(0x20, 0x7F))

    return [
        "".join(part() + draw.choice(spaces) for _ in range(draw.randint(0, 10)))
        for _ in range(count)
    ]


def test_random_strings_small_vocabulary(unbaked, tokenizer):
    texts = mixed_script_strings(2_000, seed=7)
    wanted = original_ids(unbaked, texts)
    assert differing(texts, python_ids(tokenizer, texts), wanted) == []
    assert differing(texts, operator_ids(tokenizer, texts), wanted) == []


def assert_equal_but_for_ties(model, got, wanted):
    """Allows segmentations with the same score, in one of 10,000 texts.

    `66 6` and `6 66` have the same score; the last bit of a float32 sum decides between them, and
    tensorflow-text adds up the penalty of unknown characters in other steps than SentencePiece.
    """
    wrong = [(one, other) for one, other in zip(got, wanted, strict=True) if one != other]
    assert len(wrong) <= COUNT // 10_000
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for one, other in wrong:
        known = [[index for index in ids if index != 1] for ids in (one, other)]
        scores = [sum(map(processor.get_score, ids)) for ids in known]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)


@pytest.mark.slow
def test_random_strings_published(published, rebuilt_vocabulary, published_tokenizer, tflite_ids):
    texts = mixed_script_strings(COUNT, seed=12345)
    model = published_tokenizer.model_bytes
    got, graph = python_ids(published_tokenizer, texts), graph_ids(model, texts)
    assert differing(texts, tflite_ids(model, texts), graph) == []
    assert_equal_but_for_ties(model, got, graph)
    # The original cuts a piece such as "9," after its search: no score reproduces every case.
    processor = sentencepiece.SentencePieceProcessor(model_proto=published)
    pieces = processor.encode([original_normalization(text) for text in texts], out_type=str)
    is_cut = [any(re.search(r"\d,$", piece) for piece in row) for row in pieces]
    rows = list(zip(is_cut, got, original_ids(published, texts), strict=True))
    rest = [(one, other) for cut, one, other in rows if not cut]
    assert_equal_but_for_ties(model, *zip(*rest, strict=True))
    wrong = [one for cut, one, other in rows if cut and one != other]
    # 0.47% of such strings differ; of the rebuilt vocabulary, whose scores are fitted, 1.02%.
    assert len(wrong) <= (0.012 if published == rebuilt_vocabulary else 0.01) * sum(is_cut)


def test_paragraphs_as_the_original(published, published_tokenizer, golden):
    corpus = golden / "F_pretraining_data" / "synthetic_corpus.txt"
    lines = corpus.read_text("utf-8").split("\n")
    assert len(lines) > 700
    wanted = original_ids(published, lines)
    assert differing(lines, python_ids(published_tokenizer, lines), wanted) == []


@pytest.mark.slow
def test_books_as_the_original(published, published_tokenizer, books):
    if not books:
        pytest.skip("needs the books")
    for path in books[:8]:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [line for line in file if not line.isspace()][:1000]
        wanted = original_ids(published, lines)
        assert differing(lines, python_ids(published_tokenizer, lines), wanted) == []


@pytest.mark.parametrize(
    "options",
    [
        {"lower_case": False},
        {"keep_accents": True},
        {"lower_case": False, "keep_accents": True, "quotes": "huggingface"},
    ],
    ids=lambda options: "+".join(options),
)
def test_options_agree_with_plain_python(unbaked, options):
    texts = [*mixed_script_strings(1_000, seed=11), "``quoted'' and ''''", "É e\u0301 ÇA İ ΑΣ"]
    plain = sentencepiece.SentencePieceProcessor(model_proto=unbaked)
    wanted = plain.encode([original_normalization(text, **options) for text in texts])
    tokenizer = AlbertTokenizer(bake(unbaked, digit_comma="plain", **options))
    assert differing(texts, python_ids(tokenizer, texts), wanted) == []
    assert differing(texts, operator_ids(tokenizer, texts), wanted) == []


HARD = [
    *("Everyone has the right", "日本 🦕 naïve", "[SEP] here [MASK]", "a  b   c", " lead trail "),
    *("xyzzy é ñ 5,000 1,", "<unk> <pad> [CLS]", "ALL human BEINGS", "▁under▁score", "ﬁ ½ ∑"),
    *('(a) "b" - c. – £ €', "\u200b zero\u00ad", "tab\tnew\nline", "<0x41> <0x0A>", "", "مرحبا"),
]


@pytest.mark.parametrize(
    "options",
    [
        {"control_symbols": [], "user_defined_symbols": ["[CLS]", "[SEP]", "[MASK]"]},
        {"normalization_rule_name": "identity"},
        {"remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True},
        {"split_by_whitespace": False, "split_digits": True},
        {"bos_id": 5, "eos_id": 6, "unk_surface": " ?? "},
    ],
    ids=lambda options: next(iter(options)),
)
def test_models_trained_in_other_ways(train_sentencepiece, options):
    tokenizer = AlbertTokenizer(train_sentencepiece(**options))
    ids = python_ids(tokenizer, HARD)
    assert ids == operator_ids(tokenizer, HARD)
    written_out = ids[HARD.index("[SEP] here [MASK]")]
    assert not set(written_out) & {2, 3, 4}, "special tokens in a text are plain text"
    assert len(written_out) > 5


def test_a_model_without_rules_keeps_ligatures(train_sentencepiece):
    model = train_sentencepiece(normalization_rule_name="identity", sentences=["a ﬁne ﬁg"] * 9)
    tokenizer = AlbertTokenizer(model, keep_accents=True)
    assert tokenizer.decode(tokenizer("A ﬁne ﬁG", add_special_tokens=False).input_ids) == "a ﬁne ﬁg"
