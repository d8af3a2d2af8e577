"""Runs of `fit` with `Resume` that are drawn at random and end early; see `make test-faults`."""

import os

import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from tests.training.resuming import Trial

TRIALS = int(os.environ.get("ALBERT_TF_TRIALS", "200"))


@pytest.mark.faults
@pytest.mark.parametrize("number", range(10, 10 + TRIALS))
def test_many_runs(number, without_graphs, tiny_vocabulary, tmp_path):
    tokenizer = AlbertTokenizer(tiny_vocabulary)
    Trial(f"{os.environ['ALBERT_TF_SEED']} {number}", tokenizer).check(tmp_path)
