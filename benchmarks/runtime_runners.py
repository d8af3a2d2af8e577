"""Runs one file in one runtime, in this process: `runtimes.py` starts it for each case.

    python benchmarks/runtime_runners.py RUNNER FILE SETTING ROWS CALLS THREADS

Prints the difference from Keras, ms of a call, and MB, or null where the runtime's memory can't be
told. Each runner takes the file, the setting and the number of threads; it returns a function from
rows to outputs by name, the MB of the process before it loaded the file, and the process, if that
isn't this one.
"""

import functools
import http.server
import json
import os
import shutil
import statistics
import sys
import threading
import time
from pathlib import Path

import numpy as np
from memory import memory

NAMES = ("input_ids", "attention_mask", "token_type_ids")
KERAS_HUB = dict(zip(NAMES, ("token_ids", "padding_mask", "segment_ids"), strict=True))
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def tensorflow(path, setting, threads):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    empty = memory("VmRSS")
    signature = tf.saved_model.load(path).signatures["ids"]
    return lambda rows: signature(**{k: tf.constant(v) for k, v in rows.items()}), empty


def tensorflow_c(path, setting, threads):
    from tests.export.c_program import SavedModel

    program = Path(path).with_name("serve_saved_model")
    return c_program(SavedModel(program, path, "ids", "logits", library="-"))


def litert(path, setting, threads):
    from ai_edge_litert.interpreter import Interpreter

    empty = memory("VmRSS")
    interpreter = Interpreter(path, num_threads=threads or os.cpu_count())
    signature = interpreter.get_signature_runner("ids")
    return lambda rows: signature(**rows), empty


def litert_c(path, setting, threads):
    from tests.export.c_program import TFLite

    return c_program(TFLite(Path(path).with_name("run_tflite"), path))


def c_program(program):
    process = program.process.pid
    empty = memory("VmRSS", process)
    program.start()
    return lambda rows: program(**rows), empty, process


def litert_js(path, setting, threads):
    """Runs the page of `albert-tf export web` in Chromium, row by row."""
    import playwright.sync_api

    class Handler(http.server.SimpleHTTPRequestHandler):
        def end_headers(self):
            if threads != 1:  # the browser gives threads to isolated pages alone
                self.send_header("Cross-Origin-Opener-Policy", "same-origin")
                self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
            super().end_headers()

        def log_message(self, *_):
            pass

    site = Path(path).parents[1]
    handler = functools.partial(Handler, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = (
        playwright.sync_api.sync_playwright()
        .start()
        .chromium.launch(
            executable_path=next(filter(None, map(shutil.which, CHROMIUM)), None),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
    )
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    page.wait_for_selector("#form:not([hidden])", timeout=60_000)
    script = (
        "async ([ids, types]) => "
        "Array.from((await globalThis.page.model.run(ids, types)).outputs.logits.values)"
    )

    def run(rows):
        ids, mask, types = (rows[name] for name in NAMES)
        each = [
            page.evaluate(script, [row[: kept.sum()].tolist(), kinds[: kept.sum()].tolist()])
            for row, kept, kinds in zip(ids, mask, types, strict=True)
        ]
        return {"logits": np.array(each, np.float32)}

    return run, None


def mediapipe(path, setting, threads):
    """Runs texts, row by row."""
    from mediapipe.tasks.python import text
    from mediapipe.tasks.python.core.base_options import BaseOptions

    empty = memory("VmRSS")
    options = text.TextClassifierOptions(base_options=BaseOptions(model_asset_path=path))
    classifier = text.TextClassifier.create_from_options(options)

    def run(rows):
        each = [classifier.classify(row).classifications[0].categories for row in rows["texts"]]
        names = sorted(category.category_name for category in each[0])
        odds = [{category.category_name: category.score for category in row} for row in each]
        return {"probabilities": np.array([[row[name] for name in names] for row in odds])}

    return run, empty


def onnx(path, setting, threads):
    import onnxruntime

    empty = memory("VmRSS")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options)
    names = [each.name for each in session.get_outputs()]
    return lambda rows: dict(zip(names, session.run(names, rows), strict=True)), empty


def openvino(path, setting, threads):
    import openvino

    empty = memory("VmRSS")
    settings = {"INFERENCE_PRECISION_HINT": setting} if setting else {}
    settings |= {"INFERENCE_NUM_THREADS": threads} if threads else {}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", settings)
    precision = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    print(f"precision: {precision}", file=sys.stderr)

    def run(rows):
        given = {
            port: next(rows[name] for name in NAMES if any(name in each for each in port.names))
            for port in compiled.inputs
        }
        outputs = compiled(given)
        # TFLite files have no names of outputs here: logits are the one whose rows don't sum to 1.
        for port, value in outputs.items():
            if any("logits" in name for name in port.names):
                return {"logits": value}
        (logits,) = (each for each in outputs.values() if not is_distribution(each))
        return {"logits": logits}

    return run, empty


def is_distribution(values):
    return abs(values.sum(axis=-1) - 1).max() < 0.01 and values.min() >= 0


def softmax(logits):
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def main():
    runner, path, setting, file, calls, threads = sys.argv[1:]
    threads = int(threads)
    if threads:  # some runtimes have no option for it
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    rows = dict(np.load(file))
    expected, texts = rows.pop("expected"), rows.pop("texts").tolist()
    run, empty, *process = globals()[runner](path, setting, threads)
    given = {"texts": texts} if runner == "mediapipe" else rows
    outputs = run(given)
    if "logits" in outputs:
        difference = np.abs(np.asarray(outputs["logits"]) - expected).max()
    else:
        difference = np.abs(outputs["probabilities"] - softmax(expected)).max()
    times = []
    for _ in range(int(calls)):
        start = time.perf_counter()
        run(given)
        times.append(1000 * (time.perf_counter() - start))
    megabytes = None if empty is None else memory("VmHWM", *process) - empty
    print(json.dumps([float(difference), statistics.median(times), megabytes]), flush=True)
    os._exit(0)  # Chromium and the programs in C end with their pipes.


if __name__ == "__main__":
    main()
