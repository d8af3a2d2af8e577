"""Compares exported files of a classifier with random weights: size, processor time, and memory.

    python -m benchmarks.exports layers [--size base] [--padded 128] [--rounds 3]
    python -m benchmarks.exports lengths [--lengths 16 64 128 512] [--precisions dynamic]
    python -m benchmarks.exports precisions
    python -m benchmarks.exports serving

layers: compares unrolled layers with a loop in the graph, in which they stay shared.
lengths: compares .tflite files for a phone. "any length" takes rows of any length, "padded" pads
    them to --padded tokens, and "lengths" has a signature for each of --lengths. "cached" is the
    padded file with a second file, written in the first run, in which the runtime caches packed
    weights. `--size xxlarge --precisions dynamic --lengths 128` measures the largest model.
precisions: measures .tflite files that `albert-tf export` doesn't write. "full int8" also has 8-bit
    activations, calibrated on four rows; its layers are unrolled, because the calibrating process
    crashes on a loop. "4 bits" requires `pip install ai-edge-quantizer`. Then `small` predicts
    masked words in reviews with weights that Keras rounds to a few bits. "Alike" is the share of
    predictions that stay the same.
serving: compares what a server can run on CPUs: SavedModels in float32 and bfloat16, and OpenVINO
    with the float32 file, in float32 ("f32") and in its default precision, which is bfloat16 if the
    processor supports it. Requires `pip install openvino`.

Each file runs in fresh processes, in turns, on one thread, in LiteRT or, for a SavedModel, in
TensorFlow or OpenVINO. The figures are medians of the milliseconds of processor time, of the MB at
the peak above the memory before loading, and of the part of it that isn't pages of files, which the
system may drop. The difference is the largest difference of a logit from Keras.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import harness, runners

PACKAGES = ("tensorflow", "keras", "ai-edge-litert", "ai-edge-quantizer", "openvino")
BLOCK = 32  # weights with a common scale, as in ai-edge-quantizer's blocks
# Bits of the weights in matmuls, whether they are in blocks, and bits of the word embeddings.
ROUNDED = ((8, False, 8), (4, False, 32), (4, False, 8), (4, False, 4), (4, True, 8), (4, True, 4))
MASKED = 0.12
CHOICES = ("layers", "lengths", "precisions", "serving")


class Case(NamedTuple):
    """A file, its runner, a signature, and the batch's rows, tokens, and padded length."""

    path: Path
    shape: tuple[int, int, int]
    runner: str = "litert"
    signature: str = "ids"


def layers(model, folder, options):
    """Yields (name, case)."""
    from albert_tf_export import graphs
    from albert_tf_export.signatures import ids_signature

    length = options.padded
    for precision in options.precisions:
        for form, unroll in (("unrolled", True), ("loop", False)):
            signature = ids_signature(model, unroll=unroll, batch=1, length=length, strings=False)
            path = folder / f"{precision}-{form}.tflite"
            path.write_bytes(graphs.convert([signature], precision))
            yield (f"TFLite, {precision}, {form}", length), Case(path, (1, length, length))
    for form, unroll in (("unrolled", True), ("loop", "last")):
        graphs.write([ids_signature(model, unroll=unroll, strings=False)], folder / form)
        case = Case(folder / form, (1, length, length), "tensorflow")
        yield (f"SavedModel, {form}", length), case


def lengths(model, folder, options):
    from albert_tf_export import graphs
    from albert_tf_export.signatures import ids_signature

    padded, short = options.padded, [each for each in options.lengths if each <= options.padded]
    forms = {
        "any length": ({"ids": None}, options.lengths),
        "padded": ({"ids": padded}, short),
        "lengths": ({f"ids_{each}": each for each in options.lengths}, options.lengths),
    }
    for precision in options.precisions:
        for form, (signatures, taken) in forms.items():
            path = folder / f"{precision}-{form}.tflite"
            content = [
                ids_signature(model, unroll=False, name=name, batch=1, length=each, strings=False)
                for name, each in signatures.items()
            ]
            path.write_bytes(graphs.convert(content, precision))
            for each in taken:
                shape = (1, each, padded if form == "padded" else each)
                name = f"ids_{each}" if form == "lengths" else "ids"
                yield (f"{precision}, {form}", each), Case(path, shape, signature=name)
                if form == "padded":
                    yield (f"{precision}, cached", each), Case(path, shape, "litert_cached")


