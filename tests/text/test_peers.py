"""The surface beside Hugging Face's tokenizer, on text where their pieces agree."""

from pathlib import Path

import pytest

from albert_tf.text.tokenizer import AlbertTokenizer

transformers = pytest.importorskip(
    "transformers", reason="needs transformers (pip install albert_tf[peers])"
)
pytestmark = pytest.mark.peers

TEXTS = ["the cat sat on the mat", "paris is the [MASK] of france", "a", "  Two  words\u00a0here "]
OTHERS = ["a dog barked at the moon for hours", "yes", "the quick brown fox", "no"]


# Vocabularies with the words of these texts: the bundled model's, and the published one where it
# lies beside the checkout.
PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "data"
SOURCES = ["small", *([str(PUBLISHED)] if (PUBLISHED / "spiece.model").exists() else [])]


@pytest.fixture(scope="module", params=SOURCES, ids=lambda source: Path(source).name)
def ours(request):
    return AlbertTokenizer.from_pretrained(request.param)


@pytest.fixture(scope="module")
def theirs(ours, tmp_path_factory):
    """Hugging Face's, from the directory that ours writes."""
    folder = tmp_path_factory.mktemp("tokenizer")
    ours.save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


def same(ours, theirs, *texts, **options):
    one, other = ours(*texts, **options), theirs(*texts, **options)
    return {name: one[name] for name in other} == dict(other)


def test_loads_what_we_write(ours, theirs):
    assert type(theirs).__name__.startswith("AlbertTokenizer")
    assert (len(theirs), theirs.model_max_length) == (len(ours), ours.model_max_length)
    assert len(ours) in (10_000, 30_000)
    assert theirs("the [MASK] sat").input_ids == ours("the [MASK] sat").input_ids


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"add_special_tokens": False},
        {"padding": True},
        {"padding": "max_length", "max_length": 24},
        {"padding": "max_length", "max_length": 9, "truncation": True},
        {"padding": True, "pad_to_multiple_of": 8},
        {"truncation": True, "max_length": 5},
        {"max_length": 5},
        {"return_attention_mask": False},
        {"return_offsets_mapping": True, "truncation": True, "max_length": 6},
        {"truncation": True, "max_length": 5, "stride": 1, "return_overflowing_tokens": True},
        {"truncation": True, "max_length": 5, "return_overflowing_tokens": True, "padding": True},
    ],
    ids=str,
)
def test_batches(ours, theirs, options):
    texts = TEXTS[:1] + TEXTS[2:]  # Offsets of [MASK]: theirs take in the space on its left.
    assert same(ours, theirs, texts, **options)
    if not options.get("return_overflowing_tokens"):
        assert same(ours, theirs, texts[0], **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": True},
        {"truncation": "only_first", "max_length": 14},
        {"truncation": "only_second", "max_length": 11},
        {
            "truncation": "only_second",
            "max_length": 11,
            "stride": 2,
            "return_overflowing_tokens": True,
        },
        {"truncation": "only_second", "max_length": 11, "return_offsets_mapping": True},
    ],
    ids=str,
)
def test_pairs(ours, theirs, options):
    first, second = ["the cat", "a"], OTHERS[:1] + OTHERS[2:3]
    assert same(ours, theirs, first, second, **options)
    assert same(ours, theirs, first[0], second[0], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"max_length": 5},
        {"max_length": 5, "stride": 1, "return_overflowing_tokens": True},
        {"max_length": 6, "return_offsets_mapping": True},
        {"max_length": 9, "padding": "max_length"},
    ],
    ids=str,
)
def test_truncation_on_the_left(ours, theirs, options, monkeypatch):
    for tokenizer in (ours, theirs):
        monkeypatch.setattr(tokenizer, "truncation_side", "left")
    texts = TEXTS[:1] + TEXTS[2:]
    assert same(ours, theirs, texts, truncation=True, **options)
    assert same(ours, theirs, OTHERS, truncation="only_first", **options)
    options = {**options, "max_length": options["max_length"] + 5}
    pairs = ["the cat", "a"], OTHERS[:1] + OTHERS[2:3]
    assert same(ours, theirs, *pairs, truncation="only_second", **options)


def test_decoding(ours, theirs):
    ids = ours.encode("Paris is the [MASK] of France.", "No!")
    for skip in (False, True):
        assert ours.decode(ids, skip_special_tokens=skip) == theirs.decode(
            ids, skip_special_tokens=skip
        )
    assert ours.get_vocab() == theirs.get_vocab()
