"""Unigram files that transformers 5 writes: the same ids, pairs, and outputs."""

import json
import re
import unicodedata

import numpy as np
import pytest

from albert_tf.models import AlbertModel
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.conftest import SENTENCES
from tests.text.test_agreement import HARD, mixed_script_strings

transformers = pytest.importorskip(
    "transformers", minversion="5", reason="needs transformers (pip install albert_tf[peers])"
)
tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.peers

MARKS = re.compile('[()".–£€-]')  # the added tokens, at which the package splits texts
PAIRS = (
    ["The film was a quiet delight.", "a"],
    ["She sells fresh bread", "On the old corner!"],
)


def is_newer(character):
    """Returns whether the tables of the package may lack a character."""
    return unicodedata.category(character) == "Mn" or ord(character) > 0x10000


def texts(count):
    """Returns mixed texts without a space at the end, or marks after other characters."""
    found = (MARKS.sub(" ", text).strip() for text in [*HARD, *mixed_script_strings(count, seed=5)])
    return [text for text in found if not any(map(is_newer, text))]


def test_albert(published_vocabulary, tmp_path):
    source, folder = tmp_path / "source", tmp_path / "saved"
    source.mkdir()
    (source / "spiece.model").write_bytes(published_vocabulary.read_bytes())
    theirs = transformers.AlbertTokenizer.from_pretrained(source)
    theirs.save_pretrained(folder)
    assert not (folder / "spiece.model").exists()
    ours = AlbertTokenizer.from_pretrained(folder, digit_comma="plain")
    given = texts(3000)
    assert len(given) > 1000
    assert ours(given)["input_ids"] == theirs(given)["input_ids"]
    assert not set("()") & set(ours.all_special_tokens)


@pytest.fixture
def xlm_roberta_folder(train_sentencepiece, tmp_path):
    """Returns transformers' tokenizer with a vocabulary of the `tokenizers` package, as saved."""
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=150,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    trained = tokenizers.Tokenizer(tokenizers.models.Unigram())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trained.train_from_iterator(SENTENCES * 5, trainer)
    vocab = [*map(tuple, json.loads(trained.to_str())["model"]["vocab"])]
    proto = ModelProto.FromString(train_sentencepiece())
    theirs = transformers.XLMRobertaTokenizer(
        vocab=[*vocab, ("<mask>", 0.0)],
        _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap,
    )
    theirs.save_pretrained(tmp_path)
    return theirs, tmp_path


def test_xlm_roberta(xlm_roberta_folder):
    theirs, folder = xlm_roberta_folder
    ours = AlbertTokenizer.from_pretrained(folder)
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.mask_token_id == theirs.mask_token_id == len(theirs) - 1
    given = texts(3000)
    assert ours(given)["input_ids"] == theirs(given)["input_ids"]
    text = "The <mask> was </s> quiet."
    assert ours(text)["input_ids"] == theirs(text)["input_ids"]
    # Training isn't deterministic, so the number of tokens varies.
    length = max(map(len, theirs(PAIRS[0])["input_ids"])) + 6
    options = {"return_offsets_mapping": True, "truncation": "only_second", "stride": 1}
    for more in ({}, {"padding": True}, {"max_length": length, **options}):
        expected = theirs(*PAIRS, **more, return_token_type_ids=True)
        found = ours(*PAIRS, **more)
        offsets = expected.pop("offset_mapping", [])
        assert {name: found[name] for name in expected} == dict(expected)
        # They place a token that is only a space differently.
        space = ours.convert_tokens_to_ids("▁")
        rows = zip(found["input_ids"], found.get("offset_mapping", ()), offsets, strict=False)
        for ids, row, other in rows:
            for token, own, their in zip(ids, row, other, strict=True):
                assert own == their or token == space


def test_a_bert_with_this_vocabulary(xlm_roberta_folder):
    torch = pytest.importorskip("torch")
    theirs, folder = xlm_roberta_folder
    config = transformers.BertConfig(
        vocab_size=len(theirs) + 7,
        hidden_size=20,
        num_hidden_layers=3,
        num_attention_heads=5,
        intermediate_size=28,
    )
    bert = transformers.BertModel(config).eval()
    bert.save_pretrained(folder)
    model, tokenizer = AlbertModel.from_pretrained(folder), AlbertTokenizer.from_pretrained(folder)
    assert len(tokenizer) == config.vocab_size
    with torch.inference_mode():
        expected = bert(**theirs(*PAIRS, padding=True, return_tensors="pt")).last_hidden_state
    found = model(tokenizer(*PAIRS, padding=True, return_tensors="np")).last_hidden_state
    mask = tokenizer(*PAIRS, padding=True, return_tensors="np")["attention_mask"] > 0
    np.testing.assert_allclose(np.asarray(found)[mask], expected.numpy()[mask], atol=2e-5)
