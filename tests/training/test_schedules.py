import json

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.training.schedules import WarmupPolynomialDecay


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


def test_the_originals_rate_drops_when_the_warm_up_ends():
    schedule = WarmupPolynomialDecay(0.00176, 3125, 125_000)
    assert rates(schedule, 0, 125_000, 130_000) == [0, 0, 0]
    np.testing.assert_allclose(
        rates(schedule, 3124, 3125), [0.00176 * 3124 / 3125, 0.00176 * 0.975], rtol=1e-6
    )


def test_the_usual_form_rises_to_the_peak_and_falls_from_it():
    schedule = WarmupPolynomialDecay(0.6, 3, 13, form="usual")
    np.testing.assert_allclose(rates(schedule, 0, 1, 2, 3), [0.2, 0.4, 0.6, 0.6], rtol=1e-6)
    np.testing.assert_allclose(rates(schedule, 8, 12, 13), [0.3, 0.06, 0], atol=1e-7)
    assert rates(schedule, 14, 1000) == [0, 0]


@pytest.mark.parametrize("power, half", [(1.0, 0.3), (2.0, 0.15), (0.5, 0.6 * 0.5**0.5)])
def test_the_power_of_the_decay(power, half):
    schedule = WarmupPolynomialDecay(0.6, 3, 13, power, form="usual")
    np.testing.assert_allclose(rates(schedule, 3, 8, 13), [0.6, half, 0], rtol=1e-6, atol=1e-7)


def test_without_warm_up_the_first_step_has_the_peak():
    for form in ("original", "usual"):
        schedule = WarmupPolynomialDecay(0.6, 0, 12, form=form)
        np.testing.assert_allclose(rates(schedule, 0, 6, 12), [0.6, 0.3, 0], atol=1e-7)


@pytest.mark.parametrize("warmup", [-1, 12, 13])
def test_a_warm_up_that_does_not_fit(warmup):
    with pytest.raises(ValueError, match=f"Received: warmup_steps={warmup}, total_steps=12"):
        WarmupPolynomialDecay(0.6, warmup, 12)


def test_an_unknown_form():
    with pytest.raises(ValueError, match="one of original, usual. Received: linear"):
        WarmupPolynomialDecay(0.6, 3, 12, form="linear")


def test_keras_serializes_the_schedule():
    schedule = WarmupPolynomialDecay(0.6, 3, 13, 0.5, "usual", 4)
    schedules = keras.optimizers.schedules
    again = schedules.deserialize(schedules.serialize(schedule))
    assert again.get_config() == schedule.get_config()
    assert rates(again, 5, 11) == rates(schedule, 5, 11)
