import pytest

from albert_tf.data.options import CLASSIFY
from albert_tf.data.tasks.glue import GLUE
from albert_tf.training.options import FinetuningOptions
from albert_tf.training.recipes import (
    BUNDLED,
    FROM_RANDOM_WEIGHTS,
    OWN_DATA,
    TABLE_14,
    recipe,
)

PUBLISHED = "albert/albert-base-v2"


def test_every_task_of_glue_has_its_row_of_the_table():
    assert TABLE_14.keys() == {*GLUE, "squad", "squad2", "race"}
    assert all(recipe(task, PUBLISHED) == TABLE_14[task] for task in GLUE)


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("cola", (1e-5, 16, 0.0, 5336, 320, 512)),
        ("stsb", (2e-5, 16, 0.0, 3598, 214, 512)),
        ("sst2", (1e-5, 32, 0.0, 20935, 1256, 512)),
        ("mnli", (3e-5, 128, 0.0, 10000, 1000, 512)),
        ("qnli", (1e-5, 32, 0.0, 33112, 1986, 512)),
        ("qqp", (5e-5, 128, 0.1, 14000, 1000, 512)),
        ("rte", (3e-5, 32, 0.1, 800, 200, 512)),
        ("mrpc", (2e-5, 32, 0.0, 800, 200, 512)),
        ("wnli", (2e-5, 16, 0.1, 2000, 250, 512)),
        ("squad", (5e-5, 48, 0.0, 3649, 365, 384)),
        ("squad2", (3e-5, 48, 0.0, 8144, 814, 512)),
        ("race", (2e-5, 32, 0.1, 12000, 1000, 512)),
    ],
)
def test_the_paper(task, row):
    assert recipe(task, PUBLISHED)[:6] == row  # arXiv 1909.11942, table 14
    assert recipe(task, PUBLISHED).classifier_dropout == 0.1


def plan(**others):
    given = {"task": "rte", "model": PUBLISHED, "data": ".", "output": "out", **others}
    return FinetuningOptions(**given).plan()


def test_scaled_steps_see_as_many_examples():
    found = plan(batch_size=8, scale_steps=True)
    assert (found.batch_size, found.steps, found.warmup) == (8, 3200, 800)
    assert plan(batch_size=8).steps == plan(scale_steps=True).steps == 800
    assert plan(batch_size=8, scale_steps=True, steps=5, warmup=2)[3:5] == (5, 2)
    own = plan(task="classify", batch_size=8, scale_steps=True)
    assert (own.steps, own.warmup, own.epochs) == (None, 0.1, 3)


def test_dropout_of_encoder_and_classifier():
    assert plan(dropout=0.2, classifier_dropout=0.0)[2::5] == (0.2, 0.0)


def test_random_weights_and_bundled_models_have_other_recipes():
    assert recipe(CLASSIFY, PUBLISHED) == OWN_DATA
    for task in (CLASSIFY, "sst2"):
        assert recipe(task, "mini") == recipe(task, "sizes/mine.json") == FROM_RANDOM_WEIGHTS
        assert recipe(task, "small") == BUNDLED
    assert recipe("squad", "mini") == FROM_RANDOM_WEIGHTS._replace(max_length=384)
    assert recipe("squad", "small") == BUNDLED._replace(max_length=384)
    assert OWN_DATA.steps is FROM_RANDOM_WEIGHTS.steps is BUNDLED.steps is None


def test_a_folder_here_comes_before_the_bundled_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    assert recipe("sst2", "small") == TABLE_14["sst2"]
