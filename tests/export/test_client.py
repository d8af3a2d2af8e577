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


class Server:
    """Runs a SavedModel behind REST and gRPC.

    Attributes:
        faults: what happens to the next requests: "busy", "half", "slow", or "lost", an answer that
            is missing.
        calls: number of requests, and `most`, of those at the same time.
    """

    def __init__(self, path):
        self.loaded = tf.saved_model.load(path)
        self.faults, self.calls, self.now, self.most = [], 0, 0, 0
        self.lock = threading.Lock()

    def run(self, signature, inputs):
        """Returns the outputs, and a fault."""
        with self.lock:
            self.calls, self.now = self.calls + 1, self.now + 1
            self.most = max(self.most, self.now)
            fault = self.faults.pop(0) if self.faults else None
        try:
            if fault == "slow":
                time.sleep(1.5)
            if fault == "busy":
                return {}, fault
            function = self.loaded.signatures[signature]
            found = function(**{name: tf.constant(value) for name, value in inputs.items()})
            outputs = {name: value.numpy() for name, value in found.items()}
            if fault == "lost":
                outputs = {name: value[1:] for name, value in outputs.items()}
            return outputs, fault
        finally:
            with self.lock:
                self.now -= 1


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
                rows = [dict(zip(outputs, row, strict=True)) for row in plain(outputs)]
                content = json.dumps({"predictions": rows}).encode()
            except (TypeError, ValueError, tf.errors.OpError) as error:
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


def plain(outputs):
    def decoded(value):
        if isinstance(value, list):
            return [decoded(each) for each in value]
        return value.decode() if isinstance(value, bytes) else value

    return zip(*(decoded(value.tolist()) for value in outputs.values()), strict=True)


class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, server):
        self.server = server

    def Predict(self, request, context):
        inputs = {name: tf.make_ndarray(each) for name, each in request.inputs.items()}
        try:
            outputs, fault = self.server.run(request.model_spec.signature_name, inputs)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if fault in ("busy", "half"):
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        response = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


class Model(tf.Module):
    """Has two signatures of an export, and fails as they do."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def text(self, text):
        size = tf.cast(tf.strings.length(text), tf.float32)
        return {"logits": tf.stack([size, -size, 0.5 * size], axis=1), "label": "é" + text}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "input_ids")])
    def ids(self, input_ids):
        with tf.control_dependencies([tf.debugging.assert_non_negative(input_ids, "ids below 0")]):
            return {"logits": tf.cast(input_ids, tf.float32)[:, :3]}


@pytest.fixture(scope="module")
def model_server(tmp_path_factory):
    path, model = str(tmp_path_factory.mktemp("served")), Model()
    tf.saved_model.save(
        model, path, {"text": model.text, "serving_default": model.text, "ids": model.ids}
    )
    return Server(path)


@pytest.fixture(scope="module")
def addresses(model_server):
    """Returns the addresses for REST and gRPC."""
    rest = ThreadingHTTPServer(("127.0.0.1", 0), rest_handler(model_server))
    rest.daemon_threads = True
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    remote = grpc.server(ThreadPoolExecutor(8))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Servicer(model_server), remote
    )
    port = remote.add_insecure_port("127.0.0.1:0")
    remote.start()
    yield {"rest": f"http://127.0.0.1:{rest.server_port}", "grpc": f"127.0.0.1:{port}"}
    rest.shutdown()
    rest.server_close()
    remote.stop(None).wait()


@pytest.fixture(params=["rest", "grpc"])
def connect(request, addresses, model_server):
    """Returns a function from options to a client."""
    model_server.faults, model_server.calls, model_server.most = [], 0, 0
    made = []

    def call(**options):
        made.append(client.Client(addresses[request.param], "reviews", **options))
        return made[-1]

    yield call
    for each in made:
        each.close()


ROWS = [{"text": text} for text in ("a quiet boat", "", "noisy mess é", "kind people", "smoke")]


def test_answers_in_order(connect, model_server):
    asking = connect(batch=2, in_flight=2)
    found = list(asking.answers(iter(ROWS)))
    texts = tf.constant([row["text"] for row in ROWS])
    expected = model_server.loaded.signatures["text"](text=texts)
    logits = [each["logits"] for each in found]
    np.testing.assert_allclose(logits, expected["logits"], rtol=0, atol=1e-5)
    assert [each["label"].encode() for each in found] == expected["label"].numpy().tolist()
    assert (model_server.calls, model_server.most <= 2) == (3, True)


@pytest.mark.parametrize("faults", [["busy"], ["half"], ["busy", "half", "busy"]])
def test_retries(faults, connect, model_server):
    model_server.faults = list(faults)
    assert len(list(connect(retries=3).answers(ROWS))) == 5
    assert model_server.calls == 1 + len(faults)


def test_gives_up(connect, model_server):
    model_server.faults = ["busy"] * 9
    with pytest.raises(client.Unavailable, match="503|UNAVAILABLE|Read"):
        list(connect(retries=1).answers(ROWS))
    assert model_server.calls == 2


def test_deadline(connect, model_server):
    model_server.faults = ["slow"] * 9
    with pytest.raises(client.Unavailable, match="timed out|DEADLINE_EXCEEDED"):
        list(connect(retries=0, deadline=1).answers(ROWS))


def test_lost_answers(connect, model_server):
    model_server.faults = ["lost"]
    with pytest.raises(client.Unavailable, match="4 answers for 5 inputs"):
        list(connect().answers(ROWS))


def test_refused_requests_are_not_repeated(connect, model_server):
    with pytest.raises(client.Refused, match="texts"):
        list(connect().answers([{"texts": "another name"}]))
    assert model_server.calls == 1


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 0},
        {"batch": 1.5},
        {"batch": "16"},
        {"in_flight": 0},
        {"retries": -1},
        {"retries": 5},
        {"deadline": 0},
    ],
)
def test_numbers_out_of_range(options):
    """With batch=0 there were no answers."""
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} must be .* or more.*Received: "):
        client.Client("http://127.0.0.1:1", "reviews", **options)


@pytest.mark.parametrize(
    "row", [{"text": "a", "more": "b"}, {"texts": "a"}, {}, "a text", {"text": object()}]
)
def test_rows_that_differ_are_refused(connect, model_server, row):
    """Inputs that the first row doesn't have were lost."""
    with pytest.raises(client.Refused, match="Received: "):
        list(connect().answers([ROWS[0], row]))
    assert model_server.calls == 0


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
