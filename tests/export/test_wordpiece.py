"""Both exporters take models with a WordPiece vocabulary, such as the Chinese ones."""

import pytest
from albert_tf_export import export_saved_model, export_tflite

from albert_tf.text.wordpiece import WordPieceTokenizer

SPECIAL = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]  # not SentencePiece's ids
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789,.!?:;[]今天气很好东京旅"


@pytest.mark.parametrize(
    "export", [export_saved_model, pytest.param(export_tflite, marks=pytest.mark.slow)]
)
def test_strings_and_ids(export, make_model, checked):
    pieces = [*SPECIAL, *LETTERS, *(f"##{each}" for each in LETTERS), "the", "quiet", "##light"]
    tokenizer = WordPieceTokenizer("\n".join(pieces).encode(), model_max_length=24)
    tagger = make_model("token-classification", vocab_size=tokenizer.vocab_size)
    report = checked(export, tagger, tokenizer)
    assert set(report.differences) == {"text", "ids"}
    assert all(each.value < 1e-5 for each in report.differences.values())
