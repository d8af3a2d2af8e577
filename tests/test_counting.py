"""Formulas agree with models."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from albert_tf import counting, models
from albert_tf.config import SHARING, AlbertConfig


@pytest.fixture
def config():
    return AlbertConfig(
        vocab_size=70,
        embedding_size=24,
        hidden_size=160,
        num_hidden_layers=3,
        num_attention_heads=8,
        intermediate_size=420,
        max_position_embeddings=50,
    )


@pytest.mark.parametrize("share", SHARING)
def test_the_table_of_sharing(share):
    """docs/models.md has the parameters in millions."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "models.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| `share=\"{share}\"`.*", page, re.MULTILINE)
    sizes = [AlbertConfig.from_size(size) for size in ("base", "large", "xlarge", "xxlarge")]
    counts = [counting.parameters(size.replace(share=share)) / 1e6 for size in sizes]
    assert row.strip(" |").split(" | ")[2:] == [f"{count:,.1f}" for count in counts]


@pytest.mark.parametrize("share", SHARING)
@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 3)])
def test_a_model_has_as_many(config, share, groups, inner):
    """Every variable once, and every kernel as often as a pass applies it."""
    config = dataclasses.replace(
        config, share=share, num_hidden_groups=groups, inner_group_num=inner
    )
    model = models.AlbertModel(config)
    assert counting.parameters(config) == model.count_params()
    visited = [block for group in model.encoder.schedule for block in model.encoder.group(group)]
    layers = [model.embedding.projection, *visited, model.pooler]
    kernels = [each for layer in layers for each in layer.weights if each.name == "kernel"]
    applied = [model.embedding.word_embeddings, *kernels]
    assert counting.applied_parameters(config) == sum(np.prod(each.shape) for each in applied)


@pytest.mark.parametrize(
    ("size", "parameters", "applied"),
    [
        ("base", 11_683_584, 89e6),
        ("large", 17_683_968, 307e6),
        ("xlarge", 58_724_864, 1216e6),
        ("xxlarge", 222_595_584, 2437e6),
    ],
)
def test_published_sizes(size, parameters, applied):
    """Parameters: the released checkpoints'. Applied: the figures in the paper's notes."""
    for version in ("", "-v1", "-v2"):
        assert counting.parameters(AlbertConfig.from_size(size + version)) == parameters
    found = counting.applied_parameters(AlbertConfig.from_size(size))
    assert found == pytest.approx(applied, abs=5e5)
