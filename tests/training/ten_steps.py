"""Trains ten steps by `fit` under a strategy: `ten_steps.py SETTINGS_JSON OUTPUT`.

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
from albert_tf.optimizers import Lamb
from albert_tf.training import distribution

STEPS, B, T, P, V = 10, 8, 7, 5, 31


def batches():
    """Returns features and labels `[STEPS, B, …]`; examples have 0 to P predictions."""
    generator = np.random.default_rng(7)

    def draw(low, high, *shape):
        return generator.integers(low, high, (STEPS, B, *shape)).astype("int32")

    features = {
        "input_ids": draw(5, V, T),
        "attention_mask": (np.arange(T) < draw(3, T + 1, 1)).astype("int32"),
        "token_type_ids": draw(0, 2, T),
        "masked_lm_positions": draw(0, 3, P),
    }
    labels = {"labels": draw(5, V, P), "sentence_order_label": draw(0, 2)}
    labels["labels"][:, np.arange(P) >= np.arange(B)[:, None] % (P + 1)] = -100
    labels["sentence_order_label"][:, 4:6] = -100
    return features, labels


def compiled(optimizer, config, dtype=None, **options):
    """Returns a compiled model, without dropout unless its configuration asks for it."""
    keras.utils.set_random_seed(11)
    given = {"num_hidden_layers": 2, "hidden_dropout_prob": 0.0, **config}
    model = AlbertForPreTraining(
        AlbertConfig(
            vocab_size=V,
            embedding_size=6,
            hidden_size=20,
            num_attention_heads=5,
            intermediate_size=24,
            max_position_embeddings=11,
            attention_probs_dropout_prob=0.0,
            **given,
        ),
        dtype=dtype,
    )
    model.shows_losses = True
    model.compile(optimizer, **options)
    return model


class Losses(keras.callbacks.Callback):
    """Keeps each step's losses, which all hosts read together."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_train_batch_end(self, batch, logs=None):
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        found = self.model.get_metrics_result()
        self.found.append({name: float(found[name]) for name in sorted(found)})
        self.model.reset_metrics()


def trained(settings, strategy):
    """Returns the first and the last weights of a run, and the losses of each step."""
    import tensorflow as tf

    rows = settings.get("rows", range(B))
    host, hosts = distribution.hosts(strategy)
    own = np.reshape(rows, (hosts, -1))[host]
    arrays = keras.tree.map_structure(lambda values: values[:, own], batches())
    dataset = tf.data.Dataset.from_tensor_slices(arrays).repeat()
    with distribution.scope(strategy):
        # Every step clips: the norms are above 1.
        optimizer = {
            "lamb": lambda: Lamb(3e-3, global_clipnorm=0.3),
            "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.3),
        }[settings["optimizer"]]()
        config = settings.get("config", {})
        model = compiled(optimizer, config, micro_batches=settings["micro_batches"])
    start, losses = flat(model), Losses()
    with distribution.scope(strategy if keras.backend.backend() == "jax" else None):
        model.fit(
            distribution.shared(dataset, strategy, len(rows)),
            steps_per_epoch=settings.get("steps", STEPS),
            callbacks=[losses],
            shuffle=False,
            verbose=0,
        )
    return {
        "place": [distribution.replicas(strategy), host, hosts],
        "start": start,
        "weights": flat(model),
        "losses": np.array([[*each.values()] for each in losses.found]),
    }


def flat(model):
    values = [keras.ops.convert_to_numpy(weight).ravel() for weight in model.trainable_weights]
    return np.concatenate(values)


def error_of_unequal_steps(strategy):
    """Returns the error when each host would resume at another step."""
    distribution.check_same_step(strategy, 5)
    try:
        distribution.check_same_step(strategy, distribution.hosts(strategy)[0])
    except ValueError as error:
        return str(error)
    return ""


def main(settings, output):
    if settings["devices"]:
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


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
