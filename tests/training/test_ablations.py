"""The paper's comparisons, scaled down."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.models.counting import applied_parameters, parameters
from albert_tf.training.ablations import ABLATIONS, SMALL, configuration

V = 1009


def configurations(name):
    return {row.name: configuration(row, V) for row in ABLATIONS[name].rows}


@pytest.mark.parametrize("name", ABLATIONS)
def test_the_models_of_a_comparison_differ(name):
    rows = ABLATIONS[name].rows
    assert len({row.name for row in rows}) == len(rows)
    assert len({(configuration(row, V), row.pair_task) for row in rows}) == len(rows)


def test_the_small_model_has_base_s_proportions():
    base, small = AlbertConfig.from_size("base"), AlbertConfig.from_size("base", **SMALL)
    for field in ("embedding_size", "intermediate_size", "num_attention_heads"):
        assert getattr(base, field) * small.hidden_size == getattr(small, field) * base.hidden_size


def test_vocabulary_and_its_ids_are_the_records_own():
    row = ABLATIONS["depth"].rows[1]
    config = configuration(row, V, pad_token_id=4, bos_token_id=6, eos_token_id=8)
    found = (config.vocab_size, config.pad_token_id, config.bos_token_id, config.eos_token_id)
    assert found == (V, 4, 6, 8)


def test_embedding_sizes_are_the_paper_s_shares_of_the_width():
    found = [
        (each.share, each.embedding_size) for each in configurations("embedding-size").values()
    ]
    sizes = [size * SMALL["hidden_size"] // 768 for size in (64, 128, 256, 768)]
    assert found == [(share, size) for share in ("none", "all") for size in sizes]


def test_sharing_less_takes_more_parameters_and_the_same_work():
    found = configurations("sharing")
    for size in (192, 32):
        shares = [found[f"E{size}-share-{share}"] for share in ("all", "attention", "ffn", "none")]
        everything, attention, ffn, nothing = map(parameters, shares)
        assert everything < ffn < attention < nothing  # the feed-forward network is the larger part
        assert len(set(map(applied_parameters, shares))) == 1


def test_depth_takes_no_parameters():
    found = configurations("depth").values()
    assert [config.num_hidden_layers for config in found] == [1, 3, 6, 12]
    assert len(set(map(parameters, found))) == 1


def test_widths_are_in_the_paper_s_proportions():
    found = configurations("width").values()
    assert {config.num_hidden_layers for config in found} == {3}
    widths = [config.hidden_size for config in found]
    assert [width * 1024 // widths[0] for width in widths] == [1024, 2048, 4096, 6144]
    for config in found:
        assert config.intermediate_size == 4 * config.hidden_size
        assert config.hidden_size // config.num_attention_heads == 32


def test_pair_tasks_and_dropout():
    assert [row.pair_task for row in ABLATIONS["pair-task"].rows] == ["none", "nsp", "sop"]
    rates = [
        (config.hidden_dropout_prob, config.attention_probs_dropout_prob)
        for config in configurations("dropout").values()
    ]
    assert rates == [(0.1, 0.1), (0.0, 0.0)]
    assert ABLATIONS["dropout"].course
