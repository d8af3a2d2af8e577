"""Runs of `fit` that fail or are interrupted, and that `Resume` continues in another program."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data import classification_dataset
from albert_tf.errors import Interrupted, UserError
from albert_tf.files import locked
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.callbacks import KeepBest, Resume
from tests.training.resuming import BACKEND, LAYERS, SIZES, Crash, Reset, Sequence, Trial, state

TEXTS = [f"{word} film {'so it goes ' * (n % 3)}" for n in range(5) for word in ("good", "bad")]
LABELS = [1, 0] * 5


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return AlbertTokenizer(tiny_vocabulary)


@pytest.fixture(scope="module")
def classifier(tokenizer):
    """Returns a function that makes the model of a new program, with dropout, and compiles it.

    Models that are compiled with the same options are the same model, unless `is_new`; see `Reset`.
    """
    sizes = {**SIZES, **LAYERS, "vocab_size": len(tokenizer), "num_labels": 2}
    config = AlbertConfig(**sizes, hidden_dropout_prob=0.2)

    @functools.cache
    def program(optimizer="auto", **options):
        def new():
            model = AlbertForSequenceClassification(config)
            model.tokenizer = tokenizer
            model.albert.trainable = False
            model.compile(optimizer, **{"run_eagerly": BACKEND == "jax", **options})
            return model

        return Reset(new)

    def made(*args, is_new=False, **options):
        reset = program(*args, **options)
        return Reset(reset.new)() if is_new else reset()

    return made


@pytest.fixture(scope="module")
def data(tokenizer):
    """Returns a function that makes the arguments of `fit` for a form of data.

    An epoch has three batches, and four of the endless dataset.
    """

    def of(form, shuffle=True):
        features = dict(tokenizer(TEXTS, padding=True, return_tensors="np"))
        labels = np.array(LABELS, "int32")
        if form == "texts":
            return {"x": TEXTS, "y": LABELS, "batch_size": 4, "shuffle": shuffle}
        if form == "arrays":
            return {"x": features, "y": labels, "batch_size": 4, "shuffle": shuffle}
        if form == "package dataset":
            given = (tokenizer, TEXTS, LABELS)
            return {"x": classification_dataset(*given, batch_size=4, shuffle=shuffle)}
        dataset = tf.data.Dataset.from_tensor_slices((features, labels))
        if form == "sequence":
            return {"x": Sequence(list(dataset.batch(4).as_numpy_iterator()))}
        if form == "endless dataset":
            return {"x": dataset.repeat().batch(3), "steps_per_epoch": 4}
        return {"x": dataset.shuffle(9, seed=5, reshuffle_each_iteration=False).batch(4)}

    return of


def run(model, given, resume, *others, epochs=2, **options):
    """Trains, and returns the epochs that `fit` showed; a crash ends it early."""
    with contextlib.suppress(InterruptedError):
        model.fit(**given, epochs=epochs, callbacks=[*others, resume], verbose=0, **options)
    return model.history.epoch


def assert_same(model, other):
    """Compares the model with the state of another one."""
    for one, two in zip(state(model), other, strict=True):
        np.testing.assert_array_equal(one, two)


def slow_from(first, cases):
    """Marks the cases after the first ones as slow, and for TensorFlow only."""
    marks = pytest.mark.tensorflow, pytest.mark.slow
    return [
        case
        if number < first
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)
        for number, case in enumerate(cases)
    ]


@pytest.mark.skipif(BACKEND == "tensorflow", reason="the trials below cover it")
def test_a_dataset_that_repeats(tokenizer, tmp_path):
    """On JAX and torch, Keras reads a batch of the dataset before it trains."""
    trial = Trial(0, tokenizer)
    trial.kind, trial.callbacks, trial.averages, trial.adapters = "repeated", [], False, False
    trial.fitted, trial.compiled, trial.precision = {"epochs": 3}, {}, "float32"
    trial.accumulation = None
    trial.save_steps, trial.crashes = 1, [5]
    trial.check(tmp_path)


@pytest.mark.parametrize("number", slow_from(1, range(10)))
def test_a_run_that_fails_at_any_step_ends_as_an_uninterrupted_one(number, tokenizer, tmp_path):
    """`make test-faults` tries more such runs."""
    Trial(f"{os.environ['ALBERT_TF_SEED']} {number}", tokenizer).check(tmp_path)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("kind", "callbacks"),
    slow_from(
        2,
        [
            ("prefetched", ["scheduler", "early"]),
            ("texts", ["swap", "decay"]),
            ("sequence", ["plateau", "checkpoint"]),
            ("repeated", ["keep", "scheduler"]),
        ],
    ),
)
def test_runs_that_are_interrupted_within_epochs(kind, callbacks, tokenizer, tmp_path):
    """The callbacks change the model at the start of an epoch, or read the epoch's metrics."""
    trial = Trial(0, tokenizer)
    trial.kind, trial.callbacks, trial.rate, trial.averages = kind, callbacks, "constant", True
    trial.fitted, trial.compiled = {"epochs": 3}, {"metrics": ["accuracy"]}
    trial.save_steps, trial.precision = 1, "float32"
    trial.crashes = [4, 3]  # the second run starts with an epoch, and the third one within an epoch
    # While Keras sums gradients, forgotten averages would change nothing.
    trial.adapters, trial.accumulation = kind == "texts", 2 if kind == "prefetched" else None
    trial.is_frozen = kind != "prefetched"
    trial.resumes_in_a_new_model = kind == "prefetched"
    trial.check(tmp_path)