def precisions(model, folder, options):
    import tensorflow as tf
    from albert_tf_export import graphs
    from albert_tf_export.signatures import ids_signature

    length = options.padded
    loop, unrolled = (
        ids_signature(model, unroll=unroll, batch=1, length=length, strings=False)
        for unroll in (False, True)
    )

    def full_int8():
        graphs.write([unrolled], folder / "saved")
        converter = tf.lite.TFLiteConverter.from_saved_model(
            str(folder / "saved"), signature_keys=["ids"]
        )
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        batches = [draw((1, length, length), model.config, seed) for seed in range(4)]
        converter.representative_dataset = lambda: (("ids", rows) for rows in batches)
        return converter.convert()

    def four_bits():
        from ai_edge_quantizer import quantizer, recipe

        (folder / "float.tflite").write_bytes(graphs.convert([loop], "none"))
        made = quantizer.Quantizer(str(folder / "float.tflite"))
        made.load_quantization_recipe(recipe.dynamic_wi4_afp32())
        return made.quantize().quantized_model

    for name, make in {
        "int8, loop": lambda: graphs.convert([loop], "dynamic"),
        "int8, unrolled": lambda: graphs.convert([unrolled], "dynamic"),
        "full int8, unrolled": full_int8,
        "4 bits, loop": four_bits,
    }.items():
        path = folder / f"{name}.tflite"
        try:
            path.write_bytes(make())
        except (RuntimeError, ValueError, ImportError) as error:
            print(f"{name}: {error}", file=sys.stderr)
        else:
            yield (name, length), Case(path, (1, length, length))


def serving(model, folder, options):
    from albert_tf_export import graphs
    from albert_tf_export.options import in_precision
    from albert_tf_export.signatures import ids_signature

    for precision in ("float32", "bfloat16"):
        path = folder / precision
        graphs.write([ids_signature(in_precision(model, precision), unroll="last")], path)
        for rows in (1, 8):
            shape = (rows, options.padded, options.padded)
            name = (f"SavedModel, {precision}", f"{rows} × {options.padded}")
            yield name, Case(path, shape, "tensorflow")
    for hint in ("f32", ""):
        for rows in (1, 8):
            shape = (rows, options.padded, options.padded)
            name = (f"OpenVINO, {hint or 'default'}", f"{rows} × {options.padded}")
            yield name, Case(folder / "float32", shape, "openvino", hint)


def draw(shape, config, seed=1):
    """Returns inputs with `length` tokens per row, padded to `width`."""
    count, length, width = shape
    rows = {name: np.zeros((count, width), np.int32) for name in runners.NAMES}
    ids = np.random.default_rng(seed).integers(5, config.vocab_size, (count, length))
    rows["input_ids"][:, :length] = ids
    rows["input_ids"][:, [0, length - 1]] = 2, 3
    rows["attention_mask"][:, :length] = 1
    return rows


def compare(options):
    """Writes and runs the files of a comparison. Returns the results, keyed by name."""
    from albert_tf import AlbertConfig, AlbertForSequenceClassification

    labels, write = {0: "negative", 1: "positive"}, globals()[options.comparison]
    if options.size == "small":
        model = AlbertForSequenceClassification.from_pretrained("small", id2label=labels)
    else:
        config = AlbertConfig.from_size(options.size, id2label=labels)
        model = AlbertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as name:
        folder, cases = Path(name), {}
        for name, (path, shape, runner, signature) in write(model, folder, options):
            batch = folder / f"{'x'.join(map(str, shape))}.npz"
            if not batch.exists():
                runners.write_batch(batch, draw(shape, model.config), model)
            cases[name] = partial(
                *(harness.fresh, runners.measure, runner, path, [batch]),
                **{"calls": options.calls, "clock": "process_time", "setting": signature},
            )
        return harness.take_turns(cases, options.rounds)


