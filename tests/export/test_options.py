import sys
from functools import partial

import numpy as np
import pytest
from albert_tf_export import export_saved_model, export_tflite, export_web
from albert_tf_export.options import TFLiteOptions, in_precision

from albert_tf.errors import UserError


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("masked-lm", {"max_length": 41}, "max_length=41, max_position_embeddings=40"),
        ("masked-lm", {"max_length": 2}, "at least 3, .* Received: max_length=2"),
        ("question-answering", {"pairs": False}, "^AlbertForQuestionAnswering .* Drop pairs"),
    ],
)
def test_options_of_texts(task, options, message, model_of, tokenizer, tmp_path):
    for export in (export_saved_model, export_tflite):
        with pytest.raises(UserError, match=message):
            export(model_of(task), tokenizer, tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "export", [export_saved_model, partial(export_tflite, ids_only=True), export_web]
)
def test_the_home_folder(export, classifier, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))  # of Windows
    (tmp_path / "taken").touch()
    with pytest.raises(UserError, match=f"{tmp_path / 'taken'}"):
        export(classifier, tokenizer, "~/taken")


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
def test_text_needs_tensorflow_text(export, classifier, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(UserError, match=r"requires tensorflow-text, .* ids_only=True"):
        export(classifier, tokenizer, tmp_path / "a")
    TFLiteOptions(host="mediapipe")
    assert not list(tmp_path.iterdir())


def test_vocabularies_that_differ(model_of, tokenizer, tmp_path):
    model = model_of("sequence-classification", vocab_size=tokenizer.vocab_size + 7)
    sizes = f"{tokenizer.vocab_size} tokens .* vocab_size={tokenizer.vocab_size + 7}"
    for export in (export_saved_model, export_tflite):
        with pytest.raises(UserError, match=sizes):
            export(model, tokenizer, tmp_path / "a", max_length=24)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("masked-lm", {"choices": 3}, "AlbertForMultipleChoice. .* choices=3"),
        ("encoder", {"predictions": 2}, "predictions=2 with AlbertModel"),
        ("encoder", {"host": "mediapipe", "ids_only": True}, "^--host .* with --ids-only"),
        ("encoder", {"pooling": "mean", "normalize": True}, "^--pooling requires --host.$"),
        ("encoder", {"host": "mediapipe", "layers": "unrolled"}, "^--layers .* with --host"),
        ("encoder", {"lengths": (2,)}, "Received: max_length=2"),
        ("encoder", {"lengths": (8, 41)}, "max_length=41, max_position_embeddings=40"),
    ],
)
def test_options_of_tflite(task, options, message, model_of, tokenizer, tmp_path):
    with pytest.raises(UserError, match=message):
        export_tflite(model_of(task), tokenizer, tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())


SAVED_MODEL_OPTIONS = [
    ({"pooling": "median"}, "Received: 'median'"),
    ({"pooling": "mean"}, "Received: pooling='mean', normalize=None"),
    ({"normalize": True}, "Received: pooling=None, normalize=True"),
    ({"ids_only": True, "max_length": 24}, "^--max-length .* with --ids-only.$"),
    ({"ids_only": True, "pairs": False}, "^--pairs .* with --ids-only.$"),
    ({"ids_only": True, "max_bytes": 2048}, "^--max-bytes .* with --ids-only.$"),
    ({"ids_only": True, "warmup": "a"}, "^--warmup .* with --ids-only.$"),
    ({"ids_only": True, "pooling": "cls"}, "^--pooling .* with --ids-only.$"),
    ({"ids_only": True, "normalize": False}, "^--normalize .* with --ids-only.$"),
    ({"max_bytes": 1023}, "1024 or more. Received: 1023"),
    ({"max_bytes": 2**10, "max_length": 65}, "at least 1040 for max_length=65. Received: 1024"),
]


def test_options_of_saved_models(model_of, tokenizer, tmp_path):
    model = model_of("sequence-classification", max_position_embeddings=128)
    for options, message in SAVED_MODEL_OPTIONS:
        with pytest.raises(UserError, match=message):
            export_saved_model(model, tokenizer, tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())


def test_a_copy_in_another_precision_has_the_adapters(make_model):
    adapted = make_model("encoder", dtype="mixed_bfloat16", num_hidden_layers=1)
    adapted.encoder.blocks[0].attention.query.enable_lora(2)
    copy = in_precision(adapted, "float32")
    for one, other in zip(copy.weights, adapted.weights, strict=True):
        assert one.path == other.path and one.dtype == "float32"
        np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
def test_weights_that_a_file_cannot_have(make_model, tokenizer, tmp_path):
    quantized = make_model("encoder", num_hidden_layers=1)
    quantized.quantize("int8")
    with pytest.raises(UserError, match="int8 weights"):
        export_tflite(quantized, tokenizer, tmp_path / "a", ids_only=True)
    with pytest.raises(UserError, match="type_vocab_size >= 2. Received: 1"):
        one_type = make_model("encoder", type_vocab_size=1)
        export_tflite(one_type, tokenizer, tmp_path / "a", pairs=True)
    assert not list(tmp_path.iterdir())
