"""Both exporters take models with a WordPiece vocabulary, such as the Chinese ones."""

import pytest
from albert_tf_export import export_saved_model, export_tflite

from albert_tf.text.wordpiece import WordPieceTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789,.!?:;[]今天气很好东京旅"
SPECIAL = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def wordpiece():
    """Returns a tokenizer whose special tokens have other ids than SentencePiece's."""
    pieces = [*SPECIAL, *LETTERS, *(f"##{each}" for each in LETTERS), "the", "quiet", "##light"]
    content = "".join(f"{piece}\n" for piece in pieces).encode()
    return WordPieceTokenizer(content, model_max_length=24)


@pytest.mark.parametrize(
    "export", [export_saved_model, pytest.param(export_tflite, marks=pytest.mark.slow)]
)
def test_strings_and_ids(export, make_model, wordpiece, checked):
    tagger = make_model("token-classification", vocab_size=wordpiece.vocab_size)
    report = checked(export, tagger, wordpiece)
    assert set(report.differences) == {"text", "ids"}
    assert all(each.value < 1e-5 for each in report.differences.values())