def rounded(weight, bits, in_blocks):
    """Quantizes symmetrically, with one scale per column or block. 32 bits change nothing."""
    if bits == 32:
        return weight
    steps, inputs = 2 ** (bits - 1) - 1, weight.shape[0]
    columns = weight.reshape(inputs // BLOCK if in_blocks else 1, -1, weight[0].size)
    scale = np.abs(columns).max(axis=1, keepdims=True) / steps + 1e-12
    return (np.clip(np.round(columns / scale), -steps, steps) * scale).reshape(weight.shape)


def predictions():
    """Returns a table of how well `small` predicts masked words with rounded weights."""
    from albert_tf import AlbertForMaskedLM, AlbertTokenizer
    from albert_tf.assets import reviews

    tokenizer = AlbertTokenizer.from_pretrained("small")
    model = AlbertForMaskedLM.from_pretrained("small")
    lines = (reviews() / "train.tsv").read_text("utf-8").splitlines()[1:401]
    texts = [line.split("\t")[0] for line in lines]
    rows = tokenizer(texts, padding="max_length", truncation=True, max_length=48)
    rows = {name: np.array(values) for name, values in rows.items()}
    ids = rows["input_ids"]
    drawn = np.random.RandomState(0).rand(*ids.shape) < MASKED
    masked = drawn & (ids > tokenizer.mask_token_id) & (rows["attention_mask"] == 1)
    rows["input_ids"] = np.where(masked, tokenizer.mask_token_id, ids)

    def predicted():
        logits = model.predict(rows, batch_size=50, verbose=0)["logits"]
        return logits[masked].argmax(axis=-1)

    exact, weights = predicted(), [np.asarray(weight) for weight in model.weights]
    lines = [["float32", f"{np.mean(exact == ids[masked]):.1%}", "100.0%"]]
    for bits, in_blocks, embedding_bits in ROUNDED:
        for variable, weight in zip(model.weights, weights, strict=True):
            if variable.path.endswith("word_embeddings"):
                variable.assign(rounded(weight.T, embedding_bits, in_blocks).T)
            elif variable.path.endswith("kernel"):
                variable.assign(rounded(weight, bits, in_blocks))
        words = predicted()
        name = f"{bits} bits{' in blocks' * in_blocks}, embeddings {embedding_bits}"
        lines.append(
            [name, f"{np.mean(words == ids[masked]):.1%}", f"{np.mean(words == exact):.1%}"]
        )
    return harness.table([f"of {masked.sum()} masked tokens", "right", "alike"], lines)


def cells(batches):
    (figures,) = batches
    sizes = (figures[name] for name in ("file", "ms", "added", "private"))
    return [*(f"{size:.1f}" for size in sizes), f"{figures['difference']:.2g}"]


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("comparison", choices=CHOICES)
    parser.add_argument(
        "--size", default="base", help="name of a size (AlbertConfig.from_size), or small"
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 128, 512])
    parser.add_argument("--padded", type=int, default=128, help="tokens per row of fixed length")
    parser.add_argument(
        "--precisions", nargs="+", default=["none", "float16", "dynamic"], help="of --quantize"
    )
    parser.add_argument("--calls", type=int, default=5)
    options = parser.parse_args()
    rounds = compare(options)
    heads = ["file", "tokens", "MB of file", "CPU ms", "MB", "MB private", "difference"]
    tables = [harness.table(heads, harness.rows(rounds, cells), 2)]
    if options.comparison == "precisions":
        tables.append(predictions())
    harness.report(options, PACKAGES, tables, rounds)


if __name__ == "__main__":
    main()
