import pytest
from albert_tf_export import export_saved_model, export_tflite

from albert_tf.errors import UserError


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "while"}, "layers must be one of unrolled, loop. Received: 'while'"),
        ({"max_length": 41}, "Received: max_length=41, max_position_embeddings=40"),
        ({"max_length": 2}, "between 3, .* Received: max_length=2"),
    ],
)
def test_bad_options(export, options, message, classifier, tokenizer, tmp_path):
    with pytest.raises(UserError, match=message):
        export(classifier, tokenizer, tmp_path / "a", **{"max_length": 24, **options})
    assert not list(tmp_path.iterdir())


def test_unknown_precision(classifier, tokenizer, tmp_path):
    with pytest.raises(UserError, match="none, float16, dynamic. Received: 'int4'"):
        export_tflite(classifier, tokenizer, tmp_path / "a", quantize="int4")


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
def test_vocabularies_that_differ(export, make_classifier, tokenizer, tmp_path):
    model = make_classifier(vocab_size=tokenizer.vocab_size + 7)
    sizes = f"{tokenizer.vocab_size} pieces .* vocab_size={tokenizer.vocab_size + 7}"
    with pytest.raises(UserError, match=f"the same vocabulary. Received: {sizes}"):
        export(model, tokenizer, tmp_path / "a", max_length=24)
