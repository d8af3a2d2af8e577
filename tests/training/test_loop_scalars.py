import errno
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.progress import Interval
from albert_tf.training.loop import Scalars
from albert_tf.training.loss import pretraining_means

SAVED = Path("step.safetensors")
NAMES = (
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
)


def sums(loss, predictions=20.0, sentences=4.0):
    return np.array([[loss * predictions, 5.0, predictions], [0.7 * sentences, 3.0, sentences]])


def scalars_of(folder, **options):
    return Scalars(
        folder, Interval(pretraining_means, {"tokens_per_second": 96}), every=10, **options
    )


def points(folder, name):
    """Returns every point on disk by its step, including those that TensorBoard hides."""
    found = []
    for path in folder.iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag == name:
                    found.append((event.step, float(tf.make_ndarray(value.tensor))))
    return sorted(found)  # the tenth writer's file sorts before the ninth's


def train(scalars, first, last):
    for step in range(first, last + 1):
        scalars.on_step(step, sums(float(step)), step / 1000, 0.5)


def test_a_point_averages_the_steps_since_the_last_one(tmp_path):
    scalars = scalars_of(tmp_path)
    train(scalars, 1, 10)
    scalars.on_step(11, sums(3.0, predictions=30.0), 0.011, 0.5)
    scalars.on_step(12, sums(7.0, predictions=10.0), 0.012, 0.25)
    scalars.close()
    assert points(tmp_path, "masked_lm_loss") == [(10, 5.5), (12, 4.0)]
    assert points(tmp_path, "learning_rate") == [
        (10, pytest.approx(0.010)),
        (12, pytest.approx(0.012)),
    ]
    assert points(tmp_path, "tokens_per_second") == [(10, 96 / 0.5), (12, 2 * 96 / 0.75)]
    for name in NAMES:
        assert [step for step, _ in points(tmp_path, name)] == [10, 12]


def test_held_out_scores_have_other_names(tmp_path):
    scalars = scalars_of(tmp_path)
    train(scalars, 1, 10)
    scalars.on_evaluation(10, dict(zip(NAMES[:2], (4.5, 0.25), strict=True)))
    scalars.close()
    assert points(tmp_path, "evaluation/masked_lm_loss") == [(10, 4.5)]
    assert points(tmp_path, "evaluation/masked_lm_accuracy") == [(10, 0.25)]
    assert points(tmp_path, "evaluation/sentence_order_loss") == []
    assert len(points(tmp_path, "sentence_order_loss")) == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_resumed_run_has_every_step_once(tmp_path, killed):
    scalars = scalars_of(tmp_path)
    train(scalars, 1, 14)
    scalars.on_save(14, SAVED)
    train(scalars, 15, 37)
    scalars.on_evaluation(37, dict(zip(NAMES, (4.5, 0.25, 0.7, 0.5), strict=True)))
    if killed:
        (path,) = tmp_path.iterdir()
        path.write_bytes(path.read_bytes()[:-5])
    else:
        scalars.close()
    again = scalars_of(tmp_path, step=14)
    train(again, 15, 30)
    again.close()
    assert points(tmp_path, "masked_lm_loss") == [(10, 5.5), (14, 12.5), (20, 17.5), (30, 25.5)]
    assert points(tmp_path, "evaluation/masked_lm_loss") == []


def test_a_restarted_run_replaces_all_points(tmp_path):
    for last in (30, 20):
        scalars = scalars_of(tmp_path)
        train(scalars, 1, last)
        scalars.close()
    assert [step for step, _ in points(tmp_path, "learning_rate")] == [10, 20]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_is_an_error_of_the_system(tmp_path, files_of_at_most):
    scalars = scalars_of(tmp_path)
    scalars.on_evaluation(1, {"masked_lm_loss": 4.5})
    with pytest.raises(OSError, match="File too large") as error, files_of_at_most(1):
        scalars.on_evaluation(2, {"masked_lm_loss": 4.0})
    assert error.value.errno == errno.EFBIG and error.value.filename == str(tmp_path)
