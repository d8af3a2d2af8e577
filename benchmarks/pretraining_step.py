"""Compares the speed of a pretraining step with transformers on torch.

    python -m benchmarks.pretraining_step [--size base] [--batch-size 8] [--max-length 128]
    KERAS_BACKEND=jax python -m benchmarks.pretraining_step --dtype bfloat16 --max-length 512 \\
        --batch-size 64 --steps 10 --matrix 8192 [--size xxlarge --only albert torch]

All contenders train on the same batch from the same weights, so the first losses agree. A step is
forward, backward, and an AdamW update with gradients clipped to norm 1. In each of --rounds turns,
a fresh process of each contender runs --steps steps after two that aren't counted; figures are
medians. "albert" computes logits only at the masked positions, like the original. transformers'
model computes them at every position, like "albert-all" here. "-xla" compiles with XLA, as JAX
always does, and "-lamb" updates with LAMB. torch uses `scaled_dot_product_attention`, and
"torch-compiled" is `torch.compile` of the same model. With --forward, a step is only the forward
pass and its losses. `--clock process_time` measures processor time, which other programs disturb
less; "of peak" doesn't apply then.

"of peak" is the rate of the matmuls relative to one matmul of two square matrices in the same
library and dtype. Memory is that of the process on a CPU and of the device on a GPU: the peak, and
the part added by the model and its training. benchmarks/RESULTS.md contains the results.
"""

import os
import tempfile
import time
from functools import partial

from benchmarks import harness, products

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # processes share a GPU

BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
OURS = ["albert", "albert-all", "albert-lamb"]
CONTENDERS = {
    "tensorflow": [*OURS, "albert-xla", "albert-all-xla", "torch"],
    "jax": [*OURS, "torch"],
    "torch": [*OURS, "torch"],
}
PACKAGES = ("tensorflow", "jax", "jaxlib", "keras", "torch", "transformers", "numpy")
LEARNING_RATE = 1e-4
PREDICTED = 0.15  # share of a row's tokens that is masked


def prepare(size, seed, folder):
    """Writes the initial weights and returns the configuration and the device.

    There is no dropout, as in ALBERT v2, so that losses can be compared.
    """
    import keras

    from albert_tf import AlbertConfig, AlbertForPreTraining

    keras.utils.set_random_seed(seed)
    none = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob")
    config = AlbertConfig.from_pretrained(size) if size == "small" else AlbertConfig.from_size(size)
    config = config.replace(**dict.fromkeys(none, 0.0))
    AlbertForPreTraining(config).save_pretrained(folder)
    device = "CPU"
    if BACKEND == "jax":
        import jax

        device = jax.devices()[0].device_kind
    return {**config.to_dict(), "device": device}


