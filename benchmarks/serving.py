"""Measures the server in docs/serving.md under load, with exported files and a SavedModel.

    python -m benchmarks.serving [--model DIR | --size base] [--clients 1 16] [--seconds 10]

Each case starts the server in a process of its own; the cases take turns. Clients in another
process, on the same cores, send one review per request, as fast as they get answers. "ms" is a
client's time from a request to its answer: the median, and the 95th percentile. "one at a time" is
the same server with batches of one text. "MB" is the peak of the server's process, and "s to start"
the time until its health check answers. Without --model, the classifier is `small` or, with --size,
a model of another size with random weights and small's vocabulary. Requires the extras `http` and
`onnx`.
"""

import contextlib
import http.client
import itertools
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from benchmarks import harness

PACKAGES = ("tensorflow", "onnxruntime", "ai-edge-litert", "starlette", "uvicorn", "numpy")
PAGE = harness.ROOT / "docs" / "serving.md"
URL = "/v1/models/reviews"
OPENED = re.compile(r"classify = pipeline\(.*\)")
SAVED_MODEL = "SavedModel"
BATCHED = "batches"
ALONE = "one at a time"


def classifier(path):
    """Returns the pipeline of an exported file, or a function with its results for a SavedModel."""
    if not Path(path).is_dir():
        from albert_tf import pipeline

        return pipeline("text-classification", path, top_k=None, truncation=True)
    from types import SimpleNamespace

    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    serve = tf.saved_model.load(path).signatures["text"]

    def classify(texts):
        found = serve(text=tf.constant(texts))
        names = [name.decode() for name in found["classes"].numpy()[0]]
        classify.model = SimpleNamespace(config=SimpleNamespace(labels=names))
        return [
            [{"label": name, "score": float(score)} for name, score in zip(names, row, strict=True)]
            for row in found["probabilities"].numpy()
        ]

    classify([" "])
    return classify


def measure(path, batching, clients, seconds):
    """Starts a server with a model and returns the figures of a table's row."""
    code = re.search(r'```python title="app.py"\n(.*?)```', PAGE.read_text("utf-8"), re.S)[1]
    opened = f"import benchmarks.serving\nclassify = benchmarks.serving.classifier({path!r})"
    code, count = OPENED.subn(lambda _: opened, code)
    assert count == 1
    if batching == ALONE:
        code, count = re.subn(r"(MAX_BATCH = .*), \d+$", r"\1, 1", code, flags=re.M)
        assert count == 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(code, "utf-8")
        start = time.perf_counter()
        command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
        options = {"env": environment, "stdout": subprocess.DEVNULL}
        with subprocess.Popen([*command, "--log-level", "error"], **options) as server:
            try:
                while not answers(port):
                    if server.poll() is not None:
                        raise harness.Failure("the server ended")
                    time.sleep(0.02)
                ready = time.perf_counter() - start
                load(port, clients, 1)  # traces and fills caches
                figures = load(port, clients, seconds)
                return {**figures, "ready": ready, "peak": harness.memory("VmHWM", server.pid)}
            finally:
                server.terminate()


def answers(port):
    """Returns whether the server's health check answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", URL)
        return connection.getresponse().status == 200
    return False


def load(port, clients, seconds):
    """Sends requests from several clients and returns requests per second and milliseconds."""
    from albert_tf.assets import reviews

    lines = (Path(reviews()) / "dev.tsv").read_text("utf-8").splitlines()[1:]
    contents = [json.dumps({"instances": [{"text": line.rpartition("\t")[0]}]}) for line in lines]
    end, times = time.perf_counter() + seconds, []

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            for content in itertools.cycle(contents[number:] + contents[:number]):
                start = time.perf_counter()
                connection.request("POST", f"{URL}:predict", content)
                response = connection.getresponse()
                (row,) = json.loads(response.read())["predictions"]
                assert row["label"] in row["classes"]
                times.append(1000 * (time.perf_counter() - start))
                if time.perf_counter() > end:
                    return

    threads = [threading.Thread(target=client, args=(7 * number,)) for number in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = len(times) / (time.perf_counter() - start)
    return {
        "rate": rate,
        "median": statistics.median(times),
        "most": statistics.quantiles(times, n=20)[-1],
    }


def export(folder, model, size):
    """Exports a classifier in every form and returns the paths."""
    from albert_tf_export import export_onnx, export_saved_model, export_tflite

    from albert_tf import AlbertConfig, AlbertForSequenceClassification, AlbertTokenizer

    if size:
        tokenizer = AlbertTokenizer.from_pretrained("small")
        config = AlbertConfig.from_size(size, vocab_size=len(tokenizer), num_labels=2)
        source = AlbertForSequenceClassification(config)
    else:
        source = AlbertForSequenceClassification.from_pretrained(model)
        tokenizer = source.tokenizer
    exports = {
        "float.onnx": export_onnx,
        "8-bit.onnx": partial(export_onnx, quantize="dynamic"),
        "float.tflite": partial(export_tflite, ids_only=True),
        "8-bit.tflite": partial(export_tflite, ids_only=True, quantize="dynamic"),
        SAVED_MODEL: export_saved_model,
    }
    for name, write in exports.items():
        write(source, tokenizer, f"{folder}/{name}", check=False)
    return {name: f"{folder}/{name}" for name in exports}


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--model", default="small", help="directory of a text classifier")
    parser.add_argument("--size", help="a size such as base, with random weights")
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = harness.fresh(export, folder, options.model, options.size)
        cases = {
            (name, batching, str(clients)): partial(
                harness.fresh, measure, path, batching, clients, options.seconds
            )
            for clients in options.clients
            for name, path in paths.items()
            for batching in ((ALONE, BATCHED) if clients > 1 else (BATCHED,))
        }
        rounds = harness.take_turns(cases, options.rounds)

    def cells(figures):
        return [
            f"{figures['rate']:,.0f}",
            f"{figures['median']:,.1f}",
            f"{figures['most']:,.1f}",
            f"{figures['ready']:.1f}",
            f"{figures['peak']:,.0f}",
        ]

    heads = ["file", "texts", "clients", "requests/s", "ms", "ms, 95%", "s to start", "MB"]
    tables = [harness.table(heads, harness.rows(rounds, cells), names=2)]
    harness.report(options, PACKAGES, tables, rounds)


if __name__ == "__main__":
    main()
