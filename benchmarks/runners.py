"""Measures an exported file or checkpoint in one runtime: time, memory, and difference from Keras.

A runner is a function of a path, the number of threads (0: all), and a runner-specific setting. It
imports its runtime, measures the memory, loads the path, and returns a `Loaded`.
"""

import functools
import http.server
import math
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import harness

NAMES = ("input_ids", "attention_mask", "token_type_ids")
KERAS_HUB = dict(zip(NAMES, ("token_ids", "padding_mask", "segment_ids"), strict=True))
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class Loaded(NamedTuple):
    """A loaded model.

    Attributes:
        run: function from inputs to outputs, both arrays keyed by name.
        process: id of the process that runs the model; "self" for this one, None if unknown.
        empty: resident and private memory of the process before it loaded the model, in MB.
    """

    run: Callable
    process: int | str | None = None
    empty: tuple[float, float] = (0.0, 0.0)


def resident(process="self"):
    return harness.memory("VmRSS", process), harness.memory("RssAnon", process)


def tensorflow(path, threads, setting="ids"):
    """Runs a signature of a SavedModel."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.constant(0.0)  # starts the runtime, which takes memory
    empty = resident()
    signature = tf.saved_model.load(path).signatures[setting]
    names = signature.structured_input_signature[1]

    def run(rows):
        return signature(**{name: tf.constant(rows[name]) for name in names})

    return Loaded(run, "self", empty)


def tensorflow_c(path, threads, setting):
    from tests.export.c_program import SavedModel

    program = Path(path).with_name("serve_saved_model")
    return _c_program(SavedModel(program, path, "ids", "logits", library="-"))


def litert(path, threads, setting="ids"):
    """Runs a signature of a .tflite file."""
    from ai_edge_litert.interpreter import Interpreter

    empty = resident()
    interpreter = Interpreter(path, num_threads=threads or os.cpu_count())
    signature = interpreter.get_signature_runner(setting)
    return Loaded(lambda rows: signature(**rows), "self", empty)


def litert_cached(path, threads, setting="ids"):
    """Runs a fixed-shape .tflite file with `CompiledModel` and a cache file of packed weights."""
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.cpu_options import CpuOptions
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import Options

    empty = resident()
    cpu = CpuOptions(num_threads=threads, xnnpack_weight_cache_path=f"{path}.cache")
    options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=cpu)
    model = CompiledModel.from_file(path, options=options)
    names = model.get_signature_list()[setting]
    inputs = {each: model.create_input_buffer_by_name(setting, each) for each in names["inputs"]}
    outputs = {each: model.create_output_buffer_by_name(setting, each) for each in names["outputs"]}

    def run(rows):
        for name, buffer in inputs.items():
            buffer.write(rows[name])
        model.run_by_name(setting, inputs, outputs)
        count = len(rows["input_ids"])
        return {"logits": outputs["logits"].read(2 * count, np.float32).reshape(count, 2)}

    return Loaded(run, "self", empty)


def litert_c(path, threads, setting):
    from tests.export.c_program import TFLite

    return _c_program(TFLite(Path(path).with_name("run_tflite"), path))


def _c_program(program):
    process = program.process.pid
    empty = resident(process)
    program.start()
    return Loaded(lambda rows: program(**rows), process, empty)


def litert_js(path, threads, setting):
    """Runs the page of `albert-tf export web` in Chromium, row by row."""
    import playwright.sync_api

    class Handler(http.server.SimpleHTTPRequestHandler):
        def end_headers(self):
            if threads != 1:  # Browsers allow threads only in isolated pages.
                self.send_header("Cross-Origin-Opener-Policy", "same-origin")
                self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
            super().end_headers()

        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=Path(path).parents[1])
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
        inputs = zip(*(rows[name] for name in NAMES), strict=True)
        logits = [
            page.evaluate(script, [ids[: mask.sum()].tolist(), types[: mask.sum()].tolist()])
            for ids, mask, types in inputs
        ]
        return {"logits": np.array(logits, np.float32)}

    return Loaded(run)


def mediapipe(path, threads, setting):
    """Runs a file for MediaPipe on texts, row by row."""
    from mediapipe.tasks.python import text
    from mediapipe.tasks.python.core.base_options import BaseOptions

    empty = resident()
    options = text.TextClassifierOptions(base_options=BaseOptions(model_asset_path=path))
    classifier = text.TextClassifier.create_from_options(options)

    def run(rows):
        rows = [classifier.classify(row).classifications[0].categories for row in rows["texts"]]
        scores = [{each.category_name: each.score for each in row} for row in rows]
        return {"probabilities": np.array([[row[name] for name in sorted(row)] for row in scores])}

    return Loaded(run, "self", empty)


def onnx(path, threads, setting):
    import onnxruntime

    empty = resident()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options)
    names = [each.name for each in session.get_outputs()]
    return Loaded(
        lambda rows: dict(zip(names, session.run(names, rows), strict=True)), "self", empty
    )


def openvino(path, threads, setting):
    """Runs a file in the given precision: "f32", or "" for OpenVINO's default."""
    import openvino

    empty = resident()
    settings = {"INFERENCE_PRECISION_HINT": setting} if setting else {}
    settings |= {"INFERENCE_NUM_THREADS": threads} if threads else {}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", settings)

    def run(rows):
        inputs = {
            port: next(rows[name] for name in NAMES if any(name in each for each in port.names))
            for port in compiled.inputs
        }
        outputs = compiled(inputs)
        for port, value in outputs.items():
            if any("logits" in name for name in port.names):
                return {"logits": value}
        # Outputs of TFLite files have no names here. Unlike probabilities, logits don't sum to 1.
        (logits,) = (each for each in outputs.values() if abs(each.sum(-1) - 1).max() > 0.01)
        return {"logits": logits}

    return Loaded(run, "self", empty)


