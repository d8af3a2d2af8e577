"""The contenders of `pretraining_step.py`, each in its own process, and their batch."""

import json
import os
import sys
import time

BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
LEARNING_RATE = 1e-4
PREDICTED = 0.15  # of a row's pieces


def batch_of(options):
    """Returns a batch like those of `build-data`: one row in ten is shorter, 15 % are masked."""
    import numpy as np

    from albert_tf.config import AlbertConfig

    generator = np.random.default_rng(options.seed)
    shape = (options.batch_size, options.max_length)
    predictions = round(PREDICTED * options.max_length)
    vocab_size = AlbertConfig.from_size(options.size).vocab_size
    short = generator.random(shape[0]) < 0.1
    lengths = np.where(short, generator.integers(shape[1] // 2, shape[1], shape[0]), shape[1])
    mask = np.arange(shape[1]) < lengths[:, None]
    second = np.arange(shape[1]) >= lengths[:, None] // 2
    ids = np.where(mask, generator.integers(5, vocab_size, shape), 0)
    positions = np.zeros((shape[0], predictions), "int32")
    labels = np.full((shape[0], predictions), -100, "int32")
    for row, length in enumerate(lengths):
        count = round(PREDICTED * length)
        positions[row, :count] = np.sort(generator.choice(length, count, replace=False))
        labels[row, :count] = generator.integers(5, vocab_size, count)
    features = {
        "input_ids": ids.astype("int32"),
        "attention_mask": mask.astype("int32"),
        "token_type_ids": (second & mask).astype("int32"),
        "masked_lm_positions": positions,
    }
    order = generator.integers(0, 2, shape[0]).astype("int32")
    return features, {"labels": labels, "sentence_order_label": order}


def at_every_position(features, labels):
    """Returns the same batch with labels `[B, T]` and no positions."""
    import numpy as np

    features = dict(features)
    positions = features.pop("masked_lm_positions")
    everywhere = np.full(features["input_ids"].shape, -100, "int32")
    for row, (places, found) in enumerate(zip(positions, labels["labels"], strict=True)):
        everywhere[row, places[found != -100]] = found[found != -100]
    return features, {**labels, "labels": everywhere}


def keras_model(options):
    from albert_tf.models import AlbertForPreTraining
    from albert_tf.training.optimizers import AlbertAdamW, Lamb

    dtype = "mixed_bfloat16" if options.dtype == "bfloat16" else "float32"
    model = AlbertForPreTraining.from_pretrained(options.weights, dtype=dtype)
    optimizer = Lamb if "lamb" in options.contender else AlbertAdamW
    compiled = "auto" if BACKEND == "jax" else "xla" in options.contender
    model.compile(optimizer(LEARNING_RATE, bias_correction=True), jit_compile=compiled)
    return model


def albert_trainer(options, features, labels):
    """Trains as `albert-tf pretrain` does, on any backend; evaluates as Keras does."""
    import keras

    from albert_tf.training.loss import pretraining_means
    from albert_tf.training.runtime import strategy_for
    from albert_tf.training.steps import TrainingStep

    model = keras_model(options)

    def evaluate(count):
        for _ in range(count):
            loss = model.test_on_batch(features, labels)
        return float(loss)

    if options.forward:
        return evaluate
    step = TrainingStep(model, strategy_for("none"), jit_compile="xla" in options.contender)
    batch = keras.tree.map_structure(keras.ops.convert_to_tensor, (features, labels))

    def train(count):
        for _ in range(count):
            sums = step(batch)
        return pretraining_means(keras.ops.convert_to_numpy(sums))["loss"]

    return train


def torch_trainer(options, features, labels):
    import torch
    from transformers import AlbertForPreTraining

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AlbertForPreTraining.from_pretrained(options.weights, attn_implementation="sdpa")
    model = model.to(device).train()
    run = torch.compile(model) if "compiled" in options.contender else model
    optimizer = torch.optim.AdamW(
        model.parameters(), LEARNING_RATE, weight_decay=0.01, fused=device == "cuda"
    )
    batch = {
        name: torch.from_numpy(value).long().to(device)
        for name, value in {**features, **labels}.items()
    }

    def passed():
        with torch.autocast(device, torch.bfloat16, enabled=options.dtype == "bfloat16"):
            return run(**batch).loss

    def train(count):
        for _ in range(count):
            loss = passed()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return float(loss.detach())  # waits for the device

    def evaluate(count):
        with torch.inference_mode():
            for _ in range(count):
                loss = passed()
        return float(loss)

    return evaluate if options.forward else train


def everywhere(contender):
    """Whether it computes logits at every position."""
    return "all" in contender or contender.startswith("torch")


def library(contender):
    return "torch" if contender.startswith("torch") else BACKEND


def square_product(name, size, dtype):
    """A function that multiplies two `[size, size]` matrices and waits for the result."""
    if name == "torch":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        matrix = torch.ones((size, size), dtype=getattr(torch, dtype), device=device)
        return lambda: float((matrix @ matrix)[0, 0])
    if name == "jax":
        import jax

        matrix = jax.numpy.ones((size, size), dtype)
        product = jax.jit(lambda a: a @ a)
        return lambda: product(matrix).block_until_ready()
    import tensorflow as tf

    matrix = tf.ones((size, size), dtype)
    return lambda: tf.matmul(matrix, matrix)[0, 0].numpy()


def ceiling(options):
    """FLOP/s of the fastest of ten square products."""
    product = square_product(library(options.contender), options.matrix, options.dtype)
    product()
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - start)
    return 2 * options.matrix**3 / min(seconds)


def peak_memory(name):
    """Bytes: of the device if it is a GPU, else of this process."""
    if name == "torch":
        import torch

        if torch.cuda.is_available():
            return torch.cuda.max_memory_allocated()
    if name == "jax":
        import jax

        found = jax.devices()[0].memory_stats()
        if found:
            return found["peak_bytes_in_use"]
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def work(options):
    """Takes as many steps as each line of input says, and answers with a line of JSON."""
    name = library(options.contender)
    flops = ceiling(options)
    before = peak_memory(name)
    batch = batch_of(options)
    if everywhere(options.contender):
        batch = at_every_position(*batch)
    trainer = torch_trainer if options.contender.startswith("torch") else albert_trainer
    train = trainer(options, *batch)
    for line in sys.stdin:
        start = time.perf_counter()
        loss = train(int(line))
        seconds = (time.perf_counter() - start) / int(line)
        peak = peak_memory(name)
        answer = {"seconds": seconds, "loss": loss, "ceiling": flops, "peak": peak}
        print(json.dumps({**answer, "added": peak - before}), flush=True)
