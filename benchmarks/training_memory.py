"""Measures the memory of a training step.

    python -m benchmarks.training_memory [--sizes mini base] [--batch-size 8] [--max-length 128]
    python -m benchmarks.training_memory --compile --sizes base large xlarge xxlarge

Each case trains three steps with Adam, in float32, in its own process. The peak excludes the memory
that Keras needs to train a model of a few kilobytes. "kept" is counted in TensorFlow's graph: all
results of the forward pass that the backward pass reads. MB are 10^6 bytes.

--compile allocates and runs nothing, so that every size fits. XLA compiles a step of
`AlbertForPreTraining` with LAMB, in float32 on JAX (`pip install albert_tf[jax]`), and reports the
program's memory. "state" is the weights and moments, which are updated in place. "temporary" is the
rest (activations, gradients, intermediate results) if XLA orders operations for speed, and "in
order" if it orders them to save memory. benchmarks/RESULTS.md has results.
"""

import itertools
import os
from functools import partial

from benchmarks import harness

STEPS = 3
VIEWS = {"Reshape", "Identity", "IdentityN", "ExpandDims", "Squeeze"}  # return the same tensor
NOT_KEPT = {"ReadVariableOp", "Const", "Placeholder"}
# On CPUs, XLA drops the barriers early that keep it from merging recomputed results with the
# original ones. Without this flag, gradient checkpointing has no effect.
KEEP_MARKS = "--xla_disable_hlo_passes=cse_barrier_expander"
# By default, XLA orders operations for several cores, so that more of them hold memory at once.
IN_ORDER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"


def config_of(case):
    """Returns the configuration of a case."""
    from albert_tf.config import AlbertConfig

    return AlbertConfig.from_size(
        case["size"],
        share=case["share"],
        hidden_dropout_prob=case["dropout"],
        attention_probs_dropout_prob=case["dropout"],
    )


def train(model, batch_size, length):
    """Runs three steps of `fit` on meaningless ids."""
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
    """Returns the bytes of the forward results that the backward pass reads in the graph."""
    import tensorflow as tf

    kept = {}

    def source(tensor):
        while tensor.op.type in VIEWS:
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
                    kept[tensor.name] = tensor.dtype.size * tensor.shape.num_elements()

    ids = tf.TensorSpec((batch_size, length), tf.int32)
    tf.function(step).get_concrete_function(ids, ids)
    return sum(kept.values())


def measure(case):
    """Trains in this process and returns the peak and the kept results in MB."""
    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForTokenClassification

    train(AlbertForTokenClassification(AlbertConfig.from_size("tiny")), 2, 16)
    before = harness.memory("VmRSS")
    model = AlbertForTokenClassification(config_of(case))
    model.gradient_checkpointing_enable(case["checkpointing"])
    train(model, case["batch_size"], case["max_length"])
    peak = (harness.memory("VmHWM") - before) * 2**20 / 1e6
    kept = kept_bytes(model, case["batch_size"], case["max_length"]) / 1e6
    return {"peak": peak, "kept": kept}


def specifications(config, batch_size, length):
    """Returns features and labels that JAX compiles for, with 15% of the pieces to predict."""
    import jax

    def of(*shape):
        return jax.ShapeDtypeStruct((batch_size, *shape), "int32")

    names = ("input_ids", "attention_mask", "token_type_ids")
    predictions = round(0.15 * length)
    features = {**{name: of(length) for name in names}, "masked_lm_positions": of(predictions)}
    return {**features, "labels": of(predictions), "sentence_order_label": of()}


def compile_step(case):
    """Compiles a training step without values and returns its memory in MB."""
    import jax
    import keras

    from albert_tf.models import AlbertForPreTraining
    from albert_tf.optimizers import Lamb

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
    memory = program.memory_analysis()
    sizes = {"state": memory.argument_size_in_bytes, "temporary": memory.temp_size_in_bytes}
    return {name: size / 1e6 for name, size in sizes.items()}


def cases_of(options, dropouts):
    """Returns the cases with their names in the table."""
    choices = itertools.product(options.sizes, ("all", "none"), dropouts, (False, True))
    for size, share, dropout, checkpointing in choices:
        case = {"size": size, "share": share, "dropout": dropout, "checkpointing": checkpointing}
        name = f"{size}, share={share}, dropout {dropout}"
        name += ", checkpointing" if checkpointing else ""
        yield name, {**case, "batch_size": options.batch_size, "max_length": options.max_length}


def compiled(case):
    """Returns the memory of a step in XLA's default order, and in the order that saves memory."""
    sizes = []
    for flags in ([], [IN_ORDER]):
        flags = " ".join([os.environ.get("XLA_FLAGS", ""), KEEP_MARKS, *flags])
        environment = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
        sizes.append(harness.fresh(compile_step, case, environment=environment))
    return {**sizes[0], "in order": sizes[1]["temporary"]}


def main():
    parser = harness.parser(__doc__, rounds=1)
    parser.add_argument("--sizes", nargs="+", default=["mini", "base"])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument(
        "--compile", action="store_true", help="measure XLA's program without running it"
    )
    options = parser.parse_args()
    cases = dict(cases_of(options, (0.0,) if options.compile else (0.0, 0.1)))
    how = compiled if options.compile else partial(harness.fresh, measure)
    rounds = harness.take_turns(
        {name: partial(how, case) for name, case in cases.items()}, options.rounds
    )
    if options.compile:
        heads, packages = ["", "state", "temporary", "in order"], ("jax", "jaxlib")
        fields = ("state", "temporary", "in order")
    else:
        heads = ["", "kept for the gradient", "peak"]
        packages, fields = ("tensorflow", "numpy"), ("kept", "peak")

    def cells(measured):
        return [f"{measured[field]:,.0f}" for field in fields]

    table = harness.table(heads, harness.rows(rounds, cells))
    harness.report(options, (*packages, "keras"), [table], rounds)


if __name__ == "__main__":
    main()