def keras(path, threads, setting):
    from albert_tf import AlbertForSequenceClassification

    empty = resident()
    model = AlbertForSequenceClassification.from_pretrained(path)
    return Loaded(model.predict_on_batch, "self", empty)


def keras_hub(path, threads, setting):
    import keras_hub  # noqa: F401 (before the memory is read)

    empty = resident()
    model = keras_hub_classifier(path)

    def run(rows):
        rows = {name: rows[ours] for ours, name in KERAS_HUB.items()}
        return {"logits": model.predict_on_batch(rows)}

    return Loaded(run, "self", empty)


def keras_hub_classifier(path):
    """Returns KerasHub's classifier for two classes. KerasHub reads our folder's encoder itself."""
    import keras_hub
    import safetensors

    model = keras_hub.models.AlbertTextClassifier(
        keras_hub.models.AlbertBackbone.from_preset(str(path)),
        num_classes=2,
        dropout=0.0,
        preprocessor=None,
    )
    with safetensors.safe_open(f"{path}/model.safetensors", framework="np") as file:
        head = (file.get_tensor(f"classifier.{name}") for name in ("weight", "bias"))
        model.output_dense.set_weights([tensor.T for tensor in head])
    return model


def torch(path, threads, setting):
    """Runs transformers' model: "eager", "sdpa" or "compiled"."""
    import torch
    import transformers

    empty = resident()
    attention = "eager" if setting == "eager" else "sdpa"
    model = transformers.AlbertForSequenceClassification.from_pretrained(
        path, dtype=torch.float32, attn_implementation=attention
    ).eval()
    # One graph per shape, because dynamic shapes are slower.
    compiled = torch.compile(model, dynamic=False) if setting == "compiled" else model

    def run(rows):
        rows = {name: torch.from_numpy(value).long() for name, value in rows.items()}
        with torch.inference_mode():
            return {"logits": compiled(**rows).logits.numpy()}

    return Loaded(run, "self", empty)


def write_batch(path, rows, model, texts=()):
    """Writes the inputs for `measure`, with a Keras model's logits as the expected outputs."""
    logits = np.asarray(model(dict(rows), training=False)["logits"])
    np.savez(path, **rows, texts=np.array(texts, str), expected=logits)
    return logits


def measure(
    runner, path, batches, *, threads=1, calls=5, seconds=math.inf, clock="perf_counter", **setting
):
    """Runs batches, which are files written by `write_batch`, one after another in this process.

    Args:
        runner: name of a runner.
        threads: number of threads of the runtime and of cores of the process; 0 for all.
        calls, seconds, clock: see `harness.timed`; the clock is the name of a function in `time`.
        setting: the runner's setting.
    Returns:
        For each batch: `file`, the model's MB; `ms` per call; `difference`, the largest difference
        of a logit from Keras (or of a probability if the runtime returns no logits); and the
        process's memory, or None if unknown: `MB` at its peak, `added` above that before loading,
        and `private`, the part that isn't pages of files.
    """
    if threads:  # for runtimes without an option for it
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    loaded, results = globals()[runner](path, threads, **setting), []
    for batch in batches:
        rows = dict(np.load(batch))
        expected, texts = rows.pop("expected"), rows.pop("texts").tolist()
        rows = {"texts": texts} if runner == "mediapipe" else rows
        outputs = {name: np.asarray(value) for name, value in loaded.run(rows).items()}
        if "logits" not in outputs:
            powers = np.exp(expected - expected.max(-1, keepdims=True))
            expected, outputs["logits"] = (
                powers / powers.sum(-1, keepdims=True),
                outputs["probabilities"],
            )
        result = {"file": harness.megabytes(path)}
        result["difference"] = float(np.abs(outputs["logits"] - expected).max())
        result["ms"] = harness.timed(
            lambda rows=rows: loaded.run(rows), calls, seconds, getattr(time, clock)
        )
        result |= dict.fromkeys(("MB", "added", "private"))
        if loaded.process is not None:
            peak, private = harness.memory("VmHWM", loaded.process), resident(loaded.process)[1]
            result |= {"MB": peak, "added": peak - loaded.empty[0]}
            result["private"] = private - loaded.empty[1]
        results.append(result)
    return results
