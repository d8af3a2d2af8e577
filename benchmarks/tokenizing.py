"""Measures the tokenizer on one long text: processor time, and memory above the loaded tokenizer's.

    python -m benchmarks.tokenizing --input book.txt [--megabytes 10] [--model small]

Takes about a minute. In the graph a text passes as in a SavedModel that takes strings,
which truncates to 128 tokens.
"""

import time
from functools import partial

from benchmarks import harness

PACKAGES = ("sentencepiece", "tensorflow-text")
WAYS = ("ids", "ids and offsets", "in the graph")


def measure(path, megabytes, model, way):
    from albert_tf import AlbertTokenizer

    with open(path, "rb") as file:
        text = file.read(int(megabytes * 1e6)).decode("utf-8", "ignore")
    tokenizer = AlbertTokenizer.from_pretrained(model)
    offsets = {"return_offsets_mapping": True} if way == "ids and offsets" else {}

    def encode(text):
        return len(tokenizer(text, **offsets)["input_ids"])

    if way == "in the graph":
        import tensorflow as tf

        from albert_tf.text.preprocessing import AlbertPreprocessor

        layer = AlbertPreprocessor(tokenizer, 128)
        graph = tf.function(layer, input_signature=[tf.TensorSpec([None], tf.string)])

        def encode(text):
            return graph(tf.constant([text]))["input_ids"].shape[1]

    encode(text[:1000])
    before, start = harness.memory("VmHWM"), time.process_time()
    tokens = encode(text)
    seconds = time.process_time() - start
    return {"tokens": tokens, "seconds": seconds, "MB": harness.memory("VmHWM") - before}


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--input", required=True, help="text file in UTF-8")
    parser.add_argument("--megabytes", type=float, default=10, help="part of the file to read")
    parser.add_argument("--model", default="small", help="model whose tokenizer is measured")
    options = parser.parse_args()
    given = (options.input, options.megabytes, options.model)
    cases = {way: partial(harness.fresh, measure, *given, way) for way in WAYS}
    rounds = harness.take_turns(cases, options.rounds)

    def cells(figures):
        return [f"{figures['tokens']:,}", f"{figures['seconds']:.1f}", f"{figures['MB']:.0f}"]

    table = harness.table(["", "tokens", "s", "MB"], harness.rows(rounds, cells))
    harness.report(options, PACKAGES, [table], rounds)


if __name__ == "__main__":
    main()
