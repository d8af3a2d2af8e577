import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from albert_tf.training.plots import plot_confusion, plot_curves


@pytest.fixture
def drawn(monkeypatch):
    """Returns the list of written figures."""
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    return figures


def test_a_confusion_matrix_has_shares_of_rows_and_counts(tmp_path, drawn):
    pairs = [("a$b$", "a$b$")] * 3 + [("a$b$", "中"), ("中", "a$b$")]
    plot_confusion(pairs, tmp_path / "confusion.png")
    axes = drawn[0].axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.75, 0.25], [1, 0]])
    cells = [text.get_text() for text in axes.texts]
    assert cells == ["75%\n3", "25%\n1", "100%\n1", "0%\n0"]
    assert [text.get_text() for text in axes.get_yticklabels()] == [r"a\$b\$", "中"]


def test_a_confusion_matrix_of_many_classes_shows_the_most_missed(tmp_path, drawn):
    names = [f"class {number}" for number in range(40)]
    pairs = [*zip(names, names, strict=True), *((name, "other") for name in names[20:])]
    plot_confusion(pairs, tmp_path / "confusion.png")
    axes = drawn[0].axes[0]
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert len(shown) == 30 and {*names[20:]} < {*shown} and not axes.texts
    shares = axes.images[0].get_array()
    for name, row in zip(shown, shares, strict=True):  # half of these predictions aren't shown
        assert row.sum() == (0.5 if name in names[20:] else 1)


def test_curves(tmp_path, drawn):
    history = [{"step": 100, "loss": 9.0}, {"step": 200, "loss": math.nan}]
    evaluation = [{"step": 200, "f1": 0.5, "odd": 1}]
    names = ("loss", "f1", "missing")
    plot_curves(history, evaluation, names, tmp_path / "curves.png", best=200)
    loss, f1 = drawn[0].axes
    assert (loss.get_title(), f1.get_title()) == ("loss", "f1")
    assert loss.lines[0].get_xydata().shape == (2, 2)  # a loss of NaN is a gap
    assert f1.lines[0].get_xydata().tolist() == [[200, 0.5]]
    assert f1.lines[1].get_xdata() == [200, 200]
    labels = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in (loss, f1)]
    assert labels == [["training", "best version"], ["evaluation", "best version"]]
