"""One table of bad inputs for every runtime: a clear error or the answer of Keras, and no crash.

docs/serving.md has the table in words. After each input the runtime answers a right one.
"""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import re

import numpy as np
import pytest

from tests.export.c_program import Refused

NAMES = ("input_ids", "attention_mask", "token_type_ids")
ANSWERED = None  # as Keras does


def rows(*shape, ids=9):
    values = np.full(shape, ids, np.int32)
    return dict(zip(NAMES, (values, np.ones_like(values), np.zeros_like(values)), strict=True))


def row(name, values, dtype=np.int32):
    """A row of four pieces with other values of an input."""
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
    "10,000 rows": (rows(10_000, 4), [ANSWERED] * 4),
    "more pieces than positions": (rows(1, 41), LENGTH),
    "1 MB of pieces": (rows(1, 250_000), LENGTH),
    "id -1": (row("input_ids", [[2, -1, 9, 3]]), LOOKUP),
    "id past the vocabulary": (row("input_ids", [[2, 124, 9, 3]]), LOOKUP),
    "least id": (row("input_ids", [[2, -(2**31), 9, 3]]), LOOKUP),
    "largest id": (row("input_ids", [[2, 2**31 - 1, 9, 3]]), LOOKUP),
    "type -1": (row("token_type_ids", [[0, -1, 0, 0]]), LOOKUP),
    "type 2": (row("token_type_ids", [[0, 2, 0, 0]]), LOOKUP),
    "a shorter mask": (row("attention_mask", [[1, 1, 1]]), SHAPE),
    "a longer mask": (row("attention_mask", [[1] * 5]), SHAPE),
    "a mask of one": (row("attention_mask", [[1]]), SHAPE),
    "a mask of two rows": (row("attention_mask", [[1] * 4] * 2), SHAPE),
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


def litert(path):
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(path).get_signature_runner("ids")


def onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    return lambda **arrays: {"logits": session.run(["logits"], arrays)[0]}


def told(call, before, arrays):
    """Returns the logits, or the error; LiteRT repeats all errors `before` in each one."""
    try:
        return call(**arrays)["logits"]
    except Exception as error:
        message = str(error).removeprefix("".join(before)) or str(error)
        before.append(message)
        return f"{type(error).__name__}: {message}"


_CHILD = []


def _load(load, path):
    _CHILD[:] = [load(path), []]


def _answer(arrays):
    return told(*_CHILD, arrays)


def in_child(stack, load, path):
    """Returns the runtime in a process of its own, which a crash would end."""
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(1, context, _load, (load, str(path)))
    stack.enter_context(pool)
    return lambda arrays: pool.submit(_answer, arrays).result(timeout=300)


@pytest.fixture(scope="module")
def answer(written, serve, phone, classifier, tmp_path_factory):
    """Returns a function that loads a signature in a runtime; that gives logits or an error."""
    import tensorflow as tf
    from albert_tf_export import export_saved_model, export_tflite

    any_batch = functools.partial(written, export_tflite, batch=None)
    saved_model = functools.cache(lambda: tf.saved_model.load(written(export_saved_model)))

    def tensorflow(signature):
        call = saved_model().signatures[signature]

        def run(**arrays):
            tensors = {
                name: tf.constant(each.tolist(), tf.string if each.dtype == object else each.dtype)
                if each.size
                else tf.zeros(each.shape, tf.string if each.dtype == object else each.dtype)
                for name, each in arrays.items()
            }
            return {"logits": call(**tensors)["logits"].numpy()}

        return run

    def litert_c():
        program = phone(any_batch())

        def run(**arrays):
            before = len(program.errors())
            try:
                return program(**arrays)
            except Refused as error:
                raise Refused(f"{error} {program.errors()[before:]}") from error

        return run

    def litert_text():
        import tensorflow_text  # noqa: F401 (loads the libraries that its operators need)
        from ai_edge_litert.interpreter import InterpreterWithCustomOps
        from tensorflow_text.core.pybinds import tflite_registrar

        operators = tflite_registrar.SELECT_TFTEXT_OPS
        interpreter = InterpreterWithCustomOps(operators, model_path=str(any_batch()))
        return interpreter.get_signature_runner("text")

    def onnx_file():
        for package in ("onnx", "onnxruntime", "tf2onnx"):
            pytest.importorskip(package)
        from albert_tf_export.onnx import convert
        from albert_tf_export.signatures import ids_signature

        path = tmp_path_factory.mktemp("onnx") / "model.onnx"
        signature = ids_signature(classifier, unroll="last", strings=False)
        convert(signature, ("batch", "length"), "none", {}, path)
        return path

    with contextlib.ExitStack() as stack:

        @functools.cache
        def made(runtime, signature):
            if runtime == "litert":
                return in_child(stack, litert, any_batch())
            if runtime == "onnx":
                return in_child(stack, onnx, onnx_file())
            call = {
                "tensorflow": lambda: tensorflow(signature),
                "tensorflow-c": lambda: serve(written(export_saved_model), signature, "logits"),
                "litert-c": litert_c,
                "litert-text": litert_text,
            }[runtime]()
            return functools.partial(told, call, [])

        yield made


def answer_of_keras(arrays, classifier, tokenizer=None):
    """Returns the logits for ids or texts."""
    if not next(iter(arrays.values())).size:
        return np.zeros([0, 3])
    if "text" in arrays:
        options = {"padding": True, "truncation": True, "split_special_tokens": True}
        arrays = dict(tokenizer(arrays["text"].tolist(), return_tensors="np", **options))
    return classifier(arrays)["logits"]


def check(found, wanted, expected):
    """Compares an answer with Keras', or an error with a pattern."""
    if wanted is not ANSWERED:
        assert isinstance(found, str) and re.search(wanted, found), found
        return
    assert not isinstance(found, str), found
    np.testing.assert_allclose(found, expected(), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize(
    "runtime", [*list(RUNTIMES)[:-1], pytest.param("onnx", marks=pytest.mark.peers)]
)
def test_ids(runtime, name, answer, classifier, features, logits):
    arrays, wanted = IDS[name]
    call = answer(runtime, "ids")
    expected = functools.partial(answer_of_keras, arrays, classifier)
    check(call(arrays), wanted[RUNTIMES[runtime]], expected)
    check(call({key: each[:1] for key, each in features.items()}), ANSWERED, lambda: logits[:1])


@pytest.mark.slow  # a megabyte and 10,000 texts; most refusals are those of test_ids
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("runtime", TEXT_RUNTIMES)
def test_texts(runtime, name, answer, classifier, tokenizer, texts, logits):
    arrays, wanted = TEXTS[name]
    call = answer(runtime, "text")
    expected = functools.partial(answer_of_keras, arrays, classifier, tokenizer)
    check(call(arrays), wanted[TEXT_RUNTIMES[runtime]], expected)
    check(call(strings(texts[0].encode())), ANSWERED, lambda: logits[:1])
