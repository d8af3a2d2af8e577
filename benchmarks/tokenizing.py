"""Measures the tokenizer on one long text: time, and memory above the loaded tokenizer's.

    python benchmarks/tokenizing.py --input book.txt [--megabytes 10] [--model small]

Takes less than a minute. Each way runs in a process of its own.
"""

import argparse
import multiprocessing
import resource
import time

WAYS = {"ids": {}, "ids and offsets": {"return_offsets_mapping": True}}


def peak():
    """MB: the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path, megabytes, model, way):
    from albert_tf.text.tokenizer import AlbertTokenizer

    with open(path, "rb") as file:
        text = file.read(int(megabytes * 1e6)).decode("utf-8", "ignore")
    tokenizer = AlbertTokenizer.from_pretrained(model)
    tokenizer(text[:1000], **WAYS[way])
    before, start = peak(), time.process_time()
    pieces = len(tokenizer(text, **WAYS[way])["input_ids"])
    seconds, memory = time.process_time() - start, peak() - before
    print(f"{way:18}{pieces:12,} pieces{seconds:8.1f} s{memory:8.0f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True, help="text file in UTF-8")
    parser.add_argument("--megabytes", type=float, default=10, help="part of the file to read")
    parser.add_argument("--model", default="small", help="model whose tokenizer is measured")
    options = parser.parse_args()
    for way in WAYS:
        arguments = (options.input, options.megabytes, options.model, way)
        process = multiprocessing.get_context("spawn").Process(target=measure, args=arguments)
        process.start()
        process.join()


if __name__ == "__main__":
    main()
