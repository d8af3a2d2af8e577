"""Trains the README's first example from many seeds, and counts those with the right answers.

    python -m benchmarks.first_example --rounds 100

Each seed, from --first on, has a process of its own.
"""

import itertools

from benchmarks import harness

PACKAGES = ("tensorflow", "keras")
ANSWERS = {"A wonderful surprise.": "positive", "Broken on arrival.": "negative"}
LABELS = {0: "negative", 1: "positive"}


def run(seed):
    """Returns the accuracy on dev of the example with this seed, and whether it answers right."""
    import keras

    from albert_tf import AlbertForSequenceClassification, pipeline
    from albert_tf.assets import load_reviews

    keras.utils.set_random_seed(seed)
    texts, labels = load_reviews()
    model = AlbertForSequenceClassification.from_pretrained("small", id2label=LABELS)
    model.compile(metrics=["accuracy"])
    model.fit(texts, labels, batch_size=8, epochs=5, verbose=0)
    _, accuracy = model.evaluate(*load_reviews("dev"), verbose=0)
    answers = pipeline("text-classification", model)(list(ANSWERS))
    return [accuracy, [answer["label"] for answer in answers] == list(ANSWERS.values())]


def main():
    parser = harness.parser(__doc__, rounds=20)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    options = parser.parse_args()
    seeds = itertools.count(options.first)
    name = "first example"
    rounds = harness.take_turns({name: lambda: harness.fresh(run, next(seeds))}, options.rounds)
    line = [name, rounds[name]]
    if isinstance(rounds[name], list):
        accuracies, right = zip(*rounds[name], strict=True)
        figures = (harness.medians(accuracies), min(accuracies))
        line = [name, f"{sum(right)} of {len(right)}", *(f"{figure:.3f}" for figure in figures)]
    heads = ["", "right", "median accuracy", "least"]
    harness.report(options, PACKAGES, [harness.table(heads, [line])], rounds)


if __name__ == "__main__":
    main()