def draw_batch(rows, length, vocab_size, seed):
    """Returns a batch like `build-data`'s: one row in ten is shorter, and 15% are masked."""
    import numpy as np

    generator = np.random.default_rng(seed)
    count = round(PREDICTED * length)
    short = generator.random(rows) < 0.1
    lengths = np.where(short, generator.integers(length // 2, length, rows), length)
    mask = np.arange(length) < lengths[:, None]
    second = np.arange(length) >= lengths[:, None] // 2
    positions = np.zeros((rows, count), "int32")
    labels = np.full((rows, count), -100, "int32")
    for row, size in enumerate(lengths):
        masked = round(PREDICTED * size)
        positions[row, :masked] = np.sort(generator.choice(size, masked, replace=False))
        labels[row, :masked] = generator.integers(5, vocab_size, masked)
    features = {
        "input_ids": np.where(mask, generator.integers(5, vocab_size, mask.shape), 0),
        "attention_mask": mask,
        "token_type_ids": second & mask,
        "masked_lm_positions": positions,
    }
    order = generator.integers(0, 2, rows)
    features = {name: values.astype("int32") for name, values in features.items()}
    return features, {"labels": labels, "sentence_order_label": order.astype("int32")}


def at_every_position(features, labels):
    """Returns the same batch with labels `[B, T]` and no positions."""
    import numpy as np

    features = dict(features)
    positions = features.pop("masked_lm_positions")
    everywhere = np.full(features["input_ids"].shape, -100, "int32")
    for row, (places, ids) in enumerate(zip(positions, labels["labels"], strict=True)):
        everywhere[row, places[ids != -100]] = ids[ids != -100]
    return features, {**labels, "labels": everywhere}


def keras_step(name, weights, dtype, forward, features, labels):
    """Returns the step of `albert-tf pretrain` on any backend, or of Keras' `evaluate`."""
    from albert_tf import AlbertForPreTraining
    from albert_tf.optimizers import AlbertAdamW, Lamb
    from albert_tf.training.pretrain import compile_with_metrics

    policy = "mixed_bfloat16" if dtype == "bfloat16" else "float32"
    model = AlbertForPreTraining.from_pretrained(weights, dtype=policy)
    optimizer = (Lamb if "lamb" in name else AlbertAdamW)(LEARNING_RATE, bias_correction=True)
    jit_compile = "auto" if BACKEND == "jax" else "xla" in name
    if forward:
        model.compile(optimizer, jit_compile=jit_compile)
    else:
        compile_with_metrics(model, optimizer, jit_compile=jit_compile)
    run = model.test_on_batch if forward else model.train_on_batch

    def step():
        model.reset_metrics()
        return float(run(features, labels, return_dict=True)["loss"])

    return step


def torch_step(name, weights, dtype, forward, features, labels):
    import torch
    from transformers import AlbertForPreTraining

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AlbertForPreTraining.from_pretrained(weights, attn_implementation="sdpa")
    model = model.to(device).train()
    run = torch.compile(model) if "compiled" in name else model
    optimizer = torch.optim.AdamW(
        model.parameters(), LEARNING_RATE, weight_decay=0.01, fused=device == "cuda"
    )
    batch = {
        name: torch.from_numpy(value).long().to(device)
        for name, value in {**features, **labels}.items()
    }

    def step():
        with (
            torch.inference_mode(forward),
            torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"),
        ):
            loss = run(**batch).loss
        if not forward:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return float(loss.detach())  # waits for the device

    return step


def is_everywhere(name):
    """Returns whether a contender computes logits at every position."""
    return "all" in name or name.startswith("torch")


def peak_memory(library):
    """Returns the peak MB of the device if it is a GPU, otherwise of this process."""
    if library == "torch":
        import torch

        if torch.cuda.is_available():
            return torch.cuda.max_memory_allocated() / 1e6
    if library == "jax":
        import jax

        if statistics := jax.devices()[0].memory_stats():
            return statistics["peak_bytes_in_use"] / 1e6
    return harness.memory("VmHWM") * 2**20 / 1e6


def measure(name, weights, shape, vocab_size, *, dtype, forward, steps, matrix, clock, seed):
    """Returns a step's ms and memory, the first loss, and the rate of a large matmul."""
    library = "torch" if name.startswith("torch") else BACKEND
    rate = products.rate(library, matrix, dtype)
    before = peak_memory(library)
    batch = draw_batch(*shape, vocab_size, seed)
    if is_everywhere(name):
        batch = at_every_position(*batch)
    make = torch_step if name.startswith("torch") else keras_step
    step = make(name, weights, dtype, forward, *batch)
    loss = step()
    ms = harness.timed(step, steps, clock=getattr(time, clock))
    peak = peak_memory(library)
    return {"ms": ms, "loss": loss, "rate": rate, "peak": peak, "added": peak - before}


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--size", default="base", help='also "small"; default: %(default)s')
    parser.add_argument("--batch-size", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--max-length", type=int, default=128, help="default: %(default)s")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--forward", action="store_true", help="no backward pass, no update")
    parser.add_argument("--steps", type=int, default=5, help="steps per turn; default: %(default)s")
    parser.add_argument("--matrix", type=int, default=2048, help="side; default: %(default)s")
    parser.add_argument("--clock", choices=("perf_counter", "process_time"), default="perf_counter")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="as in the table")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shape, names = (options.batch_size, options.max_length), options.only or CONTENDERS[BACKEND]
    settings = ("dtype", "forward", "steps", "matrix", "clock", "seed")
    how = {name: getattr(options, name) for name in settings}
    with tempfile.TemporaryDirectory() as folder:
        config = harness.fresh(prepare, options.size, options.seed, folder)
        arguments = (folder, shape, config["vocab_size"])
        cases = {name: partial(harness.fresh, measure, name, *arguments, **how) for name in names}
        rounds = harness.take_turns(cases, options.rounds)
    base = next((name for name in ("torch", *names) if isinstance(rounds.get(name), list)), None)
    base_ms = harness.medians(rounds[base])["ms"] if base else 0

    def row(name, results):
        if isinstance(results, str):
            return [name, results]
        figures = harness.medians(results)
        predicted = shape[0] * round(shape[1] * (1 if is_everywhere(name) else PREDICTED))
        flop = products.flop(config, *shape, predicted) * (1 if options.forward else 3)
        ms, memory = figures["ms"], f"{figures['peak']:,.0f} ({figures['added']:,.0f})"
        share = 1000 * flop / ms / figures["rate"]
        speeds = [f"{1000 * shape[0] * shape[1] / ms:,.0f}", f"{base_ms / ms:.2f}×", f"{share:.0%}"]
        return [name, f"{ms:,.1f}", *speeds, memory, f"{figures['loss']:.4f}"]

    heads = ["", "ms a step", "tokens/s", f"speed, {base} = 1", "of its library's peak"]
    heads += ["MB peak (above imports)", "first loss"]
    table = harness.table(heads, [row(*each) for each in rounds.items()])
    device = f"{BACKEND} on {config['device']}\n"
    harness.report(options, PACKAGES, [device, table], rounds)


if __name__ == "__main__":
    main()