SCRIPT = """
import os, signal, sys, keras, numpy as np
from albert_tf import AlbertForSequenceClassification, AlbertTokenizer, Resume
from albert_tf.config import AlbertConfig

folder, out, kill_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
tokenizer = AlbertTokenizer.from_pretrained("small")
keras.utils.set_random_seed(3)
config = AlbertConfig.from_size("tiny", num_hidden_layers=1, vocab_size=len(tokenizer))
model = AlbertForSequenceClassification(config)
model.tokenizer = tokenizer
model.compile()

class Kill(keras.callbacks.Callback):
    batches = 0
    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if self.batches == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

callbacks = [Kill(), Resume(folder, save_steps=1)]
model.fit(["good", "bad", "a film"] * 3, [1, 0, 1] * 3, 2, 2, 0, callbacks)
np.savez(out, *map(np.array, [*model.weights, *model.optimizer.variables]))
"""


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.tensorflow
def test_a_killed_program_goes_on_when_started_again(tmp_path):
    def start(folder, kill_at):
        command = [sys.executable, "-c", SCRIPT, folder, f"{folder}.npz", str(kill_at)]
        return subprocess.run(command, cwd=tmp_path, check=False).returncode

    assert start("whole", 0) == 0
    assert start("run", 7) == -signal.SIGKILL
    assert Resume(tmp_path / "run").step == 6
    assert start("run", 0) == 0
    with np.load(tmp_path / "run.npz") as run, np.load(tmp_path / "whole.npz") as whole:
        assert run.files == whole.files
        for name in run.files:
            np.testing.assert_array_equal(run[name], whole[name])


@pytest.mark.parametrize("form", slow_from(1, ["unknown length", "one pass per epoch"]))
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_other_datasets_are_resumed(form, classifier, data, tmp_path):
    """Without a known length, or with as many steps in an epoch as batches."""

    def given():
        dataset = data("other dataset")["x"]
        if form == "unknown length":
            return {"x": dataset.filter(lambda features, labels: True)}
        return {"x": dataset, "steps_per_epoch": 3}

    run(model := classifier("adam"), given(), Resume(tmp_path / "whole"))
    whole = state(model)
    for batches in (3, 2):  # at the end of an epoch, and in the next one
        run(classifier("adam"), given(), Resume(tmp_path / "run", save_steps=1), Crash(batches))
    resumed = classifier("adam")
    run(resumed, given(), Resume(tmp_path / "run", save_steps=1))
    assert_same(resumed, whole)


class Reordered(Sequence):
    def on_epoch_end(self):
        self.batches.reverse()


REFUSED = [
    ("texts", lambda x: {"steps_per_epoch": 3}, "reads all texts"),
    ("other dataset", lambda x: {"steps_per_epoch": 2}, "3 batches, steps_per_epoch=2"),
    ("sequence", lambda x: {"steps_per_epoch": 3}, "Received: Sequence"),
]
REFUSED_ON_TENSORFLOW = [
    ("endless dataset", lambda x: {"steps_per_epoch": 3}, "multiple of steps_per_execution"),
    ("other dataset", lambda x: {"x": x.unbatch().shuffle(9).batch(4)}, "whenever it is read"),
    ("other dataset", lambda x: {"x": iter(x)}, "Received: .*Iterator"),
    ("package dataset", lambda x: {"x": x.cache().prefetch(1)}, "after Cache"),
    ("package dataset", lambda x: {"x": x.shuffle(3, seed=1)}, "after Shuffle"),
    ("sequence", lambda x: {}, "shuffle=False"),
    ("sequence", lambda x: {"x": Reordered(x.batches), "shuffle": False}, "on_epoch_end"),
]


