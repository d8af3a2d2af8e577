import contextlib
import json

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.optimizers import AlbertAdamW, Lamb, WarmupPolynomialDecay

NAMES = {AlbertAdamW: "adamw", Lamb: "lamb"}  # in the references
BOTH = pytest.mark.parametrize("kind", [AlbertAdamW, Lamb])


def variable(path, value):
    """Returns a variable with this path, which the optimizers read."""
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(value, name=name)


@BOTH
def test_five_steps_of_the_original(golden, kind):
    """Covers a zero weight, a zero gradient and every excluded name, to the last bits."""
    run = np.load(golden / "D_optimizers" / f"unit_{NAMES[kind]}.npz")
    names = [name.removeprefix("init/") for name in run.files if name.startswith("init/")]
    assert len(names) == 9
    variables = [variable(name, run[f"init/{name}"]) for name in names]
    assert [each.path for each in variables] == names
    optimizer = kind(0.05, global_clipnorm=None)
    for step in range(5):
        gradients = [ops.convert_to_tensor(run[f"grad/{name}"][step]) for name in names]
        optimizer.apply(gradients, variables)
        for each in variables:
            found, expected = each.numpy(), run[f"param_after_step{step + 1}/{each.path}"]
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-7, err_msg=each.path)


@pytest.mark.parametrize("size", [0.02, 0.5, 30.0])
def test_an_update_of_lamb_has_the_norm_of_its_weight(size):
    """Covers norms below 1; a first update without decay is a tenth of the root's inverse."""
    start = np.array([0.6, -0.8], "float32") * np.float32(size)
    weight, zero = keras.Variable(start), keras.Variable(np.zeros(2, "float32"))
    for each in (weight, zero):
        Lamb(0.1, weight_decay=0.0).apply([ops.convert_to_tensor([3.0, -4.0])], [each])
    moved = ops.convert_to_numpy(weight) - start
    assert np.linalg.norm(moved) == pytest.approx(0.1 * size, rel=1e-4)
    np.testing.assert_array_equal(np.sign(moved), [-1, 1])
    step = np.linalg.norm(ops.convert_to_numpy(zero))
    assert step == pytest.approx(0.1 * np.sqrt(2 * 0.1**2 / 0.001), rel=1e-3)


@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_bias_correction_is_that_of_adams_authors(size):
    """Covers gradients as small as epsilon, where Keras' form takes much smaller steps."""
    generator = np.random.default_rng(3)
    expected = generator.standard_normal((5, 3))
    weight = keras.Variable(expected.astype("float32"))
    start = ops.convert_to_numpy(weight)
    optimizer = AlbertAdamW(0.03, bias_correction=True, global_clipnorm=None)
    mean = square = 0.0
    for step in range(1, 8):
        gradient = size * generator.standard_normal((5, 3))
        optimizer.apply([ops.convert_to_tensor(gradient.astype("float32"))], [weight])
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        update = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-6)
        expected = expected - 0.03 * (update + 0.01 * expected)
    np.testing.assert_allclose(ops.convert_to_numpy(weight), expected, rtol=1e-4, atol=1e-5)
    assert np.abs(expected - start).max() > 0.05


@BOTH
@pytest.mark.parametrize("correction", [False, True])
def test_updates_of_bfloat16_are_rounded_once(kind, correction):
    """One gradient is 0, and 1 - beta_2 is 0 in bfloat16."""
    start, gradient = ([2.0, -0.5, 0.25], [0.5, 0.0, -0.125])
    weights = [keras.Variable(start, dtype=dtype) for dtype in ("bfloat16", "float32")]
    for weight in weights:
        gradients = [ops.convert_to_tensor(gradient, weight.dtype)]
        kind(0.1, bias_correction=correction, global_clipnorm=None).apply(gradients, [weight])
    half, single = (ops.convert_to_numpy(ops.cast(weight, "float32")) for weight in weights)
    assert np.all(single != start)
    np.testing.assert_allclose(half, single, rtol=2**-8)


