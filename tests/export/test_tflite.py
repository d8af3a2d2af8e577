import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps
from albert_tf_export import ParityError, check, export_tflite
from albert_tf_export.check import Run
from albert_tf_export.report import Difference

LABELS = ["bad", "naïve", "good"]
FORMS = ("loop", "unrolled")
PRECISIONS = ("none", "float16", "dynamic")
# For logits near 1 of this tiny model.
ATOL = {"none": 2e-6, "float16": 5e-3, "dynamic": 0.2}


def unpacked(path):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))


def graphs(path):
    """Returns the names of each graph's operators in the order of the file."""
    model = unpacked(path)
    builtin = {value: name for name, value in vars(schema.BuiltinOperator).items()}
    names = [
        (code.customCode or b"").decode()
        or builtin[max(code.builtinCode, code.deprecatedBuiltinCode)]
        for code in model.operatorCodes
    ]
    return [[names[each.opcodeIndex] for each in graph.operators] for graph in model.subgraphs]


def tensors(path):
    """Returns shape and name of the dtype of each constant."""
    model = unpacked(path)
    dtype = {value: name for name, value in vars(schema.TensorType).items()}
    return {
        (tuple(tensor.shape), dtype[tensor.type])
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.shape is not None and model.buffers[tensor.buffer].data is not None
    }


def from_ids(path, features):
    """Returns the outputs of `ids` from an interpreter without custom operators."""
    signature = Interpreter(str(path)).get_signature_runner("ids")
    size = len(features["input_ids"])
    return [signature(**{k: v[i : i + 1] for k, v in features.items()}) for i in range(size)]


def text_runner(path):
    import tensorflow_text  # noqa: F401 (loads the libraries that the next one needs)
    from tensorflow_text.core.pybinds import tflite_registrar

    interpreter = InterpreterWithCustomOps(tflite_registrar.SELECT_TFTEXT_OPS, model_path=str(path))
    return interpreter.get_signature_runner("text")


def from_text(path, *texts):
    signature = text_runner(path)
    rows = zip(*texts, strict=True)
    names = ("text", "text_pair")
    return [
        signature(**{n: np.array([t.encode()], object) for n, t in zip(names, row, strict=False)})
        for row in rows
    ]


def logits_of(answers):
    return np.concatenate([answer["logits"] for answer in answers])


@pytest.mark.parametrize(
    ("layers", "quantize"),
    [
        ("loop", "none"),
        pytest.param("loop", "float16", marks=pytest.mark.slow),
        ("loop", "dynamic"),
        pytest.param("unrolled", "none", marks=pytest.mark.slow),
    ],
)
def test_ids_and_strings_give_what_keras_gives(layers, quantize, written, texts, features, logits):
    path = written(export_tflite, layers=layers, quantize=quantize)
    ids, text = from_ids(path, features), from_text(path, texts)
    np.testing.assert_allclose(logits_of(ids), logits, rtol=0, atol=ATOL[quantize])
    np.testing.assert_allclose(logits_of(text), logits, rtol=0, atol=ATOL[quantize])
    numbers = {"logits": np.float32, "probabilities": np.float32}
    for answer in ids:
        assert {name: value.dtype for name, value in answer.items()} == numbers
    for answer in text:
        strings = {"label": object, "classes": object}
        assert {name: value.dtype for name, value in answer.items()} == numbers | strings
        assert [name.decode() for name in answer["classes"][0]] == LABELS
        assert answer["label"][0].decode() == LABELS[answer["logits"].argmax()]
        assert answer["probabilities"].sum() == pytest.approx(1, abs=1e-6)


def test_strings_need_the_operators_of_tensorflow_text(written):
    interpreter = Interpreter(str(written(export_tflite)))
    assert interpreter.get_signature_list()["ids"]["inputs"] == [
        "attention_mask",
        "input_ids",
        "token_type_ids",
    ]
    interpreter.allocate_tensors()  # hosts without signatures call the graph of `ids`
    shapes = {tuple(each["shape_signature"]) for each in interpreter.get_input_details()}
    assert shapes == {(1, -1)}
    text = interpreter.get_signature_runner("text")
    with pytest.raises(RuntimeError, match="unresolved custom op: TFText>FastSentencepiece"):
        text(text=np.array([b"A quiet delight."], object))


def test_one_loop_for_both_signatures(written):
    ids, text, *loops = graphs(written(export_tflite, layers="loop"))
    assert ids.count("WHILE") == text.count("WHILE") == 1
    assert len(loops) == 2  # condition and body
    assert sum(each.count("BATCH_MATMUL") for each in loops) == 2
    unrolled = graphs(written(export_tflite, layers="unrolled"))
    assert [each.count("BATCH_MATMUL") for each in unrolled] == [6, 6]


