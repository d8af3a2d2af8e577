"""Measures the cost of checking ids, shapes and bytes: CPU time and operators.

    python benchmarks/checks.py [--size base] [--batch 8] [--length 128] [--rounds 30]

Each call runs with checks, without, and with checks again, in turns: the first and the third are
equal, and show the noise. Without checks rows are looked up by Keras' `take`, which reads a
negative id from the table's end, shapes aren't compared, and a text has no `--max-bytes`. Then a
SavedModel with and one without `--max-bytes` read one long text, each in a fresh process. Weights
are random, the vocabulary is that of `small`. Figures are in docs/models.md.
"""

import argparse
import contextlib
import importlib.metadata
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from memory import memory

EAGER = "eager call"
MAX_BYTES = 16  # for each piece: the least that an export takes


@contextlib.contextmanager
def unchecked():
    """Takes the checks out of calls, and of graphs that are traced within."""
    from albert_tf_export import signatures
    from keras import ops

    from albert_tf.layers import embedding, heads
    from albert_tf.models import base

    def take(table, ids, batch_dims=0):
        if batch_dims:
            return ops.take_along_axis(table, ops.expand_dims(ids, -1), axis=1)
        return ops.take(table, ids, axis=0)

    with contextlib.ExitStack() as stack:
        for module in (embedding, heads):
            stack.enter_context(mock.patch.object(module, "rows_at", take))
        for module in (base, embedding, heads):
            nothing = mock.Mock(return_value=contextlib.nullcontext())
            stack.enter_context(mock.patch.object(module, "checked_ids", nothing))
        stack.enter_context(mock.patch.object(signatures, "_checks", lambda features: []))
        yield


def graph_operators(function):
    graph = function.graph.as_graph_def()
    return len(graph.node) + sum(len(part.node_def) for part in graph.library.function)


def lite_operators(content):
    from ai_edge_litert import schema_py_generated as schema

    return sum(len(graph.operators) for graph in schema.ModelT.InitFromPackedBuf(content).subgraphs)


def compiled(model, ids):
    """A forward pass of the model in a `tf.function`."""
    import tensorflow as tf

    specs = {name: tf.TensorSpec([None, None], "int32", name=name) for name in ids}
    graph = tf.function(lambda ids: model(ids)["logits"], input_signature=[specs], autograph=False)
    function = graph.get_concrete_function()
    tensors = {name: tf.constant(value) for name, value in ids.items()}
    return lambda: function(**tensors), graph_operators(function)


def served(signature, inputs, folder):
    """A call of a signature of a SavedModel."""
    import tensorflow as tf
    from albert_tf_export import graphs

    graphs.write([signature], folder)
    loaded = tf.saved_model.load(folder)
    function = loaded.signatures[signature.name]
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return lambda loaded=loaded: function(**tensors), graph_operators(function)


def lite(signature, inputs, threads):
    """A call of a TFLite file."""
    from ai_edge_litert.interpreter import Interpreter
    from albert_tf_export import graphs

    content = graphs.convert([signature], "none")
    interpreter = Interpreter(model_content=content, num_threads=threads)
    runner = interpreter.get_signature_runner(signature.name)
    return lambda: runner(**inputs), lite_operators(content)


def forms(model, layer, ids, texts, folder, limit):
    """Yields (name, call, operators) with the checks, or within `unchecked` without."""
    from albert_tf_export.signatures import ids_signature, text_signature

    batch, length = ids["input_ids"].shape
    yield EAGER, lambda: model(ids), 0
    yield "compiled call", *compiled(model, ids)
    signature = ids_signature(model, unroll="last")
    yield "SavedModel, ids", *served(signature, ids, folder / "ids")
    signature = text_signature(model, layer, unroll="last", max_bytes=limit)
    yield "SavedModel, text", *served(signature, {"text": texts}, folder / "text")
    fixed = ids_signature(model, unroll=False, batch=batch, length=length)
    yield "TFLite, fixed shape", *lite(fixed, ids, os.cpu_count())
    free = ids_signature(model, unroll=False)
    yield "TFLite, free shape", *lite(free, ids, os.cpu_count())


def within_unchecked(call):
    def within():
        with unchecked():
            call()

    return within