@BOTH
def test_keras_serializes_the_optimizer(kind):
    optimizer = kind(0.1, 0.2, 0.3, 0.4, 0.5, True, ("a",), 0.6)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is kind and again.get_config() == optimizer.get_config()
    assert again.decay == 0.2 and again.exclude == ("a",) and again.global_clipnorm == 0.6


@BOTH
@pytest.mark.parametrize("name", ["clipnorm", "clipvalue"])
def test_clipping_twice_is_refused(kind, name):
    """The value that is also the default is refused like any other."""
    with pytest.raises(ValueError, match="Only one of"):
        kind(global_clipnorm=1.0, **{name: 2.0})


def test_one_name_to_exclude_is_not_a_sequence_of_letters():
    assert AlbertAdamW(exclude="bias").exclude == ("bias",)


def rates(schedule, *steps):
    return [float(schedule(step)) for step in steps]


def test_the_original_form_is_the_originals(golden):
    """Compares with every recorded step of `create_optimizer`, for every set of parameters."""
    folder = golden / "D_optimizers"
    recorded = np.load(folder / "lr_schedules.npz")
    cases = json.loads((folder / "lr_schedules.json").read_text())
    assert len(cases) == 6
    for number, case in enumerate(cases):
        schedule = WarmupPolynomialDecay(
            case["init_lr"],
            case["num_warmup_steps"],
            case["num_train_steps"],
            case["poly_power"],
            start_warmup_step=case["start_warmup_step"],
        )
        steps, expected = recorded[f"steps_{number}"], recorded[f"lr_{number}"]
        assert (expected < 0).any() == (case["start_warmup_step"] > 0)
        expected = np.maximum(expected, 0)  # the docstring describes this difference
        found = ops.convert_to_numpy(schedule(steps))
        # The resolution of float32 below 1 is 6e-8.
        np.testing.assert_allclose(
            found, expected, rtol=2e-7, atol=6e-8 * case["init_lr"], err_msg=str(case)
        )


def test_the_usual_form_rises_to_the_peak_and_falls_from_it():
    schedule = WarmupPolynomialDecay(0.6, 3, 13, form="usual")
    np.testing.assert_allclose(rates(schedule, 0, 1, 2, 3), [0.2, 0.4, 0.6, 0.6], rtol=1e-6)
    np.testing.assert_allclose(rates(schedule, 8, 12, 13), [0.3, 0.06, 0], atol=1e-7)
    assert rates(schedule, 14, 1000) == [0, 0]
    without = WarmupPolynomialDecay(0.6, 0, 12, 2.0, form="usual")
    np.testing.assert_allclose(rates(without, 0, 6, 12), [0.6, 0.15, 0], rtol=1e-6, atol=1e-7)


def test_an_unknown_form():
    """tests/test_numbers.py tests wrong numbers."""
    with pytest.raises(ValueError, match="form must be .* Received: 'linear'"):
        WarmupPolynomialDecay(0.6, total_steps=12, form="linear")


def test_keras_serializes_the_schedule():
    schedule = WarmupPolynomialDecay(0.6, 3, 13, 0.5, "usual", 4)
    schedules = keras.optimizers.schedules
    again = schedules.deserialize(schedules.serialize(schedule))
    assert again.get_config() == schedule.get_config()
    assert rates(again, 5, 11) == rates(schedule, 5, 11)


def test_a_schedule_of_unknown_length():
    schedule = WarmupPolynomialDecay(0.6, 0.25, form="usual")
    with pytest.raises(ValueError, match="Pass it to the schedule: .*total_steps"):
        schedule(0)
    schedule.steps = 12
    expected = WarmupPolynomialDecay(0.6, 3, 12, form="usual")
    assert rates(schedule, *range(13)) == rates(expected, *range(13))
    assert schedule.get_config()["total_steps"] is None  # the next `fit` may have other steps
    with pytest.raises(ValueError, match="Received: warmup_steps=3, total_steps=2"):
        WarmupPolynomialDecay(0.6, 3).steps = 2
