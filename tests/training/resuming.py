"""Draws runs of `fit` at random, and ends them early, to compare them with uninterrupted ones.

Tracing takes most of a run's time, so that a program's model is usually an earlier program's model
whose variables are reset; see `Reset`.
"""

import contextlib
import random

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data import classification_dataset
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.optimizers import inner
from albert_tf.training.callbacks import KeepBest, Resume

TEXTS = [f"{word} film {'so it goes ' * (n % 3)}" for n in range(6) for word in ("good", "bad")]
LABELS = np.array([1, 0] * 6, "int32")
BATCH_SIZE, STEPS, EPOCHS = 4, 3, 3  # steps per epoch
SIZES = {"embedding_size": 4, "hidden_size": 6, "intermediate_size": 10}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32}
PRECISIONS = ("float32", "float32", "mixed_bfloat16", "mixed_float16")
BACKEND = keras.backend.backend()


class Crash(keras.callbacks.Callback):
    """Ends a run after its first `batches`, as a lost machine does; 0 never ends it."""

    def __init__(self, batches):
        super().__init__()
        self.left = batches

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            raise InterruptedError


class Decay(keras.callbacks.Callback):
    """A callback of a user's, which changes the rate after every batch, and counts the batches."""

    def __init__(self):
        super().__init__()
        self.state = {"batches": 0}

    def on_train_batch_end(self, batch, logs=None):
        self.state["batches"] += 1
        optimizer = self.model.optimizer
        optimizer.learning_rate = 0.01 / self.state["batches"]


class Reset:
    """Returns the compiled model that `new` makes, with its first values and its traced graphs.

    Other backends have no graphs: there, it is a new model.
    """

    def __init__(self, new):
        self.new, self.before = new, []

    def __call__(self):
        if not self.before:
            keras.utils.set_random_seed(3)
            model = self.model = self.new()
            if BACKEND == "tensorflow":
                if not model.optimizer.built:
                    model.optimizer.build(model.trainable_variables)
                optimizer = model.optimizer
                found = [*model.variables, *optimizer.variables, *inner(optimizer).variables]
                self.before = [(variable, variable.numpy()) for variable in found]
        for variable, value in self.before:
            variable.assign(value)
        # Not set_random_seed, because TensorFlow would then compile its graphs again.
        random.seed(4)
        np.random.seed(4)
        return self.model


class Sequence(keras.utils.PyDataset):
    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, number):
        return self.batches[number]


FORMS = ["texts", "pairs", "arrays", "package", "prefetched", "mapped", "repeated"]
FORMS += ["tf.data", "endless", "sequence"]


def _data(form, tokenizer):
    """Returns the first arguments of `fit` for a form of data."""
    features = dict(tokenizer(TEXTS, padding=True, return_tensors="np"))
    if form in ("texts", "pairs", "arrays"):
        x = {"texts": TEXTS, "pairs": (TEXTS, TEXTS[::-1]), "arrays": features}[form]
        return {"x": x, "y": LABELS, "batch_size": BATCH_SIZE}
    if form == "sequence":
        parts = [slice(start, start + BATCH_SIZE) for start in range(0, len(LABELS), BATCH_SIZE)]
        batches = [
            ({name: f[part] for name, f in features.items()}, LABELS[part]) for part in parts
        ]
        return {"x": Sequence(batches), "shuffle": False}
    if form in ("tf.data", "endless"):
        x = tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(BATCH_SIZE)
    else:
        x = classification_dataset(tokenizer, TEXTS, LABELS, batch_size=BATCH_SIZE, seed=5)
    if form in ("endless", "repeated"):
        return {"x": x.repeat(), "steps_per_epoch": STEPS}
    if form == "mapped":
        x = x.map(lambda *batch: batch, num_parallel_calls=2)
    return {"x": x.prefetch(1) if form in ("mapped", "prefetched") else x}


