"""Memory of a training step: measured, and as `albert-tf sizes` computes it.

    python benchmarks/training_memory.py [--sizes mini base] [--batch-size 8] [--max-length 128]
    python benchmarks/training_memory.py --compile --sizes base large xlarge xxlarge

Each case trains three steps with Adam, in float32, in its own process; the peak excludes the memory
that Keras needs to train a model of a few kilobytes. "kept" is counted in TensorFlow's graph: every
result of the forward pass that an operation of the backward pass reads. `albert_tf.counting`
has the formulas.

--compile allocates and runs nothing, so that every size fits: XLA compiles a step of
`AlbertForPreTraining` with LAMB, in float32 on JAX (`pip install albert_tf[jax]`), and reports the
program's memory. "state" are weights and moments, which are updated in place; "temporary" is the
rest (activations, gradients, intermediate results), with XLA's order of operations for speed and,
"in order", for little memory. "formula" is the total on TensorFlow. benchmarks/RESULTS.md has
results.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

STEPS = 3
SAME_TENSOR = {
    "Reshape",
    "Identity",
    "IdentityN",
    "ExpandDims",
    "Squeeze",
}  # views of what they are given
NOT_KEPT = {"ReadVariableOp", "Const", "Placeholder"}


def memory(field):
    """MB by /proc/self/status: VmRSS now, VmHWM at its peak."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith(field))
    return int(line.split()[1]) * 1024 / 1e6


def config_of(case):
    """The configuration of a case."""
    from albert_tf.config import AlbertConfig

    return AlbertConfig.from_size(
        case["size"],
        share=case["share"],
        hidden_dropout_prob=case["dropout"],
        attention_probs_dropout_prob=case["dropout"],
    )


def train(model, batch_size, length):
    """Three steps of `fit` on ids that mean nothing."""
    import keras
    import numpy as np

    generator = np.random.default_rng(1)
    shape = (STEPS * batch_size, length)
    ids = generator.integers(5, model.config.vocab_size, shape).astype("int32")
    features = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    model.compile(keras.optimizers.Adam(1e-4))
    labels = generator.integers(0, 2, shape)
    history = model.fit(features, labels, batch_size=batch_size, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def kept_bytes(model, batch_size, length):
    """Bytes of the forward pass's results that the backward pass reads, by TensorFlow's graph."""
    import tensorflow as tf

    found = {}

    def source(tensor):
        while tensor.op.type in SAME_TENSOR:
            number = tensor.value_index if tensor.op.type == "IdentityN" else 0
            tensor = tensor.op.inputs[number]
        return tensor

    def step(ids, labels):
        graph = tf.compat.v1.get_default_graph()
        features = {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids}
        with tf.GradientTape() as tape:
            loss = model(features, labels=labels, training=True)["loss"]
        forward = {operation.name for operation in graph.get_operations()}
        tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        for operation in graph.get_operations():
            if operation.name in forward or operation.type == "Shape":
                continue
            for tensor in map(source, operation.inputs):
                if tensor.op.name in forward and tensor.op.type not in NOT_KEPT:
                    found[tensor.name] = tensor.dtype.size * tensor.shape.num_elements()

    ids = tf.TensorSpec((batch_size, length), tf.int32)
    tf.function(step).get_concrete_function(ids, ids)
    return sum(found.values())


def measure(case):
    """Trains in this process; prints the peak and the kept results, in MB, as JSON."""
    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForTokenClassification

    train(AlbertForTokenClassification(AlbertConfig.from_size("tiny")), 2, 16)
    before = memory("VmRSS")
    model = AlbertForTokenClassification(config_of(case))
    model.gradient_checkpointing_enable(case["checkpointing"])
    train(model, case["batch_size"], case["max_length"])
    peak = memory("VmHWM") - before
    kept = kept_bytes(model, case["batch_size"], case["max_length"]) / 1e6
    print(json.dumps({"peak": peak, "kept": kept}))


def specifications(config, batch_size, length):
    """A batch for JAX to compile for: features and labels, with 15 % of the pieces to predict."""
    import jax

    def of(*shape):
        return jax.ShapeDtypeStruct((batch_size, *shape), "int32")

    names = ("input_ids", "attention_mask", "token_type_ids")
    predictions = round(0.15 * length)
    features = {**{name: of(length) for name in names}, "masked_lm_positions": of(predictions)}
    return {**features, "labels": of(predictions), "sentence_order_label": of()}


def compiled(case):
    """Compiles a training step without values; prints its memory in MB as JSON."""
    import jax
    import keras

    from albert_tf.models import AlbertForPreTraining
    from albert_tf.training.optimizers import Lamb

    config, optimizer = config_of(case), Lamb(1e-3)
    with keras.StatelessScope(initialize_variables=False):
        model = AlbertForPreTraining(config)
        model.gradient_checkpointing_enable(case["checkpointing"])
        optimizer.build(model.trainable_variables)

    def step(weights, others, moments, batch):
        def loss(weights):
            outputs, new = model.stateless_call(weights, others, **batch, training=True)
            return outputs["loss"], new

        (value, new), gradients = jax.value_and_grad(loss, has_aux=True)(weights)
        weights, moments = optimizer.stateless_apply(moments, gradients, weights)
        return value, weights, new, moments

    state = [
        [jax.ShapeDtypeStruct(tuple(each.shape), each.dtype) for each in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            optimizer.variables,
        )
    ]
    batch = specifications(config, case["batch_size"], case["max_length"])
    program = jax.jit(step, donate_argnums=(0, 1, 2)).lower(*state, batch).compile()
    found = program.memory_analysis()
    sizes = {"state": found.argument_size_in_bytes, "temporary": found.temp_size_in_bytes}
    print(json.dumps({name: size / 1e6 for name, size in sizes.items()}))


# On CPU, XLA early drops the marks that keep it from merging what is computed again with what was
# there: without this, gradient checkpointing has no effect.
KEEP_MARKS = "--xla_disable_hlo_passes=cse_barrier_expander"
# By default it orders operations for several cores, so that more of them hold memory at once.
IN_ORDER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"


def measured(case, how="--measure", **environment):
    command = [sys.executable, __file__, how, json.dumps(case)]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout.splitlines()[-1])


