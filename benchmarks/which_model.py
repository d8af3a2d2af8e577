"""Measures the models in docs/which-model.md: the size of their files, and the time for 128 tokens.

    python -m benchmarks.which_model [--only small all-MiniLM-L6-v2] [--rounds 3] [--calls 5]
                                     [--files build/which_model]

Every model except `small` has random weights of the published shape, because size and speed don't
depend on their values. Each is a classifier with two classes. "MB, float32" is the size of the
weights, and "MB, 8 bits" that of a .tflite file for ids with `--quantize dynamic`, without a
vocabulary. A fresh process loads this file and runs a row of 128 tokens on one thread. The time is
the median of the milliseconds of processor time, and the memory is the MB at the peak above that
before loading. The files are kept in --files and reused by the next run.
"""

from functools import partial
from pathlib import Path

from benchmarks import exports, harness, runners

LENGTH = 128
PACKAGES = ("tensorflow", "keras", "ai-edge-litert")


def bert(vocab_size, hidden_size, layers, heads):
    """Returns the `config.json` of a BERT encoder."""
    return {
        "model_type": "bert",
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "intermediate_size": 4 * hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }


# The fields of a config.json, or the changes to a size of `AlbertConfig.from_size`.
MODELS = {
    "small": None,
    "albert-base-v2": ("base", {}),
    "albert-large-v2": ("large", {}),
    "albert-xlarge-v2": ("xlarge", {}),
    "albert-xxlarge-v2": ("xxlarge", {}),
    "paraphrase-albert-small-v2": ("base", {"num_hidden_layers": 6}),
    "malbert-base-cased-128k": ("base", {"vocab_size": 128000}),
    "albert_chinese_tiny": (
        "base",
        {"vocab_size": 21128, "hidden_size": 312, "intermediate_size": 1248}
        | {"num_hidden_layers": 4},
    ),
    "all-MiniLM-L6-v2": bert(30522, 384, 6, 12),
    "bge-small-en-v1.5": bert(30522, 384, 12, 12),
    "bge-small-zh-v1.5": bert(21128, 512, 4, 8),
    "bert-base-german-cased": bert(31102, 768, 12, 12),
    "bert-base-chinese": bert(21128, 768, 12, 12),
    "bert-base-multilingual-cased": bert(119547, 768, 12, 12),
}


def classifier(name):
    """Returns a Keras model with two classes."""
    from albert_tf import AlbertConfig, AlbertForSequenceClassification

    shape = MODELS[name]
    if shape is None:
        return AlbertForSequenceClassification.from_pretrained(name, num_labels=2)
    if isinstance(shape, dict):
        config = AlbertConfig.from_dict(shape, num_labels=2)
    else:
        config = AlbertConfig.from_size(shape[0], **shape[1], num_labels=2)
    return AlbertForSequenceClassification(config)


def write(name, folder):
    """Writes a .tflite file, its inputs, and the size of the weights to a folder."""
    from albert_tf_export import graphs
    from albert_tf_export.signatures import ids_signature

    model, folder = classifier(name), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = exports.draw((1, LENGTH, LENGTH), model.config)
    runners.write_batch(folder / "batch.npz", rows, model)
    signature = ids_signature(model, unroll=False, batch=1, strings=False)
    (folder / "model.tflite").write_bytes(graphs.convert([signature], "dynamic"))
    (folder / "megabytes.txt").write_text(f"{4 * model.count_params() / 1e6:.1f}")


def compare(options):
    """Returns the results keyed by name and the MB of the weights."""
    cases = {}
    for name in options.only:
        folder = options.files / name
        if not (folder / "megabytes.txt").exists():
            harness.fresh(write, name, folder)
        cases[name, (folder / "megabytes.txt").read_text()] = partial(
            *(harness.fresh, runners.measure, "litert", folder / "model.tflite"),
            **{"batches": [folder / "batch.npz"], "calls": options.calls},
            clock="process_time",
        )
    return harness.take_turns(cases, options.rounds)


def cells(batches):
    (figures,) = batches
    return [f"{figures['file']:.1f}", f"{figures['ms']:.1f}", f"{figures['added']:.0f}"]


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--files", type=Path, default=Path("build/which_model"))
    options = parser.parse_args()
    rounds = compare(options)
    heads = ["model", "MB, float32", "MB, 8 bits", "CPU ms", "MB of memory"]
    harness.report(options, PACKAGES, [harness.table(heads, harness.rows(rounds, cells))], rounds)


if __name__ == "__main__":
    main()
