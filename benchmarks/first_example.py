"""Trains the README's first example from many seeds, and counts those with the right answers.

    python -m benchmarks.first_example --seeds 100

Prints a line for each seed, then the number with both right answers, and the least and the median
accuracy on the bundled dev set.
"""

import argparse
import statistics

import keras

from albert_tf import AlbertForSequenceClassification, pipeline
from albert_tf.assets import load_reviews

ANSWERS = {"A quiet delight.": "positive", "Broken on arrival.": "negative"}
LABELS = {0: "negative", 1: "positive"}


def run(seed: int) -> tuple[float, list[str]]:
    """Returns the accuracy on dev, and the answers, of the example with this seed."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    texts, labels = load_reviews()
    model = AlbertForSequenceClassification.from_pretrained("small", id2label=LABELS)
    model.compile(metrics=["accuracy"])
    model.fit(texts, labels, batch_size=8, epochs=3, verbose=0)
    _, accuracy = model.evaluate(*load_reviews("dev"), verbose=0)
    classify = pipeline("text-classification", model)
    return accuracy, [answer["label"] for answer in classify(list(ANSWERS))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    options = parser.parse_args()
    accuracies, right = [], 0
    for seed in range(options.first, options.first + options.seeds):
        accuracy, answers = run(seed)
        accuracies.append(accuracy)
        right += answers == list(ANSWERS.values())
        print(f"seed {seed}: accuracy {accuracy:.3f}, {', '.join(answers)}", flush=True)
    print(
        f"{right} of {options.seeds} right; accuracy at least {min(accuracies):.3f}, "
        f"median {statistics.median(accuracies):.3f}"
    )


if __name__ == "__main__":
    main()
