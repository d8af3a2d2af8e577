"""Compares precisions of TFLite files that `albert-tf export` doesn't write with those it writes.

    python benchmarks/mobile_precisions.py [--size base] [--length 128] [--calls 5] [--rounds 2]

First costs, of a classifier with random weights: "dynamic" has weights in 8 bits; "full int8" has
activations in 8 bits too, calibrated with four rows, unrolled, because a loop ends the calibrating
process; "4 bits" is written by ai-edge-quantizer, which must be installed (pip install
ai-edge-quantizer). Costs are `mobile.py`'s: the least time and memory over --rounds fresh
processes; the difference is the largest of a logit from Keras.

Then quality, of the trained model in the package: predicted words behind masks in reviews, with
weights rounded in Keras. "Alike" is the share of masks for which the best of 8,000 pieces stays.
"""

import argparse
import tempfile
from pathlib import Path

import mobile
import numpy as np

BLOCK = 32  # weights of one scale, as in ai-edge-quantizer's blocks
# Bits of the products' weights, whether in blocks, and bits of the word embeddings.
ROUNDED = ((8, False, 8), (4, False, 32), (4, False, 8), (4, False, 4), (4, True, 8), (4, True, 4))
MASKED = 0.12


def rows_of(length, count):
    ids = np.random.RandomState(1).randint(5, 30000, (count, 1, length)).astype(np.int32)
    return [
        {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.zeros_like(row),
        }
        for row in ids
    ]


def fully_quantized(signature, rows):
    import tensorflow as tf
    from albert_tf_export import graphs

    with tempfile.TemporaryDirectory() as folder:
        graphs.write([signature], Path(folder))
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["ids"])
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: (("ids", row) for row in rows)
        return converter.convert()


def in_four_bits(content, folder):
    from ai_edge_quantizer import quantizer, recipe

    path = folder / "float.tflite"
    path.write_bytes(content)
    made = quantizer.Quantizer(str(path))
    made.load_quantization_recipe(recipe.dynamic_wi4_afp32())
    return bytes(made.quantize().quantized_model)


def costs(options):
    from ai_edge_litert.interpreter import Interpreter
    from albert_tf_export.graphs import convert
    from albert_tf_export.signatures import ids_signature

    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForSequenceClassification

    config = AlbertConfig.from_size(options.size, id2label={0: "negative", 1: "positive"})
    model = AlbertForSequenceClassification(config)
    rows = rows_of(options.length, 8)
    expected = np.concatenate([np.asarray(model(row, training=False)["logits"]) for row in rows])
    loop, unrolled = (
        ids_signature(model, unroll=unroll, batch=1, length=options.length, strings=False)
        for unroll in (False, True)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = {
            "loop, dynamic": lambda: convert([loop], "dynamic"),
            "unrolled, dynamic": lambda: convert([unrolled], "dynamic"),
            "unrolled, full int8": lambda: fully_quantized(unrolled, rows[:4]),
            "loop, 4 bits": lambda: in_four_bits(convert([loop], "none"), folder),
        }
        for case, make in cases.items():
            path = folder / "model.tflite"
            try:
                path.write_bytes(make())
            except (RuntimeError, ValueError, ImportError) as error:
                print(f"{case:>20}  {str(error).splitlines()[-1][:100]}", flush=True)
                continue
            signature = Interpreter(str(path)).get_signature_runner("ids")
            found = np.concatenate([signature(**row)["logits"] for row in rows])
            runs = [
                mobile.measured(path, "ids", options.length, options.calls)
                for _ in range(options.rounds)
            ]
            memory, time = (min(each[key] for each in runs) for key in ("peak", "milliseconds"))
            print(
                f"{case:>20}{path.stat().st_size / 1e6:8.1f} MB{memory:7.0f} MB of memory"
                f"{time:8.1f} ms  difference {np.abs(found - expected).max():.3f}",
                flush=True,
            )


def rounded(weight, bits, in_blocks):
    """Rounds to symmetric steps, with a scale for each column or block; 32 bits change nothing."""
    if bits == 32:
        return weight
    steps, inputs = 2 ** (bits - 1) - 1, weight.shape[0]
    columns = weight.reshape(inputs // BLOCK if in_blocks else 1, -1, weight[0].size)
    scale = np.abs(columns).max(axis=1, keepdims=True) / steps + 1e-12
    return (np.clip(np.round(columns / scale), -steps, steps) * scale).reshape(weight.shape)


def quality():
    from albert_tf import AlbertTokenizer
    from albert_tf.assets import reviews
    from albert_tf.models import AlbertForMaskedLM

    tokenizer = AlbertTokenizer.from_pretrained("small")
    model = AlbertForMaskedLM.from_pretrained("small")
    lines = (reviews() / "train.tsv").read_text("utf-8").splitlines()[1:401]
    texts = [line.split("\t")[0] for line in lines]
    features = dict(
        tokenizer(texts, padding="max_length", truncation=True, max_length=48, return_tensors="np")
    )
    ids = features["input_ids"]
    drawn = np.random.RandomState(0).rand(*ids.shape) < MASKED
    masked = drawn & (ids > tokenizer.mask_token_id) & (features["attention_mask"] == 1)
    features["input_ids"] = np.where(masked, tokenizer.mask_token_id, ids)

    def predicted():
        logits = model.predict(features, batch_size=50, verbose=0)["logits"]
        return logits[masked].argmax(axis=-1)

    exact, weights = predicted(), [np.asarray(weight) for weight in model.weights]
    print(f"float32: {np.mean(exact == ids[masked]):.1%} of {masked.sum()} masked pieces")
    for bits, in_blocks, embedding_bits in ROUNDED:
        for variable, weight in zip(model.weights, weights, strict=True):
            if variable.path.endswith("word_embeddings"):
                variable.assign(rounded(weight.T, embedding_bits, in_blocks).T)
            elif variable.path.endswith("kernel"):
                variable.assign(rounded(weight, bits, in_blocks))
        found = predicted()
        print(
            f"{bits} bits{' in blocks' * in_blocks}, embeddings {embedding_bits}: "
            f"{np.mean(found == ids[masked]):.1%}, alike {np.mean(found == exact):.1%}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="base", help="name of a size (AlbertConfig.from_size)")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    costs(options)
    quality()


if __name__ == "__main__":
    main()
