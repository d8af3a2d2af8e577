"""One table of bad inputs for every runtime: a clear error or the answer of Keras, and no crash.

benchmarks/RESULTS.md has the table in words. After each input the runtime answers a right one.
"""

import functools

import numpy as np
import pytest

from tests.export import conftest
from tests.export.c_program import Refused
from tests.export.test_tflite import text_runner

NAMES = ("input_ids", "attention_mask", "token_type_ids")
ANSWERED = None  # as Keras does


def rows(*shape, ids=9):
    values = np.full(shape, ids, np.int32)
    return dict(zip(NAMES, (values, np.ones_like(values), np.zeros_like(values)), strict=True))


def row(name, values, dtype=np.int32):
    """Returns a row of four pieces, with a different value for one input."""
    return rows(1, 4) | {name: np.array(values, dtype)}


def cast(dtype):
    return {name: each.astype(dtype) for name, each in rows(1, 4).items()}


def without(name):
    return {key: each for key, each in rows(1, 4).items() if key != name}


def strings(*texts):
    return {"text": np.array(texts, object)}


# Columns of the table: TensorFlow, whose C API says the same, LiteRT, its C API, and ONNX Runtime.
RUNTIMES = {"tensorflow": 0, "tensorflow-c": 0, "litert": 1, "litert-c": 2, "onnx": 3}
LOOKUP = ("is not in .0, ", *["index out of bounds"] * 2, "out of data bounds")
SHAPE = ("must have the shape of input_ids", *["HaveSameShapes"] * 2, "Non-zero status code")
LENGTH = ("must have 1 to 40 ids", "failed to", "Resizing|failed to", "Non-zero status code")
DTYPE = (
    "expected to be a int32|to be int32",
    "Cannot set tensor: Got value of type",
    "input_ids must have the dtype 2",
    "Unexpected input data type",
)
RANK = ("Graph execution error|The run", "failed to", "must have .* 2 axes", "Invalid rank")
MASK_RANK = (SHAPE[0], "HaveSameShapes", "must have .* 2 axes", "Invalid rank")
MISSING = (
    "missing a required argument|You must feed a value",
    "Invalid number of inputs",
    "must have all 3 inputs",
    "Required inputs",
)
UNKNOWN = (
    "unexpected keyword argument|the requested tensor",
    "Invalid number of inputs",
    "must have the named inputs",
    "Invalid input name",
)
IDS = {
    "no rows": (rows(0, 4), (ANSWERED, ANSWERED, "Resizing an input failed", ANSWERED)),
    "no pieces": (rows(1, 0), LENGTH),
    "10,000 rows": (rows(10_000, 2), [ANSWERED] * 4),
    "more pieces than positions": (rows(1, 41), LENGTH),
    "1 MB of pieces": (rows(1, 250_000), LENGTH),
    "id -1": (row("input_ids", [[2, -1, 9, 3]]), LOOKUP),
    "id past the vocabulary": (row("input_ids", [[2, 124, 9, 3]]), LOOKUP),
    "type -1": (row("token_type_ids", [[0, -1, 0, 0]]), LOOKUP),
    "type 2": (row("token_type_ids", [[0, 2, 0, 0]]), LOOKUP),
    "a mask of one": (row("attention_mask", [[1]]), SHAPE),
    "a mask in a column": (row("attention_mask", [[1]] * 4), SHAPE),
    "a mask without rows": (row("attention_mask", [1] * 4), MASK_RANK),
    "types in a column": (row("token_type_ids", [[0]] * 4), SHAPE),
    "int64": (cast(np.int64), DTYPE),
    "float32": (cast(np.float32), DTYPE),
    "int8": (cast(np.int8), DTYPE),
    "strings": (row("input_ids", [[b"a"] * 4], object), DTYPE),
    "one axis": ({name: each[0] for name, each in rows(1, 4).items()}, RANK),
    "three axes": (rows(1, 1, 4), RANK),
    "no mask": (without("attention_mask"), MISSING),
    "no input": ({}, MISSING),
    "an unknown input": (rows(1, 4) | {"labels": np.zeros([1, 4], np.int32)}, UNKNOWN),
}
# The signature `text` in TensorFlow and in LiteRT with tensorflow-text's operators.
TEXT_RUNTIMES = {"tensorflow": 0, "tensorflow-c": 0, "litert-text": 1}
TEXTS = {
    "no texts": (strings(), [ANSWERED] * 2),
    "an empty text": (strings(b""), [ANSWERED] * 2),
    "NUL": (strings(b"a\0 quiet\0", b"\0"), [ANSWERED] * 2),
    "invalid UTF-8": (strings(b"a \xff\xfe quiet\xc3", b"\xff"), [ANSWERED] * 2),
    "1 MB": (strings(b"noisy mess " * 95_000), [ANSWERED] * 2),
    "a word of 1 MB": (strings(b"a" * 1_000_000), [ANSWERED] * 2),
    "10,000 texts": (strings(*[b"a quiet boat"] * 10_000), [ANSWERED] * 2),
    "int32": ({"text": np.array([9], np.int32)}, ("to be a? ?string", "Cannot set tensor")),
    "no text": ({}, (MISSING[0], "Invalid number of inputs")),
    "an unknown text": (strings(b"a") | {"other": strings(b"a")["text"]}, (UNKNOWN[0], MISSING[1])),
}


