"""The layer and the tokenizer return the same ids for any text; docs/text.md has exceptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.test_tokenizer import CHARACTERS

TEXTS = st.text(CHARACTERS.filter(lambda each: not "\ud800" <= each <= "\udfff"), max_size=30)
STRAY = st.binary(max_size=5).filter(lambda each: not each.decode("utf-8", "ignore"))
# Stray bytes join in the graph if only dropped characters separate them; "a" is never dropped.
BYTES = st.lists(st.one_of(TEXTS.map(str.encode), STRAY), max_size=4).map(b"a".join)
PIECES = (
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\nc\n,\n1\n19\n##9\ne\ni\n##i\no\n漢\nß\nss"
)


@pytest.fixture(scope="module", params=["sentencepiece", "wordpiece"])
def tokenizer(request, few_characters):
    from albert_tf.text.tokenizer import AlbertTokenizer
    from albert_tf.text.wordpiece import WordPieceTokenizer

    if request.param == "wordpiece":
        return WordPieceTokenizer(PIECES.encode(), split_special_tokens=True)
    return AlbertTokenizer.from_pretrained("small", split_special_tokens=True)


@pytest.fixture(scope="module")
def in_graph(tokenizer):
    import tensorflow as tf

    from albert_tf.text.preprocessing import AlbertPreprocessor

    run = tf.function(
        AlbertPreprocessor(tokenizer, max_length=32),
        input_signature=[(tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string))],
    )
    return lambda *texts: run(tuple(tf.constant(each, tf.string) for each in texts))


@given(pairs=st.lists(st.tuples(st.one_of(TEXTS, BYTES), TEXTS), min_size=1, max_size=4))
def test_same_ids(tokenizer, in_graph, pairs):
    first, second = (
        [each if isinstance(each, bytes) else each.encode() for each in texts]
        for texts in zip(*pairs, strict=True)
    )
    wanted = tokenizer(
        first, second, padding="max_length", truncation=True, max_length=32, return_tensors="np"
    )
    for name, values in in_graph(first, second).items():
        assert values.numpy().tolist() == wanted[name].tolist(), name
