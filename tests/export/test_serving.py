"""The clients and the server of docs/serving.md.

The clients run against a server with TensorFlow Serving's two protocols, whose binary can't be
installed where the tests run.
"""

import itertools
import json
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import tensorflow as tf
import uvicorn
from albert_tf_export import export_tflite

from tests.test_pages import pages

grpc = pytest.importorskip("grpc")
pytest.importorskip("tensorflow_serving.apis")
from tensorflow_serving.apis import (  # noqa: E402
    predict_pb2,
    prediction_service_pb2_grpc,
)

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


class Rest(BaseHTTPRequestHandler):
    """Answers every second request; otherwise, it is busy."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        assert self.path == "/v1/models/reviews:predict"
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        self.server.requests += 1
        content = json.dumps(
            {"predictions": [{"label": f"é{row['text']}"} for row in rows]}
        ).encode()
        self.send_response(200 if self.server.requests % 2 == 0 else 503)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Grpc(prediction_service_pb2_grpc.PredictionServiceServicer):
    """The same over gRPC."""

    requests = 0

    def Predict(self, request, context):
        assert request.model_spec.name == "reviews"
        self.requests += 1
        if self.requests % 2:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        response = predict_pb2.PredictResponse()
        labels = [f"é{text.decode()}" for text in tf.make_ndarray(request.inputs["text"])]
        response.outputs["label"].CopyFrom(tf.make_tensor_proto(labels))
        return response


@pytest.fixture
def addresses():
    """Yields the address of a server for each address of the page."""
    rest = ThreadingHTTPServer(("127.0.0.1", 0), Rest)
    rest.requests = 0
    threading.Thread(target=rest.serve_forever, args=(0.01,), daemon=True).start()
    remote = grpc.server(ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Grpc(), remote)
    port = remote.add_insecure_port("127.0.0.1:0")
    remote.start()
    yield {"localhost:8501": f"127.0.0.1:{rest.server_port}", "localhost:8500": f"127.0.0.1:{port}"}
    rest.shutdown()
    rest.server_close()
    remote.stop(None).wait()


@pytest.mark.parametrize("address", ["localhost:8501", "localhost:8500"])
def test_a_client_retries_and_keeps_the_order(address, addresses, capsys):
    found = pages.blocks(PAGE.read_text("utf-8"))
    (code,) = (each.code for each in found if each.language == "python" and address in each.code)
    exec(compile(code.replace(address, addresses[address]), "serving.md", "exec"), {})
    assert capsys.readouterr().out == "['éA quiet delight.', 'éBroken on arrival.']\n"


class Served:
    """The server of the page with another model. `batches` contains the texts of each batch."""

    def __init__(self, path):
        (block,) = (each for each in pages.blocks(PAGE.read_text("utf-8")) if each.file == "app.py")
        assert '"reviews.onnx"' in block.code
        self.names = {}
        exec(
            compile(block.code.replace('"reviews.onnx"', repr(str(path))), "app.py", "exec"),
            self.names,
        )
        self.classify, self.batches = self.names["classify"], []
        self.names["classify"] = self
        self.model = self.classify.model
        config = uvicorn.Config(self.names["app"], port=0, log_level="error", lifespan="on")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]

    def __call__(self, texts):
        self.batches.append(texts)
        if "fail" in texts:
            raise OSError("a broken runtime")
        time.sleep(0.1)  # more requests arrive
        return self.classify(texts)

    def ask(self, content, url=":predict"):
        """Returns the status and the content of a response."""
        data = content if content is None else json.dumps(content).encode()
        address = f"http://127.0.0.1:{self.port}/v1/models/reviews{url}"
        try:
            with urllib.request.urlopen(urllib.request.Request(address, data), timeout=60) as found:
                return found.status, json.load(found)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            return error.code, json.loads(text) if text.startswith("{") else text


@pytest.fixture(scope="module")
def served(written):
    server = Served(written(export_tflite, batch=None, ids_only=True))
    yield server
    server.server.should_exit = True
    server.thread.join()


def test_the_rest_client_works_with_the_server_in_python(served, capsys):
    found = pages.blocks(PAGE.read_text("utf-8"))
    (code,) = (
        each.code for each in found if "localhost:8501" in each.code and "session" in each.code
    )
    exec(code.replace("localhost:8501", f"127.0.0.1:{served.port}"), {})
    texts = ["A quiet delight.", "Broken on arrival."]
    assert capsys.readouterr().out == f"{[each[0]['label'] for each in served.classify(texts)]}\n"
    status, health = served.ask(None, "")
    assert status == 200 and health["model_version_status"][0]["state"] == "AVAILABLE"


def test_requests_share_batches(served):
    texts = [f"{'a very ' * (number % 7)}quiet delight number {number}" for number in range(48)]
    served.batches.clear()
    with ThreadPoolExecutor(24) as pool:
        contents = [
            {"instances": [{"text": first}, second]} for first, second in itertools.pairwise(texts)
        ]
        found = list(pool.map(served.ask, contents))
    assert len(served.batches) < len(found) / 2 and max(map(len, served.batches)) <= 32
    classes = served.model.config.labels
    for at, (status, content) in enumerate(found):
        assert status == 200
        for text, row in zip(texts[at : at + 2], content["predictions"], strict=True):
            expected = {each["label"]: each["score"] for each in served.classify(text, top_k=None)}
            assert row["label"] == max(expected, key=expected.get)
            assert row["classes"] == list(classes)
            assert row["probabilities"] == pytest.approx(
                [expected[name] for name in classes], abs=1e-5
            )


def test_bad_requests(served):
    for content, url, status in [
        ({"instances": {"text": "a"}}, ":predict", 400),
        ({"instances": "text"}, ":predict", 400),
        ({"instances": [{"text": 3}]}, ":predict", 400),
        ({"instances": [["a"]]}, ":predict", 400),
        ({"instances": [None]}, ":predict", 400),
        ({"instances": ["\ud800"]}, ":predict", 400),
        ({"inputs": ["a"]}, ":predict", 400),
        (["a"], ":predict", 400),
        ({"instances": ["a" * 1_000_000]}, ":predict", 413),
        ({"instances": [""] * 129}, ":predict", 413),
        ({"instances": ["a"]}, ":classify", 404),
        (None, ":predict", 405),
        ({"instances": ["fail", "well"]}, ":predict", 500),
    ]:
        found, message = served.ask(content, url)
        assert found == status, repr(content)[:80]
        assert status == 500 or message.keys() == {"error"}
        assert served.ask({"instances": []}) == (200, {"predictions": []})
    assert served.ask({"instances": ["", "fine"]})[0] == 200


def test_a_full_queue_is_busy(served, monkeypatch):
    monkeypatch.setitem(served.names, "MAX_WAITING", -1)
    status, message = served.ask({"instances": ["a"]})
    assert (status, message) == (503, {"error": "The server is busy. Try again."})


def test_a_canceled_request_does_not_end_the_batches(served):
    """Cancels the future of a text that waits."""
    loop = served.server.servers[0].get_loop()
    canceled = loop.create_future()
    loop.call_soon_threadsafe(canceled.cancel)
    loop.call_soon_threadsafe(served.names["waiting"].put_nowait, ("a", canceled))
    assert served.ask({"instances": ["fine"]})[0] == 200
    loop.call_soon_threadsafe(served.names["waiting"].put_nowait, ("fail", canceled))
    assert served.ask({"instances": ["fine"]})[0] in (200, 500)
    assert served.ask({"instances": ["fine"]})[0] == 200
