"""Writes KerasHub presets for the tests that read them."""

import json

import h5py
import numpy as np

from albert_tf.checkpoints import keras_hub
from albert_tf.huggingface import KERAS_HUB_FIELDS


def write_preset(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    heads = {name.split(".")[0] for name in tensors} & {"classifier", "predictions"}
    task = {"classifier": "AlbertTextClassifier", "predictions": "AlbertMaskedLM"}
    (folder / "config.json").write_text(json.dumps(backbone_json(config)))
    for head in heads:
        (folder / "task.json").write_text(json.dumps(task_json(config, task[head])))
        write_weights(folder / "task.weights.h5", config, tensors, keras_hub.HEAD_WEIGHTS)
    write_weights(folder / "model.weights.h5", config, tensors, keras_hub.backbone_weights(config))


def write_weights(path, config, tensors, table):
    with h5py.File(path, "w") as file:
        for name, weight in table.items():
            if name in tensors:
                layer = f"layers/{weight.path}"
                steps = "/".join((layer, *weight.below, "vars", str(weight.variable)))
                file[steps] = stored(weight, tensors[name], config)
                file.require_group(f"{layer}/vars").attrs["name"] = weight.layer


def stored(weight, tensor, config):
    """Returns a tensor in KerasHub's shape."""
    sizes = {"H": config.hidden_size, "A": config.num_attention_heads}
    sizes["D"] = sizes["H"] // sizes["A"]
    turned = np.asarray(tensor, "float32").T if weight.transposed else np.asarray(tensor, "float32")
    return turned.reshape([sizes[axis] for axis in weight.axes]) if weight.axes else turned


def backbone_json(config):
    values = {theirs: getattr(config, ours) for theirs, ours in KERAS_HUB_FIELDS.items()}
    return {
        "module": "keras_hub.src.models.albert.albert_backbone",
        "class_name": "AlbertBackbone",
        "config": {**values, "num_groups": config.stored_groups, "name": "albert_backbone"},
        "registered_name": "keras_hub>AlbertBackbone",
    }


def task_json(config, name):
    values = {"backbone": backbone_json(config), "preprocessor": None}
    if name == "AlbertTextClassifier":
        values |= {"num_classes": config.num_labels, "activation": "linear"}
        values["dropout"] = config.classifier_dropout_prob
    return {
        "module": "keras_hub.models",
        "class_name": name,
        "config": values,
        "registered_name": f"keras_hub>{name}",
    }
