"""Trains ten steps under a strategy and writes the weights: `ten_steps.py SETTINGS_JSON OUTPUT`.

Settings: `devices` (logical CPU devices of TensorFlow), and `runs`, each of a `strategy`, an
`optimizer`, `micro_batches`, and, if not the usual ones, values of the model's `config`, the number
of `steps`, and the `rows` that a batch consists of.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForPreTraining
from albert_tf.optimizers import AlbertAdamW, Lamb
from albert_tf.training import distribution, steps

STEPS, B, T, P, V = 10, 8, 7, 5, 31
# Every step clips: the norms are above 1.
OPTIMIZERS = {
    "lamb": lambda: Lamb(3e-3, global_clipnorm=0.3),
    "adamw": lambda: AlbertAdamW(1e-3, global_clipnorm=0.3),
    # SGD depends on the scale of gradients, unlike LAMB and AdamW.
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.3),
}


def batches():
    """Returns features and labels `[STEPS, B, …]`; later examples have more predictions."""
    generator = np.random.default_rng(7)

    def draw(low, high, *shape):
        return generator.integers(low, high, (STEPS, B, *shape)).astype("int32")

    features = {
        "input_ids": draw(5, V, T),
        "attention_mask": (np.arange(T) < draw(3, T + 1, 1)).astype("int32"),
        "token_type_ids": draw(0, 2, T),
        "masked_lm_positions": draw(0, 3, P),
    }
    counted = np.arange(P) <= np.arange(B)[:, None] * P // B
    labels = {
        "labels": np.where(counted, draw(5, V, P), -100).astype("int32"),
        "sentence_order_label": draw(0, 2),
    }
    labels["sentence_order_label"][:, 1] = -100
    return features, labels


def compiled(optimizer, **config):
    keras.utils.set_random_seed(11)
    plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    sizes = {"num_hidden_layers": 2, **plain, **config}
    model = AlbertForPreTraining(
        AlbertConfig(
            vocab_size=V,
            embedding_size=6,
            hidden_size=20,
            num_attention_heads=5,
            intermediate_size=24,
            max_position_embeddings=11,
            **sizes,
        )
    )
    model.compile(OPTIMIZERS[optimizer]())
    return model


def dataset(strategy, rows):
    """Returns this host's part of each global batch."""
    import tensorflow as tf

    here = distribution.hosts(strategy)
    own = np.reshape(rows, (here.count, -1))[here.index]
    arrays = keras.tree.map_structure(lambda values: values[:, own], batches())
    return tf.data.Dataset.from_tensor_slices(arrays)


def scored(model, strategy):
    """Returns the sums of 19 examples; the last batch has fewer than there are devices."""
    import tensorflow as tf

    rows = keras.tree.map_structure(lambda values: values.reshape(-1, *values.shape[2:]), batches())
    dataset = tf.data.Dataset.from_tensor_slices(rows).take(19).batch(B)
    return steps.Evaluation(model, strategy)(dataset)


def trained(settings, strategy):
    """Returns the first and the last weights of a run, and the sums of each step."""
    rows = settings.get("rows", range(B))
    with distribution.scope(strategy):
        model = compiled(settings["optimizer"], **settings.get("config", {}))
    start = flat(model)
    with distribution.scope(strategy if keras.backend.backend() == "jax" else None):
        step = steps.TrainingStep(model, strategy, settings["micro_batches"])
        batch = steps.batches(dataset(strategy, rows), strategy, len(rows))
        sums = [step(next(batch)) for _ in range(settings.get("steps", STEPS))]
        sums.append(scored(model, strategy))
    here = distribution.hosts(strategy)
    return {
        "place": [distribution.replicas(strategy), here.index, here.count],
        "start": start,
        "weights": flat(model),
        "sums": np.array([keras.ops.convert_to_numpy(step) for step in sums]),
    }


def error_of_unequal_steps(strategy):
    """Returns the error when each host would resume at another step."""
    distribution.check_same_step(strategy, 5)
    try:
        distribution.check_same_step(strategy, distribution.hosts(strategy).index)
    except ValueError as error:
        return str(error)
    return ""


def main(settings, output):
    if settings.get("devices"):
        import tensorflow as tf

        (device,) = tf.config.list_physical_devices("CPU")
        logical = [tf.config.LogicalDeviceConfiguration()] * settings["devices"]
        tf.config.set_logical_device_configuration(device, logical)
    found = {}
    for number, run in enumerate(settings["runs"]):
        if number and found["0/place"][1:] == [0, 2]:
            time.sleep(2)  # so the other host is ahead when this one requests its strategy again
        strategy = distribution.strategy_for(run["strategy"])
        values = trained(run, strategy)
        found.update({f"{number}/{name}": value for name, value in values.items()})
    found["unequal_steps"] = error_of_unequal_steps(strategy)
    np.savez(output, **found)


def flat(model):
    values = [keras.ops.convert_to_numpy(weight).ravel() for weight in model.trainable_weights]
    return np.concatenate(values)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