@pytest.mark.parametrize(
    ("form", "change", "message"),
    REFUSED + [pytest.param(*case, marks=pytest.mark.tensorflow) for case in REFUSED_ON_TENSORFLOW],
)
def test_data_that_no_run_could_resume(form, change, message, classifier, data, tmp_path):
    """Its order is unknown, or the position at which to resume."""
    given = data(form)
    given |= change(given["x"])
    model = classifier("sgd", **({"steps_per_execution": 4} if form == "endless dataset" else {}))
    with pytest.raises(UserError, match=message):
        run(model, given, Resume(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.tensorflow
def test_other_data_in_a_resumed_run(classifier, data, tmp_path):
    run(classifier("adam"), data("other dataset"), Resume(tmp_path), Crash(4))
    other = {"x": data("other dataset")["x"].map(lambda features, labels: (features, 1 - labels))}
    with pytest.raises(UserError, match="first_batches_sha256"):
        run(classifier("adam"), other, Resume(tmp_path))


@pytest.mark.tensorflow
def test_the_learning_rate_of_each_step(classifier, data, tmp_path):
    """The default schedule depends on the number of steps, which a traced step contains."""
    rates = []

    def note(batch, logs):
        rates.append((int(model.optimizer.iterations), float(model.optimizer.learning_rate)))

    notes = keras.callbacks.LambdaCallback(on_train_batch_end=note)
    model = classifier()
    run(model, data("texts"), Resume(tmp_path / "whole"), notes)
    whole, uninterrupted, rates = state(model), rates, []
    assert len({rate for _, rate in uninterrupted}) == 6
    model = classifier()
    run(model, data("texts"), Resume(tmp_path / "run", save_steps=1), notes, Crash(6))
    before, rates = rates, []
    model = classifier(is_new=True)
    run(model, data("texts"), Resume(tmp_path / "run", save_steps=1), notes)  # skips two steps
    assert before[:5] + rates == uninterrupted
    assert_same(model, whole)


@pytest.mark.tensorflow
def test_several_steps_per_execution_are_counted(classifier, data, tmp_path):
    """Keras counts 12 steps in an epoch of 10: the last execution ends early."""
    given = {**data("texts"), "batch_size": 1}
    several = functools.partial(classifier, "sgd", steps_per_execution=4)
    resume = Resume(tmp_path, save_steps=4)
    run(several(), given, resume, Crash(4))
    assert (resume.step, Resume(tmp_path).step, Resume(tmp_path).epoch) == (10, 8, 0)
    states = []
    for folder in (tmp_path, tmp_path / "whole"):
        model, resume = several(), Resume(folder, save_steps=4)
        assert run(model, given, resume) == [0, 1]
        assert resume.step == int(model.optimizer.iterations) == 20
        states.append(state(model))
    assert_same(model, states[0])


def test_a_model_that_is_not_compiled(classifier, data, tmp_path):
    model = AlbertForSequenceClassification(classifier("sgd").config)
    with pytest.raises(ValueError, match="compile"):
        model.fit(**data("arrays"), callbacks=[Resume(tmp_path / "run")])


def test_a_finished_run_is_not_trained_again(classifier, data, tmp_path, caplog):
    run(first := classifier(), data("texts"), Resume(tmp_path))
    history, weights = first.history.history, state(first)
    caplog.clear()
    again = classifier()
    assert run(again, data("texts"), Resume(tmp_path)) == [0, 1]
    assert again.history.history == history
    assert_same(again, weights)
    (message,) = caplog.messages
    assert str(tmp_path) in message and "after 6 steps" in message and "\n" not in message
    assert again.fit(**data("texts"), verbose=0).epoch == [0]  # without Resume as always


@pytest.mark.tensorflow
def test_callbacks_change_no_setting(classifier, data, tmp_path):
    """A notebook calls `fit` again on the same model, whose learning rate has changed."""
    model = classifier("sgd", run_eagerly=True, is_new=True)

    def train(*others):
        halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        return run(model, data("texts"), Resume(tmp_path), halve, *others)

    train(Crash(5))
    assert train() == train() == [0, 1]
    assert float(model.optimizer.learning_rate) == pytest.approx(0.01 / 4)
    model.optimizer.learning_rate = 0.1
    with pytest.raises(UserError, match=r"optimizer learning_rate was 0\.0.*, is 0\.1"):
        train()


@pytest.fixture(scope="module")
def finished(classifier, data, tmp_path_factory):
    """Returns the folder and the last state of a run with `adam`."""
    folder = tmp_path_factory.mktemp("finished")
    run(model := classifier("adam"), data("texts"), Resume(folder))
    return folder, state(model)


OTHERS = {
    "examples_sha256": {"y": LABELS[::-1]},
    "examples was 10, is 8": {"x": TEXTS[:8], "y": LABELS[:8]},
    "batch_size was 4, is 3": {"batch_size": 3},
    "shuffle was True, is False": {"shuffle": False},
    "epochs was 2, is 3": {"epochs": 3},
    "optimizer learning_rate was 0.001": {"optimizer": keras.optimizers.Adam(0.5)},
    "optimizer class was 'Adam', is 'RMSprop'": {"optimizer": "rmsprop"},
    "loss was None, is .*CategoricalCrossentropy": {"loss": "sparse_categorical_crossentropy"},
    "class_weight 1 was nothing, is 2.0": {"class_weight": {1: 2.0}},
    "micro_batches was 1, is 2": {"micro_batches": 2},
    "corpus was nothing, is 3": {"settings": {"corpus": 3}},
}


@pytest.mark.parametrize("message", OTHERS)
def test_a_run_with_other_settings_is_rejected_by_name(message, classifier, data, finished):
    """The last case is a user-defined setting."""
    given = {**data("texts"), **OTHERS[message]}
    resume = Resume(finished[0], settings=given.pop("settings", None))
    names = given.keys() & {"optimizer", "loss", "micro_batches"}
    model = classifier(**{"optimizer": "adam", **{name: given.pop(name) for name in names}})
    before = state(model)
    with pytest.raises(UserError, match=message) as error:
        run(model, given, resume, epochs=given.pop("epochs", 2))
    assert "--" not in str(error.value)
    assert_same(model, before)


SCORES = (0.5, 0.7, 0.6, 0.4, 0.3, 0.9)  # the best one before two worse ones is that of epoch 1


def waiting(kind, folder):
    options = {"monitor": "score", "mode": "max", "patience": 2}
    if kind == "KeepBest":
        keep = KeepBest(lambda: {"score": SCORES[keep.step // 2 - 1]}, folder / "best", patience=2)
        return keep
    if kind == "ReduceLROnPlateau":
        return keras.callbacks.ReduceLROnPlateau(**options, min_delta=0.01)
    if kind == "ModelCheckpoint":
        path = folder / "epoch-{epoch}.weights.h5"
        return keras.callbacks.ModelCheckpoint(
            path, "score", save_best_only=True, save_weights_only=True, mode="max"
        )
    restore = kind == "EarlyStopping, which restores the best weights"
    return keras.callbacks.EarlyStopping(**options, restore_best_weights=restore)


WAITING = {
    "KeepBest": 4,
    "EarlyStopping": 4,
    "EarlyStopping, which restores the best weights": 4,
    "ReduceLROnPlateau": 6,
    "ModelCheckpoint": 6,
}


@pytest.mark.parametrize("kind", slow_from(2, WAITING))
def test_callbacks_remember_how_long_they_have_waited(kind, classifier, data, tmp_path):
    """`KeepBest` is after Resume in the list, and the others are before it."""

    def train(folder, *others, is_new=False):
        given = {**data("arrays"), "batch_size": 5}
        model = classifier("sgd", is_new=is_new)
        waits, resume = waiting(kind, folder), Resume(folder / "run")

        def score(epoch, logs):
            logs["score"] = SCORES[epoch]

        scores = keras.callbacks.LambdaCallback(on_epoch_end=score)
        callbacks = [scores, *others, *([resume, waits] if kind == "KeepBest" else [waits, resume])]
        with contextlib.suppress(InterruptedError):
            model.fit(**given, epochs=6, callbacks=callbacks, verbose=0)
        return model, waits

    model, waited = train(tmp_path / "whole")
    whole, history = state(model), model.history.history
    assert len(model.history.epoch) == WAITING[kind]
    for batches in (5, 4):  # in epoch 2, and in epoch 3
        train(tmp_path / "run", Crash(batches))
    resumed, waits = train(tmp_path / "run", is_new=True)
    assert resumed.history.epoch == [*range(WAITING[kind])]
    assert_same(resumed, whole)
    if kind == "KeepBest":
        assert waits.best == waited.best and waits.scores == waited.scores
        assert waits.best["number"] == 2 and len(waits.scores) == 4
    if kind == "ModelCheckpoint":
        names = [
            sorted(each.name for each in folder.glob("epoch*")) for folder in tmp_path.iterdir()
        ]
        assert names == [["epoch-1.weights.h5", "epoch-2.weights.h5", "epoch-6.weights.h5"]] * 2
    again, _ = train(tmp_path / "run")
    assert again.history.history == history
    assert_same(again, whole)


def test_a_resumed_run_has_the_same_callbacks(classifier, data, finished):
    keep = KeepBest(lambda: {"score": 1.0}, None)
    with pytest.raises(UserError, match="started with: none. Received: KeepBest"):
        run(classifier("adam"), data("texts"), Resume(finished[0]), keep)


@pytest.mark.parametrize("at", [0, 2, 100])
def test_signal_handlers_are_as_before(at, classifier, data, tmp_path):
    """After an exception before the first step or at a later one, and after the end."""
    handlers = [signal.signal(each, lambda *_: None) for each in (signal.SIGINT, signal.SIGTERM)]
    own = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    seen = []
    spy = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda *_: seen.append(signal.getsignal(signal.SIGINT))
    )
    try:
        with contextlib.suppress(UserError):
            given = data("texts") | ({"steps_per_epoch": 2} if not at else {})
            run(classifier("adam"), given, Resume(tmp_path), spy, Crash(at))
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == own
        assert own[0] not in seen and bool(seen) == bool(at)
        with pytest.raises(UserError, match="BackupAndRestore"):
            other = keras.Sequential([keras.layers.Dense(1)])
            other.compile("sgd", "mse")
            other.fit(np.ones((2, 1)), np.ones((2, 1)), callbacks=[Resume(tmp_path)], verbose=0)
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == own
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
            signal.signal(number, handler)


@pytest.mark.posix
@pytest.mark.parametrize("number", slow_from(1, [signal.SIGTERM, signal.SIGINT]))
def test_a_signal_saves_and_the_same_callback_goes_on(
    number, classifier, data, tmp_path, ctrl_c_enabled
):
    """Also in the same process, as in a notebook; and where batches are skipped."""
    run(model := classifier(), data("texts"), Resume(tmp_path / "whole", save_steps=4, keep=9))
    whole = state(model)
    names = [path.name for path in sorted((tmp_path / "whole").iterdir())]
    assert names == ["step-00000004", "step-00000006"]

    def interrupt(at, logs):
        if at == 1:  # batch 1
            os.kill(os.getpid(), number)

    stop_in_batch = keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)
    stop_in_skipped = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: interrupt(1, {}))
    model, resume = classifier(), Resume(tmp_path / "run", save_steps=4)
    for stopper in (stop_in_batch, stop_in_skipped):
        with pytest.raises(Interrupted, match="newest checkpoint is .*step-00000002"):
            run(model, data("texts"), resume, stopper)
    run(model, data("texts"), resume)
    assert_same(model, whole)


def test_a_signal_after_an_early_end_leaves_a_finished_run(
    classifier, data, tmp_path, ctrl_c_enabled
):
    def stop(epoch, logs):
        model.stop_training = True
        signal.raise_signal(signal.SIGINT)

    model, stopper = classifier(), keras.callbacks.LambdaCallback(on_epoch_end=stop)
    with pytest.raises(Interrupted):
        run(model, data("texts"), Resume(tmp_path), stopper)
    assert run(classifier(), data("texts"), Resume(tmp_path)) == [0]


def test_a_run_that_failed_before_its_first_checkpoint_begins_anew(
    classifier, data, finished, tmp_path
):
    """With the same callback."""
    resume = Resume(tmp_path)
    run(classifier("adam"), data("texts"), resume, Crash(2))
    run(model := classifier("adam"), data("texts"), resume)
    assert resume.step == 6
    assert_same(model, finished[1])


@pytest.mark.tensorflow
def test_a_damaged_checkpoint(classifier, data, finished, tmp_path):
    (step,) = finished[0].glob("step-*")
    model = classifier("adam")
    before = state(model)
    for name in ("model.safetensors", "state.safetensors"):
        content = bytearray((step / name).read_bytes())
        content[-7] ^= 4
        for fault in ("changed", "missing"):
            folder = tmp_path / f"{fault} {name}"
            shutil.copytree(step, folder / step.name)
            path = folder / step.name / name
            path.write_bytes(content)
            if fault == "missing":
                path.unlink()
            with pytest.raises(UserError, match=f"{step.name} is incomplete or damaged") as error:
                run(model, data("texts"), Resume(folder))
            assert "--" not in str(error.value)
            assert_same(model, before)


@pytest.mark.tensorflow
def test_one_run_at_a_time(classifier, data, tmp_path):
    with locked(tmp_path), pytest.raises(UserError, match=f"Another run is writing to {tmp_path}"):
        run(classifier("adam"), data("texts"), Resume(tmp_path))


@pytest.mark.tensorflow
def test_callbacks_whose_state_is_unknown_are_named(classifier, data, tmp_path, caplog):
    class Early(keras.callbacks.EarlyStopping):
        pass

    others = [
        keras.callbacks.Callback(),
        Early("loss", mode="min"),
        keras.callbacks.LambdaCallback(),
        keras.callbacks.TerminateOnNaN(),
        KeepBest(lambda: {"score": 1.0}, None),
        Crash(4),
    ]
    run(classifier(), data("texts"), Resume(tmp_path), *others)
    (message,) = caplog.messages
    assert "doesn't save the state of Callback, Early, Crash. " in message and "`state`" in message
    with pytest.raises(UserError, match="BackupAndRestore"):
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        run(classifier("adam"), data("texts"), Resume(tmp_path / "new"), backup)


@pytest.mark.tensorflow
def test_a_state_that_is_not_json(classifier, data, tmp_path):
    other = keras.callbacks.Callback()
    other.state = {"weights": np.ones(3)}
    with pytest.raises(UserError, match="must be JSON.*ndarray"):
        run(classifier("adam"), data("texts"), Resume(tmp_path), other)


@pytest.mark.tensorflow
def test_a_csv_file_keeps_the_epochs_before_an_interruption(classifier, data, tmp_path):
    def train(folder, *others):
        (tmp_path / folder).mkdir(exist_ok=True)
        log = keras.callbacks.CSVLogger(str(tmp_path / folder / "log.csv"))
        resume = Resume(tmp_path / folder / "run", save_steps=1)
        run(classifier("adam"), data("texts"), resume, log, *others, epochs=3)
        return (tmp_path / folder / "log.csv").read_text()

    train("part", Crash(5))
    assert train("part") == train("whole") == train("part")


@pytest.mark.tensorflow
def test_a_rejected_fit_leaves_the_optimizer(classifier, data, tmp_path):
    """The default schedule resets it when training begins."""
    model = classifier()
    run(model, data("texts"), Resume(tmp_path))
    before = state(model)
    for options, message in (
        ({"batch_size": 3}, "batch_size was 4"),
        ({"steps_per_epoch": 2}, "reads all texts"),
        ({"validation_data": (["good"], [7])}, "class ids"),
    ):
        with pytest.raises(ValueError, match=message):
            run(model, {**data("texts"), **options}, Resume(tmp_path))
    assert_same(model, before)


def test_the_arguments_of_earlier_versions(classifier, data, finished, tmp_path):
    def train(*others):
        model = classifier("adam")
        keep = KeepBest(lambda: {"f1": 0.5}, tmp_path / "best")
        resume = Resume(tmp_path / "run", others=[keep])
        options = {"initial_epoch": resume.epoch, "callbacks": [*others, keep, resume]}
        with contextlib.suppress(InterruptedError):
            model.fit(**data("texts"), epochs=2, verbose=0, **options)
        return model, keep

    train(Crash(5))
    resumed, keep = train()
    assert resumed.history.epoch == [0, 1] and [each["step"] for each in keep.scores] == [3, 6]
    assert_same(resumed, finished[1])