def counted(case):
    """Returns the formulas' MB: kept results, and the total."""
    from albert_tf import counting

    batch = (case["batch_size"], case["max_length"])
    whole = counting.training_memory(config_of(case), *batch, case["checkpointing"])
    kept = whole.activations
    if case["checkpointing"]:  # the one block at a time is no result of the forward pass
        kept -= counting.recomputed(config_of(case), *batch)
    return {"kept": kept / 1e6, "peak": sum(whole) / 1e6}


def cases_of(options, dropouts):
    """Cases, each with its name in the table."""
    choices = itertools.product(options.sizes, ("all", "none"), dropouts, (False, True))
    for size, share, dropout, checkpointing in choices:
        case = {"size": size, "share": share, "dropout": dropout, "checkpointing": checkpointing}
        name = f"{size}, share={share}, dropout {dropout}"
        name += ", checkpointing" if checkpointing else ""
        yield name, {**case, "batch_size": options.batch_size, "max_length": options.max_length}


def print_row(name, figures):
    print(f"{name:52}" + "".join(f"{figure:11.1f}" for figure in figures), flush=True)


def print_setting(options, *packages):
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"{versions}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print(f"{options.batch_size} rows of {options.max_length}; float32; MB = 10^6 bytes")


def compare(options):
    print_setting(options, "tensorflow", "keras", "numpy")
    print(f"{'':52}{'kept for the gradient':>22}{'peak':>22}")
    print(f"{'':52}{'formula':>11}{'graph':>11}{'formula':>11}{'measured':>11}")
    for name, case in cases_of(options, (0.0, 0.1)):
        says, found = counted(case), measured(case)
        print_row(name, (says["kept"], found["kept"], says["peak"], found["peak"]))


def compile_all(options):
    print_setting(options, "jax", "jaxlib", "keras")
    print(f"{'':52}{'state':>11}{'temporary':>11}{'in order':>11}{'formula':>11}")
    for name, case in cases_of(options, (0.0,)):
        found = [
            measured(
                case,
                "--measure-compiled",
                KERAS_BACKEND="jax",
                JAX_PLATFORMS="cpu",
                XLA_FLAGS=" ".join([os.environ.get("XLA_FLAGS", ""), KEEP_MARKS, *more]),
            )
            for more in ([], [IN_ORDER])
        ]
        temporary = [each["temporary"] for each in found]
        print_row(name, (found[0]["state"], *temporary, counted(case)["peak"]))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=["mini", "base"])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--compile", action="store_true", help="by XLA, without running")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--measure-compiled", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(json.loads(options.measure))
    elif options.measure_compiled:
        compiled(json.loads(options.measure_compiled))
    elif options.compile:
        compile_all(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