def test_variables_are_constants(written):
    for layers in FORMS:
        found = {name for each in graphs(written(export_tflite, layers=layers)) for name in each}
        assert not {name for name in found if "VARIABLE" in name or name.startswith("Flex")}
        assert "VAR_HANDLE" not in found


@pytest.mark.parametrize(
    ("quantize", "dtype"), [("none", "FLOAT32"), ("float16", "FLOAT16"), ("dynamic", "INT8")]
)
def test_all_large_weights_are_stored_in_the_precision(quantize, dtype, written, tokenizer):
    found = tensors(written(export_tflite, quantize=quantize))
    large = {(shape, of) for shape, of in found if np.prod(shape) > 1024 and "STRING" not in of}
    assert ((tokenizer.vocab_size, 16), dtype) in large  # the embedding table
    assert {of for shape, of in large if len(shape) == 2} == {dtype}


def test_sizes(written):
    size = {q: written(export_tflite, quantize=q).stat().st_size for q in PRECISIONS}
    assert size["dynamic"] < size["float16"] < size["none"]


def test_ids_only(written, features, logits):
    path = written(export_tflite, ids_only=True)
    assert list(Interpreter(str(path)).get_signature_list()) == ["ids"]
    assert not any("TFText" in name for each in graphs(path) for name in each)
    found = logits_of(from_ids(path, features))
    np.testing.assert_allclose(found, logits, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_groups_keep_their_own_loops(make_classifier, tokenizer, tmp_path, texts, features):
    model = make_classifier(num_hidden_groups=2, num_hidden_layers=5, inner_group_num=2)
    export_tflite(model, tokenizer, tmp_path / "a", max_length=24, check=False)
    expected = model(features)["logits"]
    for answers in (from_ids(tmp_path / "a", features), from_text(tmp_path / "a", texts)):
        np.testing.assert_allclose(logits_of(answers), expected, rtol=0, atol=1e-5)
    ids, text, *loops = graphs(tmp_path / "a")
    assert ids.count("WHILE") == text.count("WHILE") == 2
    assert sum(each.count("BATCH_MATMUL") for each in loops) == 8


@pytest.mark.slow
def test_is_checked_in_fresh_processes(reports):
    report = reports(export_tflite, check=True)
    assert set(report.differences) == {"ids", "text"}
    assert all(each.value < 1e-5 < each.tolerance for each in report.differences.values())
    assert report.size == report.path.stat().st_size


def test_pairs(classifier, tokenizer, tmp_path):
    path = tmp_path / "model.tflite"
    export_tflite(classifier, tokenizer, path, max_length=24, pairs=True, batch=None, check=False)
    first, second = ["A quiet delight.", "mess " * 50], ["noisy mess " * 9, "bread " * 50]
    encoded = tokenizer(first, second, padding=True, truncation=True, return_tensors="np")
    found = logits_of(from_text(path, first, second))
    np.testing.assert_allclose(found, classifier(dict(encoded))["logits"], rtol=0, atol=2e-6)
    texts, partners = (
        np.array([text.encode() for text in each], object) for each in (first, second)
    )
    with pytest.raises(RuntimeError, match="HaveSameShapes"):
        text_runner(path)(text=texts, text_pair=partners[:1])


@pytest.mark.parametrize("found", [0.31, pytest.param(float("nan"), marks=pytest.mark.slow)])
def test_wrong_answers_remove_it(found, classifier, tokenizer, tmp_path, monkeypatch):
    difference = Difference("logits", found, 0.2)
    monkeypatch.setattr(check, "run", lambda *_: {"ids": Run([])})
    monkeypatch.setattr(check, "_difference", lambda *_: difference)
    with pytest.raises(ParityError, match=f"Received: .* {found} from its signature 'ids'"):
        export_tflite(classifier, tokenizer, tmp_path / "a", ids_only=True)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(classifier, tokenizer, tmp_path, files_of_at_most):
    path = tmp_path / "model.tflite"
    path.write_text("the one before")
    with pytest.raises(OSError, match="File too large"), files_of_at_most(60_000):
        options = {"ids_only": True, "force": True, "check": False}
        export_tflite(classifier, tokenizer, path, **options)
    assert [file.name for file in tmp_path.iterdir()] == ["model.tflite"]
    assert path.read_text() == "the one before"
