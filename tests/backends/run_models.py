"""Computes outputs, losses and steps of models on one of Keras' backends, as a process.

    KERAS_BACKEND=jax python run_models.py FOLDER RESULT.npz

Each folder in FOLDER contains a model and its inputs, `inputs.npz`. RESULT gets, named
"MODEL/NAME": every output, the outputs of the looped form, the loss in half precision, the weights
after one step of gradient descent, and for models of FINE_TUNED the loss of one epoch of
fine-tuning.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
from keras import ops

import albert_tf.models
from albert_tf.checkpoints.weights import extract
from albert_tf.optimizers import AlbertAdamW, WarmupPolynomialDecay

HALVES = ("mixed_bfloat16", "mixed_float16")
FINE_TUNED = ("answerability", "classes", "pretraining")
STEPS = 6


def load(folder, dtype=None):
    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(albert_tf.models, architecture).from_pretrained(folder, dtype=dtype)
    if model.config.answerability:
        model.answer_spans.dropout.rate = 0.0  # no two backends drop the same places
    return model


def arrays(outputs):
    """Yields every tensor in a model's outputs; those of the layers are numbered."""
    for name, value in outputs.items():
        if isinstance(value, tuple):
            yield from ((f"{name}.{index}", one) for index, one in enumerate(value))
        else:
            yield name, value


def answers(folder):
    inputs = dict(np.load(folder / "inputs.npz"))
    model = load(folder)
    unlabelled = {name: value for name, value in inputs.items() if name not in model.targets}
    yield from arrays(model(unlabelled, output_hidden_states=True, output_attentions=True))
    for form, unroll in {"looped": False, "looped but the last": "last"}.items():
        looped = model(inputs, unroll=unroll)
        yield from ((f"{form}.{name}", value) for name, value in arrays(looped))
    if not model.targets:
        return
    for policy in HALVES:
        yield f"{policy}.loss", load(folder, policy)(inputs)["loss"]
    examples = len(inputs["input_ids"])
    model.compile(keras.optimizers.SGD(0.1))
    model.fit(inputs, batch_size=examples, shuffle=False, verbose=0)
    yield from ((f"after a step.{name}", value) for name, value in extract(model).items())
    if folder.name not in FINE_TUNED:
        return
    model = load(folder)
    model.compile(
        AlbertAdamW(WarmupPolynomialDecay(1e-3, 2, STEPS, form="usual"), bias_correction=True)
    )
    repeated = {name: np.repeat(value, STEPS, axis=0) for name, value in inputs.items()}
    history = model.fit(repeated, batch_size=examples, shuffle=False, verbose=0).history
    yield "fine-tuned.loss", history["loss"][0]


def main():
    source, target = map(Path, sys.argv[1:])
    np.savez(
        target,
        **{
            f"{folder.name}/{name}": ops.convert_to_numpy(value)
            for folder in sorted(source.iterdir())
            for name, value in answers(folder)
        },
    )


if __name__ == "__main__":
    main()
