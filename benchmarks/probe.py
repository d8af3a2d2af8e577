"""How well a linear classifier does on frozen vectors, from a few labels and from all of them.

    python -m benchmarks.probe --data SST-2-4000 --model small --encoder all-MiniLM-L6-v2

The vectors of a model are those of `benchmarks.search`; the weights of TF-IDF come from all
sentences of train. A logistic regression learns from 8, 16, and 64 examples of each class of a
folder in the format of GLUE's SST-2, and from all of them. Prints a row of Markdown for TF-IDF and
for each model: accuracies on dev. For a few examples this is the mean of ten draws, and their
range.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from albert_tf.data.tasks.registry import task_of
from albert_tf.data.tasks.split import read_split
from albert_tf.training.options import FinetuningOptions
from benchmarks import search

PER_CLASS = (8, 16, 64)  # examples
DRAWS = 10


def accuracy(train, dev):
    """Returns the accuracy on dev; both are vectors `[N, D]` with their labels."""
    return LogisticRegression(max_iter=2000).fit(*train).score(*dev)


def few(train, dev, count):
    """Returns the accuracy of each draw of `count` examples of each class."""
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
    parser.add_argument("--data", type=Path, required=True, help="GLUE's folder of SST-2")
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