class Trial:
    """A run of `fit` that is drawn at random, and how it is interrupted."""

    def __init__(self, seed, tokenizer):
        self.draw, self.tokenizer = random.Random(seed), tokenizer
        draw = self.draw
        self.kind = draw.choice(FORMS)
        self.rate = draw.choice(["schedule", "constant", "constant"])
        self.averages = draw.random() < 0.3
        self.accumulation = draw.choice([None, None, 2])  # steps whose gradients are added up
        self.adapters = draw.random() < 0.2
        self.is_frozen = draw.random() < 0.8  # which halves the time of a trace
        self.resumes_in_a_new_model = draw.random() < 0.2
        self.precision = draw.choice(PRECISIONS)
        self.compiled = {
            "micro_batches": 1 if self.accumulation else draw.choice([1, 1, 2]),
            "steps_per_execution": 1 if BACKEND == "torch" else draw.choice([1, 1, 3]),
            "metrics": draw.choice([[], ["accuracy"]]),
        }
        self.fitted = {"epochs": EPOCHS}
        if draw.random() < 0.3:
            self.fitted["class_weight"] = {0: 1.0, 1: 2.0}
        elif draw.random() < 0.4 and self.kind in ("texts", "pairs", "arrays"):
            self.fitted["sample_weight"] = np.linspace(0.5, 1.5, len(LABELS))
        if draw.random() < 0.3 and self.kind in ("texts", "arrays"):
            self.fitted["validation_data"] = (TEXTS[:5], LABELS[:5])
        kinds = ["early", "checkpoint", "keep", "plateau", "scheduler", "decay", "swap"]
        if self.rate == "schedule":
            kinds = kinds[:3] + kinds[6:]
        self.callbacks = draw.sample(kinds[: -1 if not self.averages else None], draw.randint(0, 2))
        self.save_steps = draw.choice([None, 1, 2, 3])
        calls = EPOCHS * STEPS // self.compiled["steps_per_execution"]
        self.crashes = [draw.randint(1, calls) for _ in range(draw.randint(1, 2))]

    def __repr__(self):
        return str({name: value for name, value in vars(self).items() if name not in ("draw",)})

    def model(self):
        """Returns a new compiled model."""
        config = AlbertConfig(
            **SIZES, **LAYERS, vocab_size=len(self.tokenizer), hidden_dropout_prob=0.2, num_labels=2
        )
        model = AlbertForSequenceClassification(config, dtype=self.precision)
        model.tokenizer = self.tokenizer
        (block,) = model.albert.encoder.blocks
        if self.adapters:
            block.attention.query.enable_lora(2)
        if self.is_frozen and self.adapters:
            attention = block.attention
            for part in (attention.key, attention.value, block.ffn, model.albert.embedding):
                part.trainable = False
        elif self.is_frozen:
            model.albert.trainable = False
        options = {"use_ema": True, "ema_momentum": 0.5} if self.averages else {}
        optimizer = "auto"
        if self.rate == "constant" or self.averages:
            options["gradient_accumulation_steps"] = self.accumulation
            optimizer = keras.optimizers.Adam(0.01, **options)
        model.compile(optimizer, run_eagerly=BACKEND == "jax", **self.compiled)
        return model

    def others(self, folder):
        monitored = {"monitor": "loss", "mode": "min"}
        path = folder / "epoch-{epoch}.weights.h5"
        keep = KeepBest(lambda: {"score": -abs(keep.step - 4) / 9, "loss": 1.0}, folder / "best")
        made = {
            "early": keras.callbacks.EarlyStopping(**monitored, patience=1, min_delta=0.01),
            "plateau": keras.callbacks.ReduceLROnPlateau(**monitored, patience=1, min_delta=0.01),
            "checkpoint": keras.callbacks.ModelCheckpoint(
                path, "loss", save_best_only=True, save_weights_only=True, mode="min"
            ),
            "keep": keep,
            "scheduler": keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
            "decay": Decay(),
            "swap": keras.callbacks.SwapEMAWeights(swap_on_epoch=True) if self.averages else None,
        }
        return [made[name] for name in self.callbacks]

    def run(self, program, folder, *, crash=0):
        """Trains, up to `crash` batches unless it is 0. Returns the state and the history."""
        model, resume = program(), Resume(folder / "run", self.save_steps)
        callbacks = [*self.others(folder), resume, Crash(crash)]
        with contextlib.suppress(InterruptedError):
            data = _data(self.kind, self.tokenizer)
            model.fit(**data, **self.fitted, callbacks=callbacks, verbose=0)
        return state(model), (model.history.epoch, model.history.history)

    def check(self, folder):
        """Expects a run that crashed and was started again to end as an uninterrupted one."""
        program = Reset(self.model)
        whole, history = self.run(program, folder / "whole")
        for crash in self.crashes:
            self.run(program, folder / "part", crash=crash)
        if self.resumes_in_a_new_model:
            program = Reset(self.model)
        resumed, resumed_history = self.run(program, folder / "part")
        for one, other in zip(resumed, whole, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=repr(self))
        assert resumed_history == history, self
        names = [
            sorted(path.relative_to(each).as_posix() for path in each.rglob("*.h5"))
            for each in (folder / "whole", folder / "part")
        ]
        assert names[0] == names[1], self


def state(model):
    """Returns the weights, the optimizer's state, and the dropout seeds."""
    seeds = [each for each in model.variables if "seed" in each.path]
    variables = [*model.weights, *model.optimizer.variables, *seeds]
    return [keras.ops.convert_to_numpy(variable) for variable in variables]