@pytest.fixture(scope="module")
def load(written, ids_folder, serve, phone, classifier, tmp_path_factory):
    """Returns a function from a runtime and a signature to one from arrays to the outputs.

    Those of LiteRT and ONNX Runtime are new ones, because LiteRT repeats earlier errors.
    """
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter
    from albert_tf_export import export_saved_model, export_tflite

    # Only slow tests need the exports with `text`.
    def tflite(signature):
        return str(written(export_tflite, batch=None, ids_only=signature == "ids"))

    def folder(signature):
        return ids_folder if signature == "ids" else written(export_saved_model)

    @functools.cache
    def saved_model(signature):
        return tf.saved_model.load(folder(signature))

    def tensor(array):
        dtype = tf.string if array.dtype == object else array.dtype
        return tf.reshape(tf.constant(array.ravel().tolist(), dtype), array.shape)

    def tensorflow(signature):
        call = saved_model(signature).signatures[signature]
        return lambda **arrays: call(**{name: tensor(each) for name, each in arrays.items()})

    @functools.cache
    def tensorflow_c(signature):
        return serve(folder(signature), signature, "logits")

    @functools.cache
    def litert_c(signature):
        program = phone(tflite(signature), signature)

        def run(**arrays):
            before = len(program.errors())
            try:
                return program(**arrays)
            except Refused as error:
                raise Refused(f"{error} {program.errors()[before:]}") from error

        return run

    def litert(signature):
        return Interpreter(tflite(signature)).get_signature_runner(signature)

    @functools.cache
    def onnx_file():
        from albert_tf_export.onnx import convert
        from albert_tf_export.signatures import ids_signature

        path = tmp_path_factory.mktemp("onnx") / "model.onnx"
        signature = ids_signature(classifier, unroll="last", strings=False)
        path.write_bytes(convert(signature, ("batch", "length"), "none", {}))
        return path

    def onnx(signature):
        for package in ("onnx", "onnxruntime", "tf2onnx"):
            pytest.importorskip(package)
        import onnxruntime

        session = onnxruntime.InferenceSession(onnx_file())
        return lambda **arrays: {"logits": session.run(["logits"], arrays)[0]}

    loaders = {"tensorflow": tensorflow, "tensorflow-c": tensorflow_c, "litert": litert}
    loaders |= {"litert-c": litert_c, "onnx": onnx}
    loaders["litert-text"] = lambda signature: text_runner(tflite(signature))
    return lambda runtime, signature: loaders[runtime](signature)


def check(call, arrays, wanted, answer_of_keras):
    """Compares a result with that of Keras, or an error with a pattern."""
    if wanted is not ANSWERED:
        with pytest.raises(Exception, match=wanted):
            call(**arrays)
        return
    size = len(next(iter(arrays.values())))
    expected = answer_of_keras(arrays) if size else np.zeros([0, 3])
    np.testing.assert_allclose(call(**arrays)["logits"], expected, rtol=0, atol=2e-6)


@pytest.fixture(scope="module")
def of_keras(classifier):
    """Returns a function from a name in the table of ids to the logits of Keras."""
    return functools.cache(lambda name: classifier(IDS[name][0])["logits"])


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize(
    "runtime", [*list(RUNTIMES)[:-1], pytest.param("onnx", marks=pytest.mark.peers)]
)
def test_ids(runtime, name, load, of_keras, features, logits):
    arrays, wanted = IDS[name]
    call = load(runtime, "ids")
    check(call, arrays, wanted[RUNTIMES[runtime]], lambda _: of_keras(name))
    right = {key: each[:1] for key, each in features.items()}
    check(call, right, ANSWERED, lambda arrays: logits[:1])


@pytest.mark.slow  # a megabyte and 10,000 texts; most refusals are those of test_ids
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("runtime", TEXT_RUNTIMES)
def test_texts(runtime, name, load, classifier, tokenizer, logits):
    arrays, wanted = TEXTS[name]
    call = load(runtime, "text")

    def answer_of_keras(arrays):
        options = {"padding": True, "truncation": True, "split_special_tokens": True}
        rows = tokenizer(arrays["text"].tolist(), return_tensors="np", **options)
        return classifier(dict(rows))["logits"]

    check(call, arrays, wanted[TEXT_RUNTIMES[runtime]], answer_of_keras)
    check(call, strings(conftest.TEXTS[0].encode()), ANSWERED, lambda arrays: logits[:1])
