"""Pretrains a model of the size of `small` on a folder of books, in one run.

    make small-model BOOKS=books STEPS=60000        # the model and its scores in build/small-model
    python -m benchmarks.small_model --books books --steps 60000

Each book is a `.txt` or `.txt.gz` file with one paragraph per line and a blank line between
chapters. The last chapter of each is held out. Two batches of 64 pieces, with single words masked,
alternate with one of 128, with n-grams masked, so that sentence order is learned at both lengths
from the start. The same command resumes an interrupted run. At the end, it prints the accuracy on
held-out chapters for the model and for `small`. Both use the vocabulary of `small`.
"""

import argparse
import gzip
import json
import shlex
from pathlib import Path

from albert_tf import assets, cli

SMALL = assets.model("small")
LENGTHS = (64, 128)
WORDS = "--ngram 1 --masked-lm-prob 0.3"
TRAINING = (
    "--batch-size 32 --learning-rate 8e-4 --warmup-steps 500 --beta-2 0.99 --ema 0.999 "
    "--optimizer adamw --schedule usual --eval-steps 5000"
)


def run(command):
    if status := cli.main(shlex.split(command)):
        raise SystemExit(status)


def split(books, folder):
    """Writes the last chapter of each book to `held-out`, and the others to `books`."""
    for book in sorted(books.glob("*.txt*")):
        opened = gzip.open if book.suffix == ".gz" else open
        with opened(book, "rt", encoding="utf-8") as file:
            chapters = file.read().strip().split("\n\n")
        for name, part in (("books", chapters[:-1]), ("held-out", chapters[-1:])):
            path = folder / name / book.name.removesuffix(".gz")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n\n".join(part) + "\n", encoding="utf-8")


def build(folder, vocab="small", lengths=LENGTHS):
    """Writes the records that aren't complete yet, tokenized with a vocabulary."""
    for length in lengths:
        for name in ("books", "held-out"):
            options = WORDS if (name, length) == ("books", 64) else ""
            output = folder / f"{name}-{length}"
            if not (output / "manifest.json").exists():
                run(
                    f"build-data --input {folder}/{name}/*.txt --vocab {vocab} "
                    f"--max-seq-length {length} {options} --output {output}"
                )


def scores(model, records):
    """Returns the accuracies of masked words and of sentence order."""
    from albert_tf import AlbertForPreTraining
    from albert_tf.data.pretraining.batches import evaluation_batches
    from albert_tf.training import pretrain

    found = AlbertForPreTraining.from_pretrained(model)
    pretrain.compile_with_metrics(found)
    return pretrain.scores(found, evaluation_batches(records, pretrain.EVALUATION_BATCH))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("build/small-model"))
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument(
        "--dtype-policy", default="float32", help="dtype policy for training; default: %(default)s"
    )
    parser.add_argument(
        "--score", type=Path, help="only print the scores of this model, without training"
    )
    options = parser.parse_args()
    folder = options.output
    if not (folder / "held-out").exists():
        split(options.books, folder)
    build(folder)
    if not (options.score or (folder / "model" / "report.json").exists()):
        run(
            f"pretrain --data {folder}/books-64 {folder}/books-64 {folder}/books-128 "
            f"--size {SMALL / 'config.json'} --output {folder}/model --steps {options.steps} "
            f"--eval-data {folder}/held-out-128 --dtype-policy {options.dtype_policy} {TRAINING}"
        )
    for model in (options.score or folder / "model", SMALL):
        for length in LENGTHS:
            found = scores(model, folder / f"held-out-{length}")
            print(model, length, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
