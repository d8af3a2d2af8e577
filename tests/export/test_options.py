import pytest
from albert_tf_export import export_saved_model, export_tflite

from albert_tf.errors import UserError


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "while"}, "layers must be one of unrolled, loop. Received: 'while'"),
        ({"max_length": 41}, "Received: max_length=41, max_position_embeddings=40"),
        ({"max_length": 2}, "at least 3, .* Received: max_length=2"),
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


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
@pytest.mark.parametrize("task", ["question-answering", "multiple-choice"])
def test_tasks_of_pairs(export, task, make_model, tokenizer, tmp_path):
    with pytest.raises(UserError, match="must come in pairs. Received: pairs=False. Leave pairs"):
        export(make_model(task), tokenizer, tmp_path / "a", pairs=False)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("masked-lm", {"choices": 3}, "AlbertForMultipleChoice. Received: choices=3 with Albert"),
        ("multiple-choice", {"choices": 0}, "choices must be .* above 0. Received: 0"),
        ("encoder", {"predictions": 2}, "Received: predictions=2 with AlbertModel"),
        ("masked-lm", {"predictions": 1.5}, "predictions must be .* Received: 1.5"),
    ],
)
def test_counts(task, options, message, make_model, tokenizer, tmp_path):
    with pytest.raises(UserError, match=message):
        export_tflite(make_model(task), tokenizer, tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())
