import numpy as np
import pytest

from albert_tf.checkpoints import google_variants

BLOCK = "bert/encoder/transformer/group_0/inner_group_0/attention_1/"


@pytest.mark.parametrize("prefix", ["", "albert_encoder/", "keras_layer/bert_model/"])
@pytest.mark.parametrize(
    ("theirs", "googles"),
    [
        ("word_embeddings/embeddings", "bert/embeddings/word_embeddings"),
        ("embeddings/layer_norm/gamma", "bert/embeddings/LayerNorm/gamma"),
        ("transformer/output/bias", f"{BLOCK[:-12]}ffn_1/intermediate/output/dense/bias"),
        ("transformer/output_layer_norm/beta", f"{BLOCK[:-12]}LayerNorm_1/beta"),
        ("bert/cls/predictions/output_bias/bias", "cls/predictions/output_bias"),
        ("bert/cls/predictions/transform/dense/kernel", "cls/predictions/transform/dense/kernel"),
    ],
)
def test_names(prefix, theirs, googles):
    (name,) = google_variants.from_model_garden({prefix + theirs: np.ones((3, 2))})
    assert name == googles


def test_unknown_names_stay():
    given = {"transformer/layer_0/output/bias": np.ones(3), "pooler/extra": np.ones(2)}
    assert google_variants.from_model_garden(given) == given


@pytest.mark.parametrize("output", ["self_attention/attention_output", "self_attention_output"])
def test_kernels_by_head_give_the_same_attention(output):
    """Model Garden's layers are einsums over heads; Google's, products of matrices."""
    generator = np.random.default_rng(2)
    hidden = generator.standard_normal((2, 7, 20))
    scope = "transformer/self_attention/"
    variables = {
        f"{scope}query/kernel": generator.standard_normal((20, 5, 4)),
        f"{scope}query/bias": generator.standard_normal((5, 4)),
        f"transformer/{output}/kernel": generator.standard_normal((5, 4, 20)),
        f"transformer/{output}/bias": generator.standard_normal(20),
    }
    query_kernel, query_bias, kernel, bias = variables.values()
    query = np.einsum("BTH,HAD->BTAD", hidden, query_kernel) + query_bias
    expected = np.einsum("BTAD,ADH->BTH", query, kernel) + bias

    found = google_variants.from_model_garden(variables)
    flat = hidden @ found[f"{BLOCK}self/query/kernel"] + found[f"{BLOCK}self/query/bias"]
    result = flat @ found[f"{BLOCK}output/dense/kernel"] + found[f"{BLOCK}output/dense/bias"]
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    assert google_variants.model_garden_heads(variables) == 5


def test_heads_of_other_variables():
    assert (
        google_variants.model_garden_heads({f"{BLOCK}self/query/kernel": np.ones((20, 20))}) is None
    )
