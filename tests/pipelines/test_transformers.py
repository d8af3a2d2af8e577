"""The calls and results of transformers' pipelines, on the same directories.

transformers 5 has none for questions; tests/text/test_answers.py has results of an earlier one.
"""

import functools

import pytest

from albert_tf.pipelines import pipeline
from tests.pipelines.conftest import assert_same

pytest.importorskip("torch", reason="needs torch (pip install albert_tf[peers])")
transformers = pytest.importorskip(
    "transformers", reason="needs transformers (pip install albert_tf[peers])"
)
pytestmark = pytest.mark.peers

TEXTS = [
    "the cat sat on a mat",
    "a dog barked, near paris!",
    "ada lives in new york city. who sat?",
]
PAIR = {"text": "who sat on a mat", "text_pair": "the cat sat near ada"}
LONG = "ada lives in new york city and the old dog barked at the moon over france. " * 4
NAMES = "the cats and ada lives, in paristown near new yorks old city. her dog barked franced"


@pytest.fixture(scope="module")
def both(saved):
    """Returns a function that gives our pipeline and theirs of one directory."""

    @functools.cache
    def get(task, kind=None, **options):
        folder = saved(kind or task)
        theirs = transformers.pipeline(
            task,
            model=str(folder),
            tokenizer=transformers.AutoTokenizer.from_pretrained(folder),
            device="cpu",
            **options,
        )
        return pipeline(task, folder, **options), theirs

    return get


@pytest.mark.parametrize("inputs", [TEXTS[0], TEXTS[:1], TEXTS, PAIR, [PAIR, PAIR]], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": None},
        {"top_k": 1},
        {"top_k": 2},
        {"function_to_apply": "sigmoid"},
        {"function_to_apply": "none", "top_k": None},
        {"batch_size": 2},
    ],
    ids=str,
)
def test_text_classification(both, inputs, options):
    ours, theirs = both("text-classification")
    # By default transformers 5 gives ALBERT both texts of a pair as one segment.
    expected = theirs(inputs, **options, return_token_type_ids=True)
    assert_same(ours(inputs, **options), expected)


def test_text_classification_in_other_calls(both):
    ours, theirs = both("text-classification")
    options = {"truncation": True, "padding": True, "max_length": 12}
    assert_same(ours([LONG, TEXTS[0]], **options), theirs([LONG, TEXTS[0]], **options))
    streams = (each(text for text in TEXTS) for each in (ours, theirs))
    assert_same(*map(list, streams))
    ours, theirs = both("sentiment-analysis", "text-classification", top_k=None)
    assert_same(ours(TEXTS[0]), theirs(TEXTS[0]))
    assert_same(ours(TEXTS), theirs(TEXTS))


@pytest.mark.parametrize(
    "inputs",
    [
        "the [MASK] sat on a mat",
        ["the [MASK] sat on a mat"],
        ["the [MASK] sat", "a dog [MASK]!"],
        "the [MASK] sat on a [MASK].",
        ["the [MASK] sat on a [MASK]", "a [MASK]"],
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "options",
    [{}, {"top_k": 3}, {"targets": ["▁cat", "▁dog"]}, {"targets": "▁dog"}, {"targets": ["dog"]}],
    ids=str,
)
def test_fill_mask(both, inputs, options):
    ours, theirs = both("fill-mask")
    assert_same(ours(inputs, **options), theirs(inputs, **options))


def words(entities):
    """Entities without "word": ours is the raw text, theirs is decoded."""
    return [{name: each[name] for name in each if name != "word"} for each in entities]


@pytest.mark.parametrize("strategy", ["none", "simple", "first", "average", "max"])
@pytest.mark.parametrize("ignored", [["O"], []], ids=str)
@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
def test_token_classification(both, strategy, ignored):
    ours, theirs = both("ner", "token-classification")
    options = {"aggregation_strategy": strategy, "ignore_labels": ignored}
    found, expected = ours([*TEXTS, NAMES], **options), theirs([*TEXTS, NAMES], **options)
    assert sum(map(len, found)) > 9
    assert_same([words(each) for each in found], [words(each) for each in expected])
    if strategy == "none":
        assert_same(found, expected)
    assert_same(words(ours(NAMES, **options)), words(theirs(NAMES, **options)))


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
@pytest.mark.parametrize("stride", [0, 5])
@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
def test_token_classification_in_windows(both, strategy, stride):
    ours, theirs = both("token-classification")
    options = {"aggregation_strategy": strategy, "stride": stride}
    found = ours(LONG, **options)
    assert found[-1]["end"] > len(LONG) // 2
    assert_same(words(found), words(theirs(LONG, **options)))


def test_feature_extraction(both):
    ours, theirs = both("feature-extraction")
    assert_same(ours(TEXTS), theirs(TEXTS))
    found = ours(TEXTS[0], return_tensors=True)
    assert_same(found.tolist(), theirs(TEXTS[0], return_tensors=True).tolist())
    cut = theirs(LONG, tokenize_kwargs={"truncation": True})
    assert_same(ours(LONG, truncation=True), cut)
