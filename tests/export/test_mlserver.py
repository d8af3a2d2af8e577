"""MLServer runs exports with the runtime in export/serving/mlserver."""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from albert_tf_export import export_saved_model, export_tflite

from tests.export.test_bad_input import IDS, TEXTS, answer_of_keras

pytestmark = pytest.mark.servers
FOLDER = Path(__file__).parents[2] / "export/serving/mlserver"


def ask(url, content=None):
    """Returns status and JSON, or text, of an answer."""
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    try:
        return status, json.loads(body)
    except ValueError:
        return status, body.decode()


def settings(signature, uri):
    found = json.loads((FOLDER / "model-settings.json").read_text())
    found["parameters"]["uri"], found["parameters"]["extra"] = uri, {"signature": signature}
    return found | {"name": signature, "max_batch_time": 0.05}


@pytest.fixture(scope="module")
def server(written, tmp_path_factory, free_ports):
    """Returns the addresses of a server of two models: texts, and ids for LiteRT."""
    pytest.importorskip("mlserver")
    folder, ports = tmp_path_factory.mktemp("mlserver"), free_ports(3)
    names = ("http_port", "grpc_port", "metrics_port")
    common = json.loads((FOLDER / "settings.json").read_text())
    assert common.keys() > set(names)
    common |= {"host": "127.0.0.1", **dict(zip(names, ports, strict=True))}
    (folder / "settings.json").write_text(json.dumps(common))
    shutil.copytree(written(export_saved_model), folder / "text/1")
    (folder / "ids").mkdir()
    file = written(export_tflite, ids_only=True, batch=None)
    shutil.copy(file, folder / "ids/model.tflite")
    for name, uri in (("text", "1"), ("ids", "model.tflite")):
        (folder / name / "model-settings.json").write_text(json.dumps(settings(name, uri)))
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "TF_CPP_MIN_LOG_LEVEL": "2"}
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [Path(sys.executable).with_name("mlserver"), "start", folder],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            until = time.monotonic() + 120
            while not is_ready(ports[0]):
                assert process.poll() is None and time.monotonic() < until, (
                    folder / "log"
                ).read_text()
                time.sleep(0.2)
            yield ports
        finally:
            process.terminate()


def is_ready(port):
    try:
        return all(
            ask(f"http://127.0.0.1:{port}/v2/models/{name}/ready")[0] == 200
            for name in ("text", "ids")
        )
    except OSError:
        return False


def infer(server, model, **inputs):
    content = [
        {"name": name, "shape": shape, "datatype": kind, "data": data}
        for name, (kind, shape, data) in inputs.items()
    ]
    status, answer = ask(
        f"http://127.0.0.1:{server[0]}/v2/models/{model}/infer", {"inputs": content}
    )
    if status != 200:
        return status, answer["error"]
    return status, {
        each["name"]: np.array(each["data"]).reshape(each["shape"]) for each in answer["outputs"]
    }


def texts_of(texts):
    return {"text": ("BYTES", [len(texts)], list(texts))}


def test_texts_by_rest(server, texts, logits):
    status, answer = infer(server, "text", **texts_of(texts))
    assert status == 200
    np.testing.assert_allclose(answer["logits"], logits, rtol=0, atol=2e-6)
    names = np.array(["bad", "naïve", "good"])
    assert answer["label"].tolist() == names[logits.argmax(axis=-1)].tolist()


def test_ids_by_litert(server, features, logits):
    given = {
        name: ("INT32", list(value.shape), value.ravel().tolist())
        for name, value in features.items()
    }
    status, answer = infer(server, "ids", **given)
    assert status == 200
    np.testing.assert_allclose(answer["logits"], logits, rtol=0, atol=2e-6)


