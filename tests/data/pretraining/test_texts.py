"""Texts that `fit` and `evaluate` mask."""

import numpy as np
import pytest

from albert_tf import AlbertForMaskedLM
from albert_tf.data.pipeline import Batches
from albert_tf.data.pretraining.texts import MaskedTexts
from albert_tf.models.fitting import evaluation_data
from albert_tf.tasks import IGNORED

TEXTS = ["a b c d e", "the old hill", "a b " * 40, "e", "a b " * 9]
LONGEST = 400  # tokens, of which 60 may be masked


@pytest.fixture
def rows(tiny_tokenizer):
    return MaskedTexts(tiny_tokenizer, TEXTS, LONGEST)


def masks(batches):
    """Returns the ids, positions, and labels of each batch."""
    return [
        [*(features[name].numpy().tolist() for name in sorted(features)), labels.numpy().tolist()]
        for features, labels in batches
    ]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_batch_has_as_many_positions_as_its_row_with_most_masks(rows, jit_compile):
    widths = []
    for numbers in ([0, 1, 3], [2, 3], [0, 1, 2, 3, 4]):
        features, labels, _ = rows.batch(np.array(numbers), jit_compile)
        positions, labels = features["masked_lm_positions"], labels["labels"]
        counts = (labels != IGNORED).sum(axis=1)
        assert positions.shape == labels.shape
        assert labels.shape[1] == (-(-counts.max() // 8) * 8 if jit_compile else counts.max())
        widths.append(labels.shape[1])
    assert widths[0] < widths[1] == widths[2] < 0.15 * LONGEST


def test_training_masks_each_epoch_anew(rows):
    epochs = Batches(rows, 2, 5, shuffle=False).epochs()
    first, second = masks(epochs), masks(epochs)
    assert first != second and len(first) == len(second) == 3


def test_every_evaluation_has_the_same_masks(tiny_tokenizer, small_config):
    """Within a run and in separate calls, so that losses can be compared."""
    model = AlbertForMaskedLM(small_config.replace(vocab_size=len(tiny_tokenizer)))
    model.tokenizer = tiny_tokenizer
    dataset, *_ = evaluation_data(model, (TEXTS, None, None), 2, None)
    again, *_ = evaluation_data(model, (TEXTS, None, None), 2, None)
    first = masks(dataset)
    assert first == masks(dataset) == masks(again)
    # A text has the same masks for every batch size and number of steps.
    one_by_one, *_ = evaluation_data(model, (TEXTS, None, None), 1, 4)
    labels = [row for *_, rows in first for row in rows]
    for *_, (row,) in masks(one_by_one):
        assert any(row == other[: len(row)] for other in labels)
