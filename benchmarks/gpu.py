"""Compares a classifier on a GPU: Keras' JAX backend and transformers on torch.

    python -m benchmarks.gpu [--sizes base large] [--rounds 1] [--batch-size 32] [--max-length 128]

Prints milliseconds per training step (forward, backward, AdamW) and per inference step, with random
weights, in float32 and with bfloat16 matmuls. "golden" is the largest difference of a small
pretraining model's float32 logits from those of transformers on a CPU, in tests/golden. On a GPU,
JAX rounds the inputs of matmuls to TensorFloat-32 by default, but not with `highest`; torch doesn't
by default. Requires `pip install albert_tf[jax] torch transformers`, but not TensorFlow.
"""

import itertools
import statistics
import time
from functools import partial

from benchmarks import harness

STEPS, EPOCHS = 30, 3  # the first epoch compiles
GOLDEN = "tests/golden/C_hf/random/g1_i2_gelu_erf/pretraining"
SIZES = (
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)
PACKAGES = ("keras", "jax", "torch", "transformers")


def inputs(vocab_size, rows, length):
    import numpy as np

    ids = np.random.default_rng(1).integers(5, vocab_size, (rows, length)).astype("int32")
    features = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return features, (ids[:, 0] % 2).astype("int32")


def ours(size, batch_size, length):
    """Returns milliseconds, keyed by precision and kind of step."""
    import keras

    from albert_tf import AlbertConfig, AlbertForSequenceClassification

    class Times(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            self.ends = [*getattr(self, "ends", []), time.perf_counter() - self.start]

    found = {}
    config = AlbertConfig.from_size(size)
    features, labels = inputs(config.vocab_size, STEPS * batch_size, length)
    for name, policy in (("float32", "float32"), ("bfloat16", "mixed_bfloat16")):
        model = AlbertForSequenceClassification(config, dtype=policy)
        model.compile(keras.optimizers.AdamW(1e-5))
        times = Times()
        fit = {"batch_size": batch_size, "epochs": EPOCHS, "verbose": 0, "callbacks": [times]}
        model.fit(features, labels, **fit)
        found[name] = [1000 * statistics.median(times.ends[1:]) / STEPS]
        predict = partial(model.predict, features, batch_size=batch_size, verbose=0)
        found[name].append(harness.timed(predict, calls=3) / STEPS)
    return found


def theirs(size, batch_size, length):
    """Returns milliseconds, keyed by precision and kind of step."""
    import torch
    import transformers

    from albert_tf import AlbertConfig

    own = AlbertConfig.from_size(size)
    fields = {name: getattr(own, name) for name in SIZES}
    config = transformers.AlbertConfig(**fields)
    features, labels = inputs(own.vocab_size, batch_size, length)
    found = {}
    for name in ("float32", "bfloat16"):
        model = transformers.AlbertForSequenceClassification(config).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        batch = {key: torch.tensor(value).cuda() for key, value in features.items()}
        target = torch.tensor(labels).long().cuda()
        half = torch.autocast("cuda", torch.bfloat16, enabled=name == "bfloat16")

        def train(model=model, optimizer=optimizer, batch=batch, target=target, half=half):
            for _ in range(STEPS):
                with half:
                    loss = model(**batch, labels=target).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            torch.cuda.synchronize()

        def predict(model=model, batch=batch, half=half):
            with torch.inference_mode(), half:
                for _ in range(STEPS):
                    model(**batch).logits.cpu()

        model.train()
        found[name] = [harness.timed(train, calls=2) / STEPS]
        model.eval()
        found[name].append(harness.timed(predict, calls=3) / STEPS)
    return found


def golden():
    """Returns the largest difference of logits, and its ratio to the largest logit."""
    import keras
    import numpy as np

    from albert_tf import AlbertForPreTraining

    arrays = np.load(harness.ROOT / GOLDEN / "golden.npz")
    model = AlbertForPreTraining.from_pretrained(harness.ROOT / GOLDEN)
    names = ("input_ids", "attention_mask", "token_type_ids")
    logits = model({name: arrays[f"in/{name}"] for name in names})["prediction_logits"]
    wanted = arrays["out/prediction_logits"]
    difference = np.abs(keras.ops.convert_to_numpy(logits) - wanted).max()
    return [float(difference), float(difference / np.abs(wanted).max())]


def measured(function, *arguments, **named):
    """Runs a function in a fresh process. Prints and returns its result."""
    found = harness.fresh(function, *arguments, **named)
    print(arguments[0], function.__name__, found, flush=True)
    return found


def main():
    options = harness.parser(__doc__, rounds=1)
    options.add_argument("--sizes", nargs="+", default=["base", "large"])
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--max-length", type=int, default=128)
    options = options.parse_args()
    on_jax = {"KERAS_BACKEND": "jax"}
    precise = {**on_jax, "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
    checks = harness.take_turns(
        {
            name: partial(harness.fresh, golden, environment=environment)
            for name, environment in (("default", on_jax), ("highest", precise))
        },
        1,
    )
    print(checks, flush=True)
    cases = {
        (size, function.__name__): partial(
            measured, function, size, options.batch_size, options.max_length, environment=on_jax
        )
        for size, function in itertools.product(options.sizes, (ours, theirs))
    }
    rounds = harness.take_turns(cases, options.rounds)
    columns = list(itertools.product(("float32", "bfloat16"), (0, 1)))
    rows = harness.rows(
        rounds, lambda figures: [f"{figures[name][work]:.1f}" for name, work in columns]
    )
    heads = ["size", ""] + [f"{name}, {('step', 'inference')[work]}" for name, work in columns]
    lines = [
        [name, *([found] if isinstance(found, str) else [f"{value:.1e}" for value in found[0]])]
        for name, found in checks.items()
    ]
    tables = [
        harness.table(heads, rows, names=2),
        harness.table(["golden", "difference", "of the largest"], lines),
    ]
    figures = {**rounds, **{f"golden, {name}": value for name, value in checks.items()}}
    harness.report(options, PACKAGES, tables, figures)


if __name__ == "__main__":
    main()
