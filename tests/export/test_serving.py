"""The clients of docs/serving.md, against a server with TensorFlow Serving's two protocols.

Its binary can't be installed where the tests run.
"""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import tensorflow as tf

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
