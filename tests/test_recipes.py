import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.options import CLASSIFY
from albert_tf.data.tasks.glue import GLUE
from albert_tf.recipes import (
    FROM_RANDOM_WEIGHTS,
    MANY,
    OWN_DATA,
    SMALL,
    SMALL_ON_MANY,
    TABLE_14,
    recipe,
)

FEW = MANY - 1


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with the configuration of a published size; recipes need no weights."""
    folder = tmp_path_factory.mktemp("base")
    AlbertConfig.from_size("base").save_pretrained(folder)
    return str(folder)


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
def test_the_paper(task, row, base):
    assert recipe(task, base, FEW)[:6] == row  # arXiv 1909.11942, table 14


def test_every_task_of_glue_has_a_row():
    assert TABLE_14.keys() == {*GLUE, "squad", "squad2", "race"}


def test_random_weights_have_another_recipe(base):
    assert recipe(CLASSIFY, base, FEW) == OWN_DATA
    for task in (CLASSIFY, "sst2"):
        for model in ("mini", "sizes/mine.json"):
            assert recipe(task, model, FEW) == recipe(task, model, MANY) == FROM_RANDOM_WEIGHTS
    assert recipe("squad", "mini", FEW) == FROM_RANDOM_WEIGHTS._replace(max_length=384)
    assert OWN_DATA.steps is FROM_RANDOM_WEIGHTS.steps is SMALL.steps is None


def test_small_models_have_another_recipe_under_any_name(base, tmp_path):
    AlbertConfig.from_pretrained("small").save_pretrained(tmp_path)
    for model in ("small", str(tmp_path)):
        assert recipe(CLASSIFY, model, FEW) == recipe("sst2", model, FEW) == SMALL
        assert recipe("squad", model, FEW) == SMALL._replace(max_length=384)
        assert recipe(CLASSIFY, model, MANY) == SMALL_ON_MANY
        assert recipe("squad", model, MANY) == SMALL_ON_MANY._replace(max_length=384)
    assert recipe("sst2", base, MANY) == TABLE_14["sst2"]
