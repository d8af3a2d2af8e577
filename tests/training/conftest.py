"""A run that a tiny model trains in seconds: 75 texts told apart by a word, 10 steps an epoch."""

import random

import pytest

from tests.conftest import SENTENCES

STEPS_PER_EPOCH = 10


@pytest.fixture(scope="session")
def encoded(tiny_vocabulary):
    """75 encoded reviews, whose label one word tells."""
    from albert_tf.data.pipeline import EncodedExamples
    from albert_tf.data.readers import Example
    from albert_tf.text.tokenizer import AlbertTokenizer

    generator, examples = random.Random(1), []
    for number in range(75):
        words = generator.choices(("the", "film", "was", "music", "people"), k=number % 11 + 1)
        words.insert(number % len(words), ("dull", "clever")[number % 2])
        examples.append(Example(" ".join(words), None, str(number % 2)))
    tokenizer = AlbertTokenizer(tiny_vocabulary)
    return EncodedExamples(examples, tokenizer, 32, lambda example: int(example.label))


@pytest.fixture(scope="session")
def training_run(encoded, tiny_vocabulary):
    """Makes a run of 3 epochs in a folder, and trains it: `(model, progress)`.

    The model has dropout, so that its seeds matter; a run with the same `folder` goes on. What
    takes time is the trace of a step: one layer, and a metric that is no name, make it short.
    """
    import keras

    from albert_tf.config import AlbertConfig
    from albert_tf.evaluation.judge import score
    from albert_tf.models import AlbertForSequenceClassification
    from albert_tf.text.tokenizer import AlbertTokenizer
    from albert_tf.training.optimizers import AlbertAdamW
    from albert_tf.training.run import Run
    from albert_tf.training.schedules import WarmupPolynomialDecay

    def make(folder, callbacks=(), steps=3 * STEPS_PER_EPOCH, seed=5, judge=None, **options):
        keras.utils.set_random_seed(seed)
        config = AlbertConfig.from_size(
            "tiny",
            vocab_size=AlbertTokenizer(tiny_vocabulary).vocab_size,
            num_hidden_layers=1,
            hidden_dropout_prob=0.1,
            id2label={0: "bad", 1: "good"},
        )
        model = AlbertForSequenceClassification(config)
        peak = options.pop("learning_rate", 3e-3)
        schedule = WarmupPolynomialDecay(peak, 3, steps, form="usual")
        accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
        model.compile(AlbertAdamW(schedule, bias_correction=True), metrics=[accuracy])
        run = Run(
            folder,
            {"seed": seed},
            judge or (lambda trained: score(trained, encoded, ("accuracy",))),
            total_steps=steps,
            batch_size=8,
            seed=seed,
            **options,
        )
        return model, run.train(model, encoded, list(callbacks))

    return make


@pytest.fixture(scope="session")
def undisturbed(training_run, tmp_path_factory):
    """A run from its beginning to its end: `(model, progress)`."""
    return training_run(tmp_path_factory.mktemp("undisturbed") / "run")


@pytest.fixture(scope="session")
def records(tiny_vocabulary, tmp_path_factory):
    """A directory of 60 and more examples of 24 pieces, as `build-data` makes it."""
    from albert_tf.cli import main

    folder = tmp_path_factory.mktemp("records")
    generator = random.Random(2)
    texts = ["\n".join(generator.sample(SENTENCES, 5)) for _ in range(40)]
    (folder / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    (folder / "spiece.model").write_bytes(tiny_vocabulary)
    command = f"build-data --input {folder}/text.txt --vocab {folder}/spiece.model --workers 1"
    assert main([*command.split(), "--max-seq-length", "24", "--output", f"{folder}/made"]) == 0
    return folder / "made"
