import inspect
import sys

import pytest
from albert_tf_export import export_saved_model, export_tflite
from albert_tf_export.options import SavedModelOptions, TFLiteOptions

from albert_tf.errors import UserError
from albert_tf.options import flag


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 41}, "Received: max_length=41, max_position_embeddings=40"),
        ({"max_length": 2}, "at least 3, .* Received: max_length=2"),
    ],
)
def test_bad_options(export, options, message, classifier, tokenizer, tmp_path):
    with pytest.raises(UserError, match=message):
        export(classifier, tokenizer, tmp_path / "a", **{"max_length": 24, **options})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
def test_text_needs_tensorflow_text(export, classifier, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(UserError, match=r"needs the package tensorflow-text.* ids_only=True"):
        export(classifier, tokenizer, tmp_path / "a")
    TFLiteOptions(host="mediapipe")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
def test_vocabularies_that_differ(export, make_classifier, tokenizer, tmp_path):
    model = make_classifier(vocab_size=tokenizer.vocab_size + 7)
    sizes = f"{tokenizer.vocab_size} tokens .* vocab_size={tokenizer.vocab_size + 7}"
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
        (
            "masked-lm",
            {"choices": 3},
            "only to models such as AlbertForMultipleChoice. .* choices=3",
        ),
        ("multiple-choice", {"choices": 0}, "choices must be 1 or more. Received: 0"),
        ("encoder", {"predictions": 2}, "Received: predictions=2 with AlbertModel"),
        ("masked-lm", {"predictions": 1.5}, "predictions must be a whole number. Received: 1.5"),
        (None, {"quantize": "int4"}, "none, float16 or dynamic. Received: 'int4'"),
        (None, {"layers": "while"}, "layers must be loop or unrolled. Received: 'while'"),
        (None, {"host": "mediapipe", "ids_only": True}, "--host excludes --ids-only"),
        (None, {"host": "mediapipe", "layers": "unrolled"}, "--layers excludes --host"),
        (None, {"lengths": (8,), "max_length": 16}, "lengths excludes --max-length"),
        (None, {"lengths": (8, 8)}, "lengths must be different whole numbers.* .8, 8"),
        (None, {"lengths": (2,)}, "at least 3, .* Received: max_length=2"),
        (None, {"lengths": (8, 41)}, "max_length=41, max_position_embeddings=40"),
        (None, {"batch": 0}, "batch must be 1 or more. Received: 0"),
        (None, {"batch": 1.5}, "batch must be a whole number or dynamic. Received: 1.5"),
    ],
)
def test_options_of_tflite(task, options, message, make_model, classifier, tokenizer, tmp_path):
    model = make_model(task) if task else classifier
    with pytest.raises(UserError, match=message):
        export_tflite(model, tokenizer, tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "median"}, "pooling must be mean, cls or max. Received: 'median'"),
        ({"normalize": True}, "apply only to encoders. Received: pooling=None, normalize=True"),
        ({"max_batch": 0}, "max_batch must be 1 or more. Received: 0"),
        ({"max_bytes": 2**10, "max_length": 65}, "at least 1040 for max_length=65. Received: 1024"),
    ],
)
def test_options_of_saved_models(options, message, make_classifier, tokenizer, tmp_path):
    model = make_classifier(max_position_embeddings=128)
    with pytest.raises(UserError, match=message):
        export_saved_model(model, tokenizer, tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())


def test_a_function_takes_options_or_their_values(classifier, tokenizer, tmp_path):
    """Also the model, the tokenizer and the path by name; an unknown name is refused."""
    options = TFLiteOptions(ids_only=True, check=False)
    names = {"model": classifier, "tokenizer": tokenizer}
    one = export_tflite(classifier, tokenizer, tmp_path / "one", options)
    other = export_tflite(path=tmp_path / "other", ids_only=True, check=False, **names)
    assert one.path.read_bytes() == other.path.read_bytes()
    assert list(inspect.signature(export_tflite).parameters)[:3] == [*names, "path"]
    assert inspect.signature(export_tflite).parameters["batch"].default == 1
    with pytest.raises(TypeError, match="salt"):
        export_tflite(classifier, tokenizer, tmp_path / "a", salt=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_length", 24),
        ("pairs", False),
        ("max_bytes", 2048),
        ("warmup", "a"),
        ("pooling", "mean"),
        ("normalize", False),
    ],
)
def test_without_text_nothing_reads_texts(name, value):
    with pytest.raises(UserError, match=f"^{flag(name)} excludes --ids-only.$"):
        SavedModelOptions(ids_only=True, **{name: value})
