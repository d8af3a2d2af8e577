"""The surface beside Hugging Face's tokenizer, on text where their pieces agree."""

import pytest

from albert_tf.text.tokenizer import AlbertTokenizer

transformers = pytest.importorskip(
    "transformers", reason="needs transformers (pip install albert_tf[peers])"
)
pytestmark = pytest.mark.peers

TEXTS = ["the cat sat on the mat", "a", "  Two  words\u00a0here "]
PAIRS = ["the cat", "a"], ["a dog barked at the moon for hours", "the quick brown fox"]


@pytest.fixture(scope="module")
def ours():
    return AlbertTokenizer.from_pretrained("small")


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
    assert theirs.get_vocab() == ours.get_vocab()
    assert theirs.model_max_length == ours.model_max_length
    assert theirs("the [MASK] sat").input_ids == ours("the [MASK] sat").input_ids


WINDOWS = {"stride": 1, "return_overflowing_tokens": True}


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"add_special_tokens": False, "return_attention_mask": False},
        {"padding": True, "pad_to_multiple_of": 8},
        {"max_length": 5},
        {"padding": "max_length", "max_length": 9, "truncation": True},
        {"truncation": True, "max_length": 6, "return_offsets_mapping": True},
        {"truncation": True, "max_length": 5, "padding": True, **WINDOWS},
    ],
    ids=str,
)
def test_batches(ours, theirs, options, side, monkeypatch):
    for tokenizer in (ours, theirs):
        monkeypatch.setattr(tokenizer, "truncation_side", side)
    assert same(ours, theirs, TEXTS, **options)
    if not options.get("return_overflowing_tokens"):
        assert same(ours, theirs, TEXTS[0], **options)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "options",
    [
        {"padding": True},
        {"truncation": "only_first", "max_length": 14},
        {"truncation": "only_second", "max_length": 11, "return_offsets_mapping": True},
        {"truncation": "only_second", "max_length": 11, **WINDOWS},
    ],
    ids=str,
)
def test_pairs(ours, theirs, options, side, monkeypatch):
    for tokenizer in (ours, theirs):
        monkeypatch.setattr(tokenizer, "truncation_side", side)
    assert same(ours, theirs, *PAIRS, **options)
    assert same(ours, theirs, PAIRS[0][0], PAIRS[1][0], **options)


def test_words(ours, theirs):
    batch = [["The", "library", "", "New York", "[MASK]"], ["naïve", " ", "a", "books!"]]
    one, other = (each(batch, is_split_into_words=True, padding=True) for each in (ours, theirs))
    assert one.input_ids == other.input_ids
    for row in range(len(batch)):
        assert one.word_ids(row) == other.word_ids(row)
        assert one.sequence_ids(row) == other.sequence_ids(row)


@pytest.mark.parametrize("skip", [False, True])
def test_decoding(ours, theirs, skip):
    ids = ours.encode("Paris is the [MASK] of France.", "No!")
    assert ours.decode(ids, skip_special_tokens=skip) == theirs.decode(
        ids, skip_special_tokens=skip
    )
