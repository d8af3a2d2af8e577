"""The client gets answers from a server that speaks TensorFlow Serving's protocols, and fails."""

import importlib.util
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import urllib3

grpc = pytest.importorskip("grpc")
pytest.importorskip("tensorflow_serving.apis")
from tensorflow_serving.apis import (  # noqa: E402
    predict_pb2,
    prediction_service_pb2_grpc,
)

CLIENT = Path(__file__).parents[2] / "export/serving/client.py"
specification = importlib.util.spec_from_file_location("client", CLIENT)
client = importlib.util.module_from_spec(specification)
specification.loader.exec_module(client)


def outputs_of(signature, inputs):
    """Answers two signatures as an export does, and fails as it does."""
    if signature == "ids":
        ids = np.array(inputs["input_ids"])
        if ids.min() < 0:
            raise ValueError("ids below 0")
        return {"logits": ids[:, :3].astype("float32")}
    texts = [text.decode() if isinstance(text, bytes) else text for text in inputs["text"]]
    logits = [[len(text), -len(text), 0.5 * len(text)] for text in texts]
    labels = [f"é{text}" for text in texts]
    return {"logits": np.array(logits, "float32"), "label": np.array(labels)}


class Server:
    """Answers REST and gRPC.

    Attributes:
        faults: what happens to the next requests: "busy", "half", "slow", or "lost", an answer that
            is missing.
        requests: the signatures that were asked.
    """

    def __init__(self):
        self.faults, self.requests = [], []

    def run(self, signature, inputs):
        """Returns the outputs, and a fault."""
        self.requests.append(signature)
        fault = self.faults.pop(0) if self.faults else None
        if fault == "slow":
            time.sleep(1.5)
        outputs = outputs_of(signature, inputs)
        if fault == "lost":
            outputs = {name: value[1:] for name, value in outputs.items()}
        return outputs, fault


def rest_handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            rows = asked["instances"]
            inputs = {name: [row[name] for row in rows] for name in rows[0]}
            status, fault = 200, None
            try:
                outputs, fault = server.run(asked["signature_name"], inputs)
                columns = [value.tolist() for value in outputs.values()]
                rows = [dict(zip(outputs, row, strict=True)) for row in zip(*columns, strict=True)]
                content = json.dumps({"predictions": rows}).encode()
            except (KeyError, ValueError) as error:
                status, content = 400, json.dumps({"error": str(error)}).encode()
            self.send_response(503 if fault == "busy" else status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            half = len(content) // 2 if fault == "half" else None
            self.wfile.write(content[:half])
            self.close_connection = fault == "half"

        def log_message(self, *_):
            pass

    return Handler


class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, server):
        self.server = server

    def Predict(self, request, context):
        inputs = {name: tf.make_ndarray(each) for name, each in request.inputs.items()}
        try:
            outputs, fault = self.server.run(request.model_spec.signature_name, inputs)
        except (KeyError, ValueError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if fault in ("busy", "half"):
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        response = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


@pytest.fixture
def model_server():
    """Yields a server with its addresses for REST and gRPC.

    Each test has its own one, so that no late request takes a fault of the next test.
    """
    model_server = Server()
    rest = ThreadingHTTPServer(("127.0.0.1", 0), rest_handler(model_server))
    rest.daemon_threads = True
    threading.Thread(target=rest.serve_forever, args=(0.01,), daemon=True).start()
    remote = grpc.server(ThreadPoolExecutor(8))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Servicer(model_server), remote
    )
    port = remote.add_insecure_port("127.0.0.1:0")
    remote.start()
    model_server.addresses = {
        "rest": f"http://127.0.0.1:{rest.server_port}",
        "grpc": f"127.0.0.1:{port}",
    }
    yield model_server
    rest.shutdown()
    rest.server_close()
    remote.stop(None).wait()


@pytest.fixture(params=["rest", "grpc"])
def connect(request, model_server):
    """Returns a function from options to a client."""
    made = []

    def call(**options):
        made.append(client.Client(model_server.addresses[request.param], "reviews", **options))
        return made[-1]

    yield call
    for each in made:
        each.close()


ROWS = [{"text": text} for text in ("a quiet boat", "", "noisy mess é", "kind people", "smoke")]


def test_answers_in_order(connect, model_server):
    found = list(connect(batch=2, in_flight=2).answers(iter(ROWS)))
    texts = [row["text"] for row in ROWS]
    assert [each["label"] for each in found] == [f"é{text}" for text in texts]
    assert [each["logits"] for each in found] == [[len(t), -len(t), len(t) / 2] for t in texts]
    assert model_server.requests == ["serving_default"] * 3


@pytest.mark.parametrize("faults", [["busy"], ["half"], ["busy", "half", "busy"]])
def test_retries(faults, connect, model_server):
    model_server.faults = list(faults)
    assert len(list(connect(retries=3).answers(ROWS))) == 5
    assert len(model_server.requests) == 1 + len(faults)


@pytest.mark.parametrize(
    ("faults", "options", "message", "calls"),
    [
        (["busy"] * 9, {"retries": 1}, "503|UNAVAILABLE|Read", 2),
        (["slow"] * 9, {"retries": 0, "deadline": 1}, "timed out|DEADLINE_EXCEEDED", 1),
        (["lost"], {}, "4 answers for 5 inputs", 1),
    ],
)
def test_gives_up(faults, options, message, calls, connect, model_server):
    model_server.faults = list(faults)
    with pytest.raises(client.Unavailable, match=message):
        list(connect(**options).answers(ROWS))
    assert len(model_server.requests) == calls


def test_refused_requests_are_not_repeated(connect, model_server):
    with pytest.raises(client.Refused, match="'text'"):
        list(connect().answers([{"texts": "another name"}]))
    assert len(model_server.requests) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch", 0), ("batch", 1.5), ("in_flight", 0), ("retries", 5), ("deadline", 0)],
)
def test_numbers_out_of_range(name, value):
    """With batch=0 there were no answers."""
    with pytest.raises(ValueError, match=f"{name} must be .* or more.*Received: "):
        client.Client("http://127.0.0.1:1", "reviews", **{name: value})


@pytest.mark.parametrize(
    "row", [{"text": "a", "more": "b"}, {"texts": "a"}, {}, "a text", {"text": object()}]
)
def test_rows_that_differ_are_refused(connect, model_server, row):
    """Inputs that the first row doesn't have were lost."""
    with pytest.raises(client.Refused, match="Received: "):
        list(connect().answers([ROWS[0], row]))
    assert model_server.requests == []


@pytest.mark.parametrize(("status", "content"), [(200, b"<html>"), (200, b"{}"), (500, b"broken")])
def test_an_answer_of_another_program(status, content, monkeypatch):
    with client.Client("http://127.0.0.1:1", "reviews") as asking:
        response = urllib3.HTTPResponse(content, status=status)
        monkeypatch.setattr(asking._transport._pool, "request", lambda *_, **__: response)
        with pytest.raises(client.Unavailable, match="must answer"):
            list(asking.answers(ROWS))


def test_ids(connect, model_server):
    (found,) = connect(signature="ids").answers([{"input_ids": [2, 9, 8, 3]}])
    assert len(found["logits"]) == 3
    with pytest.raises(client.Refused, match="ids below 0"):
        list(connect(signature="ids").answers([{"input_ids": [2, 9, -1, 3]}]))


def test_reads_no_further_than_it_asks(connect):
    read = []

    def rows():
        for row in ROWS * 20:
            read.append(row)
            yield row

    answers = connect(batch=5, in_flight=2).answers(rows())
    next(answers)
    assert len(read) == 10
    assert len(list(answers)) == 99
