"""Trains ten steps under a strategy and writes the weights: `ten_steps.py SETTINGS_JSON OUTPUT`.

Settings: `strategy`, `devices` (logical CPU devices of TensorFlow), and `runs`, each of an
`optimizer`, `micro_batches`, and further ones of the model's configuration and of the step.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForPreTraining
from albert_tf.training import runtime
from albert_tf.training.optimizers import AdamW, Lamb

STEPS, B, T, P, V = 10, 8, 7, 5, 31
# Clipping is at work in every step: the norms are above 1.
OPTIMIZERS = {
    "lamb": lambda: Lamb(3e-3, global_clipnorm=0.3),
    "adamw": lambda: AdamW(1e-3, global_clipnorm=0.3),
    # An optimizer that doesn't take the scale of gradients away.
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.3),
}


def batches():
    """Features and labels `[STEPS, B, …]`; the later an example, the more predictions it has."""
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
    sizes = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, **config}
    model = AlbertForPreTraining(
        AlbertConfig(
            vocab_size=V,
            embedding_size=6,
            hidden_size=20,
            num_hidden_layers=2,
            num_attention_heads=5,
            intermediate_size=24,
            max_position_embeddings=11,
            **sizes,
        )
    )
    model.compile(OPTIMIZERS[optimizer]())
    return model


def dataset(strategy):
    """This host's part of each global batch."""
    import tensorflow as tf

    host, hosts = runtime.hosts(strategy)
    size = B // hosts
    own = slice(host * size, (host + 1) * size)
    arrays = keras.tree.map_structure(lambda values: values[:, own], batches())
    return tf.data.Dataset.from_tensor_slices(arrays), size


def train_on_tensorflow(model, strategy, micro_batches=1, **options):
    from albert_tf.training.pretraining.step import TrainingStep

    step = TrainingStep(model, strategy, micro_batches, **options)
    data, size = dataset(strategy)
    of_replica = size * runtime.hosts(strategy).count // runtime.replicas(strategy)
    spread = strategy.distribute_datasets_from_function(lambda _: data.rebatch(of_replica))
    return [step(batch) for batch in spread]


def train_elsewhere(model, strategy, micro_batches=1):
    from albert_tf.training.pretraining.fit import fit

    found = []
    fit(model, dataset(strategy)[0], STEPS, found.append, micro_batches)
    return found


def main(settings, output):
    on_tensorflow = keras.backend.backend() == "tensorflow"
    if settings.get("devices"):
        import tensorflow as tf

        device, *_ = tf.config.list_physical_devices("CPU")
        logical = [tf.config.LogicalDeviceConfiguration()] * settings["devices"]
        tf.config.set_logical_device_configuration(device, logical)
    strategy = runtime.strategy_for(settings["strategy"])
    train = train_on_tensorflow if on_tensorflow else train_elsewhere
    found = {"place": [runtime.replicas(strategy), *runtime.hosts(strategy)]}
    for number, run in enumerate(settings["runs"]):
        with runtime.scope(strategy):
            model = compiled(run["optimizer"], **run.get("config", {}))
            found[f"{number}/start"] = flat(model)
            sums = train(model, strategy, run["micro_batches"], **run.get("options", {}))
        found[f"{number}/weights"] = flat(model)
        found[f"{number}/sums"] = np.array([list(map(float, step)) for step in sums])
        found[f"{number}/steps"] = int(keras.ops.convert_to_numpy(model.optimizer.iterations))
    np.savez(output, **found)


def flat(model):
    values = [keras.ops.convert_to_numpy(weight).ravel() for weight in model.trainable_weights]
    return np.concatenate(values)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
