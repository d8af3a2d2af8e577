"""Any text has ids in the vocabulary and spans inside the text, and can be decoded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.text.tokenizer import AlbertTokenizer

# Characters that normalization changes, drops, joins or makes several of.
ODD = "ßİΣςﬁ㎏ﷺ…½①Ａ각\u0301\u0308\u200b\u200d\u3000\xa0\u2028\x00\x7f\ufffd\U0010ffff▁漢😀ﾊﾟ``''19,"
CHARACTERS = st.one_of(st.characters(), st.sampled_from(ODD), st.sampled_from("ab cd,.\t\n[]"))
TEXTS = st.lists(
    st.one_of(st.text(CHARACTERS, max_size=12), st.sampled_from(["[MASK]", "[SEP]", "<unk>"])),
    max_size=6,
).map("".join)
ANY = st.one_of(TEXTS, st.binary(max_size=24))


@pytest.fixture(scope="module")
def tokenizer():
    return AlbertTokenizer.from_pretrained("small")


@given(text=ANY, pair=st.one_of(st.none(), ANY), split=st.booleans(), length=st.integers(3, 20))
def test_ids(tokenizer, text, pair, split, length):
    ids = tokenizer.encode(
        text, pair, split_special_tokens=split, truncation=True, max_length=length
    )
    assert len(ids) <= length
    assert 0 <= min(ids) <= max(ids) < tokenizer.vocab_size
    tokenizer.decode(ids)
    tokenizer.decode(ids, skip_special_tokens=True)


@given(text=ANY, split=st.booleans())
def test_offsets_lie_in_the_text_and_in_order(tokenizer, text, split):
    plain = tokenizer(text, split_special_tokens=split)
    detailed = tokenizer(text, split_special_tokens=split, return_offsets_mapping=True)
    assert detailed["input_ids"] == plain["input_ids"]
    offsets = np.array(detailed["offset_mapping"][1:-1]).reshape(-1, 2)
    assert (offsets >= 0).all()
    assert (offsets <= len(text)).all()
    assert (offsets[:, 0] <= offsets[:, 1]).all()
    assert (np.diff(offsets[:, 0]) >= 0).all()
    words = plain.word_ids()[1:-1]
    assert words == sorted(words)
    assert set(words) == set(range(len(set(words))))
