"""Measures the accuracy of a linear classifier on frozen vectors, with few labels and with all.

    python -m benchmarks.probe --data SST-2-4000 --model small --encoder all-MiniLM-L6-v2

The vectors of a model are those of `benchmarks.search`; the TF-IDF weights come from all training
sentences. A logistic regression is trained on 8, 16, and 64 examples per class from a folder in the
format of GLUE's SST-2, and on all examples. Prints the accuracies on dev, one Markdown row for
TF-IDF and one for each model. With few examples, these are the mean and range of ten draws.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from albert_tf.data.tasks.registry import read_split, task_of
from albert_tf.training.options import FinetuningOptions
from benchmarks import search

PER_CLASS = (8, 16, 64)  # examples
DRAWS = 10


def accuracy(train, dev):
    """Returns the accuracy on dev. Both arguments are vectors `[N, D]` with their labels."""
    return LogisticRegression(max_iter=2000).fit(*train).score(*dev)


def few(train, dev, count):
    """Returns the accuracies for several draws of `count` examples per class."""
    vectors, labels = train
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        rows = np.concatenate(
            [
                rng.choice(np.flatnonzero(labels == label), count, replace=False)
                for label in np.unique(labels)
            ]
        )
        yield accuracy((vectors[rows], labels[rows]), dev)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder in the format of SST-2")
    options = search.parsed(parser)
    task = task_of(
        FinetuningOptions(task="sst2", data=options.data, model="small", output="unused")
    )
    parts = read_split(task, "train"), read_split(task, "dev")
    train_texts, dev_texts = ([each.text for each in part] for part in parts)
    train_labels, dev_labels = (np.array([each.label for each in part]) for part in parts)

    columns = [f"{count} per class" for count in PER_CLASS] + [f"all {len(train_texts):,}"]
    print(f"| vectors | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    words = TfidfVectorizer(sublinear_tf=True).fit(train_texts)
    for name, make in ({"TF-IDF": words.transform} | search.encoders(options)).items():
        vectors = make([*train_texts, *dev_texts])
        train = vectors[: len(train_texts)], train_labels
        dev = vectors[len(train_texts) :], dev_labels
        cells = []
        for count in PER_CLASS:
            found = list(few(train, dev, count))
            cells.append(f"{np.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})")
        print(f"| {name} | {' | '.join(cells)} | {accuracy(train, dev):.3f} |", flush=True)


if __name__ == "__main__":
    main()
