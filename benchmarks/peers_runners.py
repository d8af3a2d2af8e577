"""The processes of `peers.py`: each prepares the files, or measures one case and prints JSON."""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
from memory import memory
from peers_products import PRODUCTS
from peers_texts import answers, keep_same_ids, questions, tokenizing
from peers_trainers import command_trainer, keras_trainer, torch_trainer
from runtime_runners import KERAS_HUB, NAMES, litert, onnx, openvino, tensorflow

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
MATRIX = 2048  # side of the square product


def prepare(folder, options):
    """Draws weights; writes every peer's files, the rows of each shape, and Keras' logits."""
    import keras
    from albert_tf_export import onnx as onnx_export
    from albert_tf_export import saved_model
    from albert_tf_export.signatures import ids_signature
    from albert_tf_export.tflite import convert

    import albert_tf
    from albert_tf import (
        AlbertConfig,
        AlbertForQuestionAnswering,
        AlbertForSequenceClassification,
        AlbertTokenizer,
    )

    keras.utils.set_random_seed(1)
    tokenizer = AlbertTokenizer.from_pretrained("small", model_max_length=512)
    none = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob")
    config = AlbertConfig.from_size(
        options.size,
        vocab_size=tokenizer.vocab_size,
        id2label={0: "negative", 1: "positive"},
        **dict.fromkeys(none, 0.0),
    )
    model = AlbertForSequenceClassification(config)
    for weight in model.weights:  # biases and gains that differ, and logits far from 0
        weight.assign_add(keras.random.normal(weight.shape, stddev=0.02))
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    albert_tf.convert(folder / "model", folder / "keras-hub", format="keras-hub")
    AlbertForQuestionAnswering(config).save_pretrained(folder / "questions")
    tokenizer.save_pretrained(folder / "questions")
    keep_same_ids(folder, tokenizer)
    signature = ids_signature(model, unroll="last", strings=False)
    saved_model.write([signature], folder / "saved")
    loop = ids_signature(model, unroll=False, strings=False)
    for precision in ("none", "dynamic"):
        (folder / f"{precision}.tflite").write_bytes(convert([loop], precision))
        onnx_file = folder / f"{precision}.onnx"
        onnx_export.convert(signature, ("batch", "length"), precision, {}, onnx_file)
    generator = np.random.default_rng(1)
    for batch, length in options.shapes:
        ids = generator.integers(5, config.vocab_size, (batch, length), np.int32)
        rows = dict(zip(NAMES, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
        if batch > 1:
            rows["attention_mask"][-1, length // 2 :] = 0
        rows["token_type_ids"][:, length // 2 :] = 1
        expected = np.asarray(model(dict(rows), training=False)["logits"])
        np.savez(folder / f"{batch}x{length}.npz", **rows, expected=expected)
    return config.to_dict()


def keras_runner(path, setting, threads):
    from albert_tf import AlbertForSequenceClassification

    empty = memory("VmRSS")
    return AlbertForSequenceClassification.from_pretrained(path).predict_on_batch, empty


def keras_hub_runner(path, setting, threads):
    import keras_hub

    empty = memory("VmRSS")
    model = keras_hub.models.AlbertTextClassifier.from_preset(path, preprocessor=None)

    def run(rows):
        given = {name: rows[ours] for ours, name in KERAS_HUB.items()}
        return {"logits": model.predict_on_batch(given)}

    return run, empty


def torch_runner(path, setting, threads):
    import torch
    import transformers

    empty = memory("VmRSS")
    attention = "eager" if setting == "eager" else "sdpa"
    model = transformers.AlbertForSequenceClassification.from_pretrained(
        path, dtype=torch.float32, attn_implementation=attention
    ).eval()
    # A graph for each shape; dynamic shapes are slower.
    compiled = torch.compile(model, dynamic=False) if setting == "compiled" else model

    def run(rows):
        given = {name: torch.from_numpy(value).long() for name, value in rows.items()}
        with torch.inference_mode():
            return {"logits": compiled(**given).logits.numpy()}

    return run, empty


RUNNERS = {
    "keras": keras_runner,
    "keras_hub": keras_hub_runner,
    "torch": torch_runner,
    "tensorflow": tensorflow,
    "litert": litert,
    "onnx": onnx,
    "openvino": openvino,
}


def timed(call, seconds):
    """Returns the median milliseconds of 2 to 30 calls, which take about this time."""
    call()
    times, start = [], time.perf_counter()
    while len(times) < 2 or (len(times) < 30 and time.perf_counter() - start < seconds):
        before = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - before))
    return statistics.median(times)


def inference(folder, options):
    """Returns milliseconds, difference from Keras and memory at each shape, in turn."""
    run, empty = RUNNERS[options.runner](str(folder / options.file), options.form, options.threads)
    logits = np.concatenate([np.load(file)["expected"] for file in folder.glob("*.npz")])
    spread, found = np.ptp(logits, axis=0).max(), []
    for batch, length in options.shapes:
        rows = dict(np.load(folder / f"{batch}x{length}.npz"))
        expected = rows.pop("expected")
        difference = np.abs(np.asarray(run(rows)["logits"]) - expected).max()
        found.append(
            {
                "milliseconds": timed(lambda rows=rows: run(rows), options.seconds),
                "difference": float(difference / spread),
                "peak": memory("VmHWM"),
                "added": memory("VmHWM") - empty,
            }
        )
    return found


def product(folder, options):
    """Returns the FLOP/s of the fastest product of two large matrices."""
    from pretraining_trainers import square_product

    multiply, times = square_product(options.runner, MATRIX, "float32"), []
    for _ in range(20):
        start = time.perf_counter()
        multiply()
        times.append(time.perf_counter() - start)
    return 2 * MATRIX**3 / min(times)


def products(folder, options):
    """Returns the milliseconds of all layers' matrix products with biases, at each shape."""
    config = json.loads((folder / "model" / "config.json").read_text("utf-8"))
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    sizes = [(hidden, hidden)] * 4 + [(hidden, inner), (inner, hidden)]
    generator = np.random.default_rng(1)
    weights = [generator.normal(0, one**-0.5, (one, two)).astype("float32") for one, two in sizes]
    biases = [np.zeros(two, "float32") for _, two in sizes]
    layers = PRODUCTS[options.runner](weights, biases, config["num_hidden_layers"])
    found = []
    for batch, length in options.shapes:
        rows = generator.standard_normal((batch * length, hidden), "float32")
        found.append(timed(lambda rows=rows: layers(rows), options.seconds))
    return found


def training(folder, options):
    """Returns milliseconds and memory of a fine-tuning step, and the losses of the first two."""
    (shape,) = options.shapes
    rows = dict(np.load(folder / "{}x{}.npz".format(*shape)))
    del rows["expected"]
    labels = np.arange(shape[0], dtype="int32") % 2
    others = {"transformers": torch_trainer, "albert_tf, finetune": command_trainer}
    trainer = others.get(options.runner, keras_trainer)
    empty, step = trainer(folder, options, rows, labels)
    losses = [float(step()) for _ in range(2)]
    taken = timed(step, options.seconds)
    peak = memory("VmHWM")
    return {"milliseconds": taken, "peak": peak, "added": peak - empty, "losses": losses}


def shape(text):
    """Returns (8, 128) for "8x128"."""
    batch, length = map(int, text.split("x"))
    return batch, length


WORKS = {
    work.__name__: work
    for work in (prepare, product, products, inference, answers, questions, tokenizing, training)
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size")
    parser.add_argument("--shapes", nargs="+", type=shape)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--runner")
    parser.add_argument("--file")
    parser.add_argument("--form", default="")
    options = parser.parse_args()
    print(json.dumps(WORKS[options.work](options.folder, options)))


if __name__ == "__main__":
    main()
