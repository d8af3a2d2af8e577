"""Random models and inputs. The test's name and pytest's header show their seed, ALBERT_TF_SEED."""

import os

import numpy as np
import pytest

SEED = int(os.environ["ALBERT_TF_SEED"])
DRAWS = 3
IGNORED = -100


@pytest.fixture(params=range(DRAWS), ids=lambda draw: f"seed {SEED} draw {draw}")
def generator(request):
    return np.random.default_rng([SEED, request.param])


@pytest.fixture
def drawn_config(generator):
    """Draws sizes, sharing, and activation. There is no dropout, so that training is comparable."""
    from albert_tf.config import AlbertConfig
    from albert_tf.labels import unnamed_labels

    def draw(low, high):
        return int(generator.integers(low, high + 1))

    heads, layers = draw(1, 5), draw(1, 5)
    config = AlbertConfig(
        vocab_size=draw(20, 60),
        embedding_size=draw(3, 24),
        hidden_size=heads * draw(2, 8),
        num_hidden_layers=layers,
        num_hidden_groups=draw(1, layers),
        inner_group_num=draw(1, 2),
        num_attention_heads=heads,
        intermediate_size=draw(5, 50),
        hidden_act=str(generator.choice(["gelu", "gelu_new", "relu", "silu", "tanh"])),
        classifier_dropout_prob=0.0,
        max_position_embeddings=draw(6, 20),
        type_vocab_size=draw(2, 4),
        id2label=unnamed_labels(draw(2, 5)),
        share=str(generator.choice(["all", "all", "attention", "ffn", "none"])),
    )
    print(config)  # pytest shows it if the test fails.
    return config


@pytest.fixture
def drawn_features(generator, drawn_config):
    """Draws a batch padded on the right, with at least two ids in each sequence."""
    config = drawn_config
    batch, length = (
        int(generator.integers(2, 5)),
        int(generator.integers(4, config.max_position_embeddings + 1)),
    )
    lengths = generator.integers(2, length + 1, batch)
    mask = (np.arange(length) < lengths[:, None]).astype("int64")
    return {
        "input_ids": generator.integers(1, config.vocab_size, (batch, length)) * mask,
        "attention_mask": mask,
        "token_type_ids": generator.integers(0, config.type_vocab_size, (batch, length)),
    }


@pytest.fixture
def drawn_inputs(generator, drawn_config, drawn_features):
    """Returns a function from a class name to inputs and labels, some of which are ignored."""
    batch, length = drawn_features["input_ids"].shape
    config = drawn_config

    def classes(count):
        return generator.integers(0, count, batch)

    def pieces(count):
        labels = generator.integers(0, count, (batch, length))
        ignored = generator.random((batch, length)) < 0.3
        ignored[0, 0] = False
        return np.where(ignored, IGNORED, labels)

    def positions():
        """Draws positions of answers, the last of which is outside the sequence."""
        return np.append(generator.integers(0, length, batch - 1), length + 2)

    def inputs(name):
        labels = {
            "AlbertModel": {},
            "AlbertForPreTraining": {
                "labels": pieces(config.vocab_size),
                "sentence_order_label": classes(2),
            },
            "AlbertForMaskedLM": {"labels": pieces(config.vocab_size)},
            "AlbertForSequenceClassification": {"labels": classes(config.num_labels)},
            "AlbertForTokenClassification": {"labels": pieces(config.num_labels)},
            "AlbertForQuestionAnswering": {
                "start_positions": positions(),
                "end_positions": positions(),
            },
            "AlbertForMultipleChoice": {"labels": classes(3)},
        }
        if name != "AlbertForMultipleChoice":
            return drawn_features | labels[name]
        choices = {key: np.stack([value] * 3, axis=1) for key, value in drawn_features.items()}
        ids = generator.integers(1, config.vocab_size, choices["input_ids"].shape)
        choices["input_ids"] = ids * choices["attention_mask"]
        return choices | labels[name]

    return inputs
