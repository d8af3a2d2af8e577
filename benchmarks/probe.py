"""How well a linear classifier does on the vectors of models that are not trained further.

    python -m benchmarks.probe --data SST-2-4000 --model small --encoder all-MiniLM-L6-v2

Logistic regression on standardized vectors of the sentences of a folder in the format of GLUE's
SST-2. Prints a row of Markdown for each model: the best accuracy on dev over PENALTIES.
"""

import argparse
from pathlib import Path

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from albert_tf.data.tasks.registry import task_of
from albert_tf.training.options import FinetuningOptions
from benchmarks import search

PENALTIES = (1e-3, 1e-2, 1e-1, 1)  # inverse, scikit-learn's C


def score(train, dev):
    """Returns the best accuracy on dev of vectors `[N, D]` with their labels."""
    return max(
        make_pipeline(StandardScaler(), LogisticRegression(C=penalty, max_iter=2000))
        .fit(*train)
        .score(*dev)
        for penalty in PENALTIES
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="GLUE's folder of SST-2")
    options = search.parsed(parser)
    task = task_of(
        FinetuningOptions(task="sst2", data=options.data, model="small", output="unused")
    )
    train, dev = task.examples("train"), task.examples("dev")
    print(f"{len(train):,} sentences\n\n| vectors | accuracy |\n|---|---:|")
    for name, make in search.encoders(options).items():
        found = make([each.text for each in (*train, *dev)])
        labels = [each.label for each in (*train, *dev)]
        parts = [(part[: len(train)], part[len(train) :]) for part in (found, labels)]
        print(f"| {name} | {score(*zip(*parts, strict=True)):.4f} |", flush=True)


if __name__ == "__main__":
    main()