def test_texts_by_grpc(server, texts, logits):
    import grpc
    from mlserver.grpc import dataplane_pb2, dataplane_pb2_grpc

    request = dataplane_pb2.ModelInferRequest(model_name="text")
    given = request.inputs.add(name="text", datatype="BYTES", shape=[len(texts)])
    given.contents.bytes_contents.extend(text.encode() for text in texts)
    with grpc.insecure_channel(f"127.0.0.1:{server[1]}") as channel:
        service = dataplane_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = service.ModelInfer(request, timeout=30)
    (found,) = [each for each in answer.outputs if each.name == "logits"]
    np.testing.assert_allclose(
        np.reshape(found.contents.fp32_contents, found.shape), logits, rtol=0, atol=2e-6
    )


def test_requests_share_a_batch(server, texts, logits):
    def one(number):
        place = number % len(texts)
        status, answer = infer(server, "text", **texts_of(texts[place : place + 1]))
        assert status == 200
        return np.abs(answer["logits"][0] - logits[place]).max()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert max(pool.map(one, range(40))) < 2e-6
    _, metrics = ask(f"http://127.0.0.1:{server[2]}/metrics")
    assert "batch_request_queue" in metrics
    assert "model_infer_request_success" in metrics


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        ("text", {"words": ("BYTES", [1], ["a"])}, "The inputs must be text. Received: words."),
        ("text", {"text": ("BYTES", [2, 2], ["a"] * 4)}, "text must have 1 axes"),
        ("text", {"text": ("BYTES", [3], ["a"])}, "the shape [3] and 1 values"),
        ("ids", {"input_ids": ("INT64", [1, 1], [2**40])}, "input_ids must be int32. Received: "),
    ],
)
def test_what_json_alone_can_say(model, inputs, message, server):
    if model == "ids":
        names = ("attention_mask", "token_type_ids")
        inputs |= {name: ("INT32", [1, 1], [0]) for name in names}
    status, error = infer(server, model, **inputs)
    assert status == 400 and message in error


def in_json(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


KINDS = {"int32": "INT32", "int64": "INT64", "int8": "INT8", "float32": "FP32", "object": "BYTES"}
EMPTY = "input_ids must have at least one row, of one id. Received: "
IDS_KIND = "The datatype of input_ids must be INT32 or INT64. Received: "
ALL_IDS = "The inputs must be attention_mask, input_ids, token_type_ids. Received: "
REFUSED = {
    **dict.fromkeys(IDS, "The inputs must fit the export. Received: "),
    **dict.fromkeys(("no rows", "no pieces"), EMPTY),
    **dict.fromkeys(("float32", "int8", "strings"), IDS_KIND),
    **dict.fromkeys(("one axis", "three axes"), "input_ids must have 2 axes"),
    **dict.fromkeys(("no mask", "no input", "an unknown input"), ALL_IDS),
    "a mask without rows": "attention_mask must have 2 axes",
    "int32": "The datatype of text must be BYTES. Received: INT32.",
    "no text": "The inputs must be text. Received: .",
    "an unknown text": "The inputs must be text. Received: other, text.",
}
ANSWERED = {"10,000 rows", "int64"} | TEXTS.keys() - REFUSED.keys()


@pytest.mark.parametrize(
    ("model", "name"), [*(("ids", name) for name in IDS), *(("text", name) for name in TEXTS)]
)
def test_the_table_of_bad_inputs(model, name, server, classifier, tokenizer, logits, texts):
    arrays, _ = {"ids": IDS, "text": TEXTS}[model][name]
    values = {key: [*map(in_json, each.ravel().tolist())] for key, each in arrays.items()}
    given = {
        key: (KINDS[str(each.dtype)], list(each.shape), values[key]) for key, each in arrays.items()
    }
    status, answer = infer(server, model, **given)
    if name not in ANSWERED:
        assert status == 400 and REFUSED[name] in answer
    else:
        assert status == 200, answer
        if model == "text":  # invalid UTF-8 can't be sent as JSON
            arrays = {"text": np.array(values["text"], object)}
        expected = answer_of_keras(arrays, classifier, tokenizer)
        np.testing.assert_allclose(answer["logits"], expected, rtol=0, atol=2e-6)
    status, answer = infer(server, "text", **texts_of(texts[:1]))
    np.testing.assert_allclose(answer["logits"], logits[:1], rtol=0, atol=2e-6)
