"""Trains the README's first example with many seeds and counts how often its labels are right.

    python -m benchmarks.first_example --rounds 100

Each seed, starting at --first, runs in its own process. The table also shows how far the 8-bit
`.tflite` files differ from Keras, relative to the tolerance. The first file that exceeds the
tolerance ends the run with its error.
"""

import itertools
import tempfile
from pathlib import Path

from benchmarks import harness

PACKAGES = ("tensorflow", "keras")
ANSWERS = {"A wonderful surprise.": "positive", "Broken on arrival.": "negative"}
LABELS = {0: "negative", 1: "positive"}


def run(seed):
    """Trains the example with this seed.

    Returns:
        The accuracy on dev, whether the labels are right, and the largest difference of the 8-bit
        file from Keras, relative to the tolerance.
    """
    import keras

    from albert_tf import AlbertForSequenceClassification, export_tflite, pipeline
    from albert_tf.assets import load_reviews

    keras.utils.set_random_seed(seed)
    texts, labels = load_reviews()
    model = AlbertForSequenceClassification.from_pretrained("small", id2label=LABELS)
    model.compile(metrics=["accuracy"])
    model.fit(texts, labels, batch_size=8, epochs=3, verbose=0)
    _, accuracy = model.evaluate(*load_reviews("dev"), verbose=0)
    answers = pipeline("text-classification", model)(list(ANSWERS))
    right = [answer["label"] for answer in answers] == list(ANSWERS.values())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "my-model.tflite")
        report = export_tflite(model, model.tokenizer, path, quantize="dynamic", ids_only=True)
    return [accuracy, right, report.differences["ids"].share]


def main():
    parser = harness.parser(__doc__, rounds=20)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    options = parser.parse_args()
    seeds = itertools.count(options.first)
    name = "first example"
    rounds = harness.take_turns({name: lambda: harness.fresh(run, next(seeds))}, options.rounds)
    line = [name, rounds[name]]
    if isinstance(rounds[name], list):
        accuracies, right, shares = zip(*rounds[name], strict=True)
        figures = (harness.medians(accuracies), min(accuracies), max(shares))
        line = [name, f"{sum(right)} of {len(right)}", *(f"{figure:.3f}" for figure in figures)]
    heads = ["", "right", "median accuracy", "least", "largest difference in 8 bits"]
    harness.report(options, PACKAGES, [harness.table(heads, [line])], rounds)


if __name__ == "__main__":
    main()
