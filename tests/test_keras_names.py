"""Every private name of Keras that the packages use, and why there is no public way.

A release of Keras may change these names. The tests fail if it drops one, or if the source uses
one that isn't listed.
"""

import ast
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).resolve().parents[1]
REASONS = {
    "_allow_non_tensor_positional_args": "AlbertPreprocessor takes lists of strings",
    "_compile_loss": "compile() without a loss keeps the loss of an earlier compile",
    "_compile_metrics": "compile() without metrics keeps the metrics of an earlier compile",
    "_compute_loss": "calls a user's compute_loss with or without its `training` argument",
    "_convert_input_args": "strings reach AlbertPreprocessor.call unchanged on every backend",
    "_default_save_signature": "tf.saved_model.save would trace a signature with float32 ids",
    "_direction": "callbacks can't tell whether a higher score of our metrics is better",
    "_distribute_strategy": "the strategy of the model, or None outside of tf.distribute",
    "_flatten_layers": "a layer's own layers; only a model has the public `layers`",
    "_get_variable_index": "an optimizer's slots are lists in the order of the variables",
    "_initial_epoch": "a callback can't begin with a later epoch; BackupAndRestore sets it too",
    "_initial_seed": "the torch backend draws without a seed if there is none",
    "_learning_rate": "`learning_rate` is the current value of a schedule, not the schedule",
    "_loss_tracker": "the mean loss of `fit`, which a training step of one's own must update",
    "_maybe_symbolic_build": "Keras builds metrics from a batch that it averages over replicas",
    "_non_trainable_variables": "a layer's own variables, without those of its layers",
    "_open_name_scope": "variables that replace others have their names and paths",
    "_symbolic_build": "builds metrics from the batch of one replica",
    "_tracker": "a built layer gets no more variables and layers while this is locked",
    "_trainable_variables": "a layer's own variables, without those of its layers",
}
# Names of our own that Keras happens to use as well.
OURS = {"_from_logits", "_lock", "_metrics", "_model", "_path", "_split", "_variables"}


def private(names):
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


@pytest.fixture(scope="module")
def of_keras():
    """The private names of Keras's own models, layers, optimizers, metrics, and so on."""
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("adam", "mse", metrics=["auc"])
    others = (
        keras.callbacks.Callback(),
        keras.layers.TextVectorization(),
        keras.metrics.AUC(),
        keras.optimizers.schedules.PolynomialDecay(1.0, 1),
        keras.random.SeedGenerator(1),
    )
    found = set().union(*(private(dir(each)) for each in (model, *model.layers, *others)))
    return found | private(dir(model.optimizer))


def names_in(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.tensorflow
def test_each_private_name_of_keras_has_a_reason(of_keras):
    paths = [*(ROOT / "albert_tf").rglob("*.py"), *(ROOT / "export").rglob("*.py")]
    used = of_keras.intersection(*[{name for path in paths for name in names_in(path)}])
    assert used - OURS == REASONS.keys()
