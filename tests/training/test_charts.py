import math

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from albert_tf.training.charts import plot_pretraining


def rows(steps, pairs=True):
    order = {"sentence_order_loss": 0.7, "sentence_order_accuracy": 0.55} if pairs else {}
    return [
        {
            "step": step,
            "masked_lm_loss": 9.0 - step / 100,
            "masked_lm_accuracy": step / 1000,
            "learning_rate": 1e-3,
            **order,
        }
        for step in steps
    ]


@pytest.fixture
def drawn(monkeypatch):
    """Returns the list of written figures."""
    figures = []
    save = Figure.savefig

    def seen(figure, *args, **kwargs):
        figures.append(figure)
        return save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", seen)
    return figures


def test_training_and_held_out_of_both_tasks(tmp_path, drawn):
    plot_pretraining(rows([100, 200, 300]), rows([150, 300]), tmp_path / "curves.png")
    height, width, _ = imread(tmp_path / "curves.png").shape
    assert width > height > 500
    (figure,) = drawn
    assert len(figure.axes) == 4
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["masked LM", "sentence order", "", ""]
    assert [panel.get_ylabel() for panel in figure.axes] == [
        "loss (nats per masked token)",
        "loss (nats per pair)",
        "accuracy (% of masked tokens)",
        "accuracy (% of pairs)",
    ]
    training, held_out = figure.axes[0].lines
    assert training.get_xydata().tolist() == [[100, 8], [200, 7], [300, 6]]
    assert held_out.get_xydata().tolist() == [[150, 7.5], [300, 6]]
    accuracy, _ = figure.axes[2].lines
    assert accuracy.get_xydata().tolist() == [[100, 10], [200, 20], [300, 30]]
    assert figure.axes[1].lines[2].get_ydata()[0] == pytest.approx(math.log(2))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["training", "held out"]


def test_masked_lm_alone_without_held_out_examples(tmp_path, drawn):
    plot_pretraining(rows([100], pairs=False), [], tmp_path / "curves.png")
    (figure,) = drawn
    assert [panel.get_title() for panel in figure.axes] == ["masked LM", ""]
    (line,) = figure.axes[0].lines
    assert line.get_marker() == "o"
    (text,) = figure.legends[0].get_texts()
    assert text.get_text() == "training"


def test_a_loss_of_nan_is_a_gap(tmp_path, drawn):
    history = rows([100, 200, 300])
    history[1]["masked_lm_loss"] = math.nan
    plot_pretraining(history, [], tmp_path / "curves.png")
    assert len(drawn[0].axes[0].lines[0].get_xydata()) == 3


def test_nothing_to_show(tmp_path):
    with pytest.raises(ValueError, match="There must be a step to show"):
        plot_pretraining([], [], tmp_path / "curves.png")
    assert not list(tmp_path.iterdir())
