"""A C program with TF Serving's loader gives the logits of Keras for strings."""

import io
import subprocess

import numpy as np
import pytest
from albert_tf_export import export_saved_model
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.pipelines import pipeline


@pytest.fixture(scope="module")
def c_program(compiled, package_folder):
    """Returns the compiled `serve_saved_model`, linked with the libraries of TensorFlow's wheel."""
    tensorflow = package_folder("tensorflow")
    libraries = [
        library
        for pattern in ("libtensorflow_cc.*", "libtensorflow_framework.*")
        for library in sorted(tensorflow.glob(pattern))[:1]
    ]
    headers = ["-isystem", tensorflow / "include"]
    return compiled("serve_saved_model.c", *headers, *libraries, f"-Wl,-rpath,{tensorflow}")


@pytest.fixture(scope="module")
def serve(c_program, package_folder, texts):
    """Returns a function that runs the C program on texts and returns the finished process."""
    folder = package_folder("tensorflow_text") / "python/ops"
    names = ("_fast_sentencepiece_tokenizer.so", "_sentencepiece_tokenizer.so")
    operators = ",".join(str(folder / name) for name in names)

    def run(folder, source, *fetches, texts=texts, library=operators):
        lines = "".join(f"{text}\n" for text in texts).encode()
        command = [c_program, library, folder, source, *fetches]
        return subprocess.run(command, input=lines, capture_output=True, timeout=300)

    return run


def tensors(folder, signature="serving_default"):
    """Returns the names of the input and output tensors of a signature."""
    saved_model = saved_model_pb2.SavedModel()
    saved_model.ParseFromString((folder / "saved_model.pb").read_bytes())
    declared = saved_model.meta_graphs[0].signature_def[signature]
    return (
        {name: tensor.name for name, tensor in declared.inputs.items()},
        {name: tensor.name for name, tensor in declared.outputs.items()},
    )


@pytest.mark.parametrize("layers", ["loop", pytest.param("unrolled", marks=pytest.mark.slow)])
def test_serves_strings(layers, written, serve, logits):
    folder = written(export_saved_model, layers=layers)
    inputs, outputs = tensors(folder)
    answer = serve(folder, inputs["text"], outputs["logits"], outputs["probabilities"])
    assert answer.returncode == 0, answer.stderr.decode()
    rows = np.loadtxt(io.BytesIO(answer.stdout), ndmin=2)
    np.testing.assert_allclose(rows[:, :3], logits, rtol=0, atol=2e-6)
    np.testing.assert_allclose(rows[:, 3:].sum(axis=1), 1, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_serves_a_tagger(checked, serve):
    """Its outputs have an axis of words, as long as the longest row."""
    folder = checked(export_saved_model, "token-classification").path
    inputs, outputs = tensors(folder)
    names = ("words", "starts", "end_bytes")
    texts = ["the film was slow", "slow"]
    answer = serve(folder, inputs["text"], *(outputs[name] for name in names), texts=texts)
    assert answer.returncode == 0, answer.stderr.decode()
    first, second = (line.split("\t") for line in answer.stdout.decode().splitlines())
    assert first == [*texts[0].split(), "0", "4", "9", "13", "3", "8", "12", "17"]
    assert second == ["slow", "", "", "", *"0000", "4", *"000"]


def test_serves_answers(checked, serve, make_model, tokenizer):
    folder = checked(export_saved_model, "question-answering").path
    inputs, outputs = tensors(folder)
    rows = [("What?", "The  café 🦕 died."), ("?", "")]  # in one row of 24 pieces
    source = f"{inputs['text']},{inputs['text_pair']}"
    names = ("answer", "start", "end", "score")
    found = serve(folder, source, *(outputs[name] for name in names), texts=map("|".join, rows))
    assert found.returncode == 0, found.stderr.decode()
    first, second = (line.split("\t") for line in found.stdout.decode().splitlines())
    ask = pipeline("question-answering", make_model("question-answering"), tokenizer)
    expected = ask(question=rows[0][0], context=rows[0][1])
    assert first[:3] == [str(expected[name]) for name in names[:3]]
    assert float(first[3]) == pytest.approx(expected["score"], abs=1e-5)
    assert second == ["", "0", "0", "0"]


NAMES = ("input_ids", "attention_mask", "token_type_ids")


def line(*inputs):
    return "|".join(" ".join(map(str, row)) for row in inputs)


def test_serves_ids(written, serve, features, logits):
    folder = written(export_saved_model)
    for signature, names in (("ids", NAMES), ("padded_ids", NAMES[:1])):
        inputs, outputs = tensors(folder, signature)
        rows = [line(*row) for row in zip(*(features[name] for name in names), strict=True)]
        source = ",".join(inputs[name] for name in names)
        answer = serve(folder, source, outputs["logits"], texts=rows)
        assert answer.returncode == 0, answer.stderr.decode()
        found = np.loadtxt(io.BytesIO(answer.stdout), ndmin=2)
        np.testing.assert_allclose(found, logits, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("signature", "row", "message"),
    [
        ("ids", line([2, -1, 3], [1, 1, 1], [0, 0, 0]), "= -1 is not in [0, "),
        ("ids", line([2, 124, 3], [1, 1, 1], [0, 0, 0]), "= 124 is not in [0, "),
        ("ids", line([2, 9, 3], [1, 1, 1], [0, 2, 0]), "= 2 is not in [0, "),
        ("ids", line([2, 9, 3], [1], [0, 0, 0]), "attention_mask must have the shape"),
        ("ids", line([2, 9, 3], [1, 1, 1], [0, 0]), "token_type_ids must have the shape"),
        ("padded_ids", line([2, 9, -1, 3]), "= -1 is not in [0, "),
        ("padded_ids", line([2, 9, 2, 9, 3]), "Each row of input_ids must be"),
    ],
)
def test_refuses_ids(signature, row, message, written, serve):
    folder = written(export_saved_model)
    inputs, outputs = tensors(folder, signature)
    names = NAMES[: len(inputs)]
    source = ",".join(inputs[name] for name in names)
    answer = serve(folder, source, outputs["logits"], texts=[row])
    assert answer.returncode == 1
    assert message in answer.stderr.decode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"library": "nowhere.so"}, "nowhere.so: "),
        ({"folder": "nowhere"}, "nowhere: Could not find SavedModel"),
        ({"source": "absent:0"}, "must have the requested tensor. Received: absent:0"),
        ({"texts": []}, "must have at least one line"),
    ],
)
def test_says_what_is_wrong(serve, written, change, message):
    folder = written(export_saved_model)
    inputs, outputs = tensors(folder)
    call = {"folder": folder, "source": inputs["text"]} | change
    answer = serve(call.pop("folder"), call.pop("source"), outputs["logits"], **call)
    assert answer.returncode == 1
    assert message in answer.stderr.decode()
