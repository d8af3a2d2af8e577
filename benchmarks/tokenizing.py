"""Measures the tokenizer: its start, one long text, and batches of short ones.

    python -m benchmarks.tokenizing --input book.txt [--megabytes 10] [--model small]

Takes about a minute. All seconds are processor time, and memory doesn't include that of the loaded
tokenizer. In the graph, a text is processed as in a SavedModel that takes strings and truncates to
128 tokens. Batches have 256 lines. sentencepiece by itself neither adds special tokens nor pads.
"""

import time
from functools import partial

from benchmarks import harness

PACKAGES = ("sentencepiece", "tensorflow-text")
WAYS = ("ids", "ids and offsets", "in the graph")
CUT = {"truncation": True, "max_length": 512}
BATCHES = {"sentencepiece": None, "arrays": {**CUT, "padding": True, "return_tensors": "np"}}
BATCHES |= {"lists": CUT, "padded lists": {**CUT, "padding": True}}


def read(path, megabytes):
    with open(path, "rb") as file:
        return file.read(int(megabytes * 1e6)).decode("utf-8", "ignore")


def measure_batches(path, megabytes, model, way):
    """Returns seconds to load the tokenizer, and MB/s of its batches."""
    from albert_tf import AlbertTokenizer

    lines = [line for line in read(path, megabytes).splitlines() if line.strip()]
    batches = [lines[start : start + 256] for start in range(0, len(lines), 256)]
    start = time.process_time()
    tokenizer = AlbertTokenizer.from_pretrained(model)
    loaded = time.process_time()
    if way == "sentencepiece":
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
        encode = partial(processor.encode, num_threads=1)
    else:
        encode = partial(tokenizer, **BATCHES[way])
    encode(batches[0])
    begun = time.process_time()
    for batch in batches:
        encode(batch)
    seconds = time.process_time() - begun
    size = sum(len(line.encode()) for line in lines) / 1e6
    return {"load": loaded - start, "rate": size / seconds}


def measure(path, megabytes, model, way):
    from albert_tf import AlbertTokenizer

    text = read(path, megabytes)
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
    parser.add_argument("--input", required=True, help="UTF-8 text file")
    parser.add_argument("--megabytes", type=float, default=10, help="MB of the file to read")
    parser.add_argument("--model", default="small", help="model whose tokenizer is measured")
    options = parser.parse_args()
    given = (options.input, options.megabytes, options.model)
    cases = {way: partial(harness.fresh, measure, *given, way) for way in WAYS}
    rounds = harness.take_turns(cases, options.rounds)

    def cells(figures):
        return [f"{figures['tokens']:,}", f"{figures['seconds']:.1f}", f"{figures['MB']:.0f}"]

    table = harness.table(["", "tokens", "s", "MB"], harness.rows(rounds, cells))

    cases = {way: partial(harness.fresh, measure_batches, *given, way) for way in BATCHES}
    batches = harness.take_turns(cases, options.rounds)

    def rates(figures):
        return [f"{figures['load']:.2f}", f"{figures['rate']:.1f}"]

    tables = [table, harness.table(["", "s to load", "MB/s"], harness.rows(batches, rates))]
    harness.report(options, PACKAGES, tables, rounds | batches)


if __name__ == "__main__":
    main()