def turns(calls, rounds):
    """Returns the CPU milliseconds of each call in each round; the first round isn't counted."""
    times = [[] for _ in calls]
    for number in range(rounds + 1):
        for call, found in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            if number:
                found.append(1000 * (time.process_time() - start))
    return times


def percent(ones, others):
    """Returns the median of the differences within a round, in percent."""
    pairs = zip(ones, others, strict=True)
    return 100 * (statistics.median(one / other for one, other in pairs) - 1)


def compare(options, folder):
    import numpy as np

    from albert_tf import AlbertConfig, AlbertForSequenceClassification, AlbertTokenizer
    from albert_tf.text.preprocessing import AlbertPreprocessor

    tokenizer = AlbertTokenizer.from_pretrained("small")
    config = AlbertConfig.from_size(
        options.size, vocab_size=tokenizer.vocab_size, num_labels=2, max_position_embeddings=512
    )
    model = AlbertForSequenceClassification(config)
    layer = AlbertPreprocessor(tokenizer, options.length)
    texts = [long_text(8 * options.length)] * options.batch
    encoded = tokenizer(texts, truncation=True, max_length=options.length, return_tensors="np")
    ids = {name: value.astype(np.int32) for name, value in encoded.items()}
    limit = max(1024, MAX_BYTES * options.length)
    given = (model, layer, ids, texts)
    checked = list(forms(*given, folder / "checked", limit))
    with unchecked():
        free = list(forms(*given, folder / "unchecked", None))
    print(f"{'':20}{'ms with':>10}{'without':>10}{'more':>9}{'noise':>9}{'operators':>14}")
    for (name, call, operators), (_, plain, fewer) in zip(checked, free, strict=True):
        without = within_unchecked(plain) if name == EAGER else plain
        ours, theirs, again = turns((call, without, call), options.rounds)
        print(
            f"{name:20}{statistics.median(ours):10.1f}{statistics.median(theirs):10.1f}"
            f"{percent(ours, theirs):+8.2f}%{percent(ours, again):+8.2f}%{operators:7}{fewer:7}",
            flush=True,
        )


def long_text(size):
    from albert_tf import assets

    text = (assets.reviews() / "new.txt").read_text("utf-8").replace("\n", " ")
    return (text * (size // len(text) + 1))[:size]


def read_long_text(path, size):
    """Prints the memory that one text of `size` bytes takes above a short one, and CPU time."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    loaded = tf.saved_model.load(path)
    text, content = loaded.signatures["text"], long_text(size)
    text(text=tf.constant([content[:1000]]))
    before, start = memory("VmHWM"), time.process_time()
    text(text=tf.constant([content]))
    seconds, more = time.process_time() - start, memory("VmHWM") - before
    print(f"{Path(path).name:20}{more:8.0f} MB{seconds:8.2f} s", flush=True)


def write_text_models(options, folder):
    """Writes a SavedModel without and one with a limit on the bytes of a text."""
    from albert_tf import (
        AlbertConfig,
        AlbertForSequenceClassification,
        AlbertTokenizer,
        export_saved_model,
    )

    tokenizer = AlbertTokenizer.from_pretrained("small")
    config = AlbertConfig.from_size(options.size, vocab_size=tokenizer.vocab_size, num_labels=2)
    model = AlbertForSequenceClassification(config)
    limits = {"without a limit": None, "--max-bytes 100000": 100_000}
    for name, limit in limits.items():
        export_saved_model(
            model,
            tokenizer,
            folder / name,
            max_length=options.length,
            max_bytes=limit,
            check=False,
        )
        yield folder / name


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--megabytes", type=float, default=10, help="size of the long text")
    options = parser.parse_args()
    packages = ("tensorflow", "keras", "ai-edge-litert")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"{versions}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print(f"{options.size}, {options.batch} rows of {options.length}, {options.rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        compare(options, Path(folder))
        print(f"one text of {options.megabytes:g} MB")
        for path in write_text_models(options, Path(folder)):
            given = (str(path), int(options.megabytes * 1e6))
            process = multiprocessing.get_context("spawn").Process(
                target=read_long_text, args=given
            )
            process.start()
            process.join()


if __name__ == "__main__":
    main()
