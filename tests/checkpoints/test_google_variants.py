import json

import numpy as np
import pytest

from albert_tf.checkpoints import google_variants, names, tf_checkpoint, weights
from albert_tf.checkpoints.finder import find
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining

# The configuration of that code's albert_tiny_zh, in other sizes.
CONFIG = {
    "attention_probs_dropout_prob": 0.0,
    "directionality": "bidi",
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 20,
    "embedding_size": 6,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "max_position_embeddings": 11,
    "num_attention_heads": 5,
    "num_hidden_layers": 3,
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
    "type_vocab_size": 2,
    "vocab_size": 31,
    "ln_type": "postln",
}
BLOCK = "bert/encoder/layer_shared/"
SHAPES = {
    "bert/embeddings/word_embeddings": (31, 6),
    "bert/embeddings/word_embeddings_2": (6, 20),
    "bert/embeddings/position_embeddings": (11, 20),
    "bert/embeddings/token_type_embeddings": (2, 20),
    "bert/embeddings/LayerNorm": 20,
    **{f"{BLOCK}attention/self/{part}": (20, 20) for part in ("query", "key", "value")},
    f"{BLOCK}attention/output/dense": (20, 20),
    f"{BLOCK}attention/output/LayerNorm": 20,
    f"{BLOCK}intermediate/dense": (20, 24),
    f"{BLOCK}output/dense": (24, 20),
    f"{BLOCK}output/LayerNorm": 20,
    "bert/pooler/dense": (20, 20),
    "cls/predictions/transform/dense": (20, 20),
    "cls/predictions/transform/LayerNorm": 20,
    "cls/predictions/output_bias": (31,),
    "cls/seq_relationship/output_weights": (2, 20),
    "cls/seq_relationship/output_bias": (2,),
}


@pytest.fixture
def variables():
    generator = np.random.default_rng(7)
    drawn = {}
    for name, shape in SHAPES.items():
        if isinstance(shape, int):
            parts = {"/gamma": (shape,), "/beta": (shape,)}
        elif name.endswith(("dense", "query", "key", "value")):
            parts = {"/kernel": shape, "/bias": shape[1:]}
        else:
            parts = {"": shape}
        for part, size in parts.items():
            drawn[name + part] = (0.3 * generator.standard_normal(size)).astype("float32")
    return drawn


def layer_norm(hidden, variables, scope):
    centred = hidden - hidden.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * variables[f"{scope}/gamma"] + variables[f"{scope}/beta"]


def dense(hidden, variables, scope):
    return hidden @ variables[f"{scope}/kernel"] + variables[f"{scope}/bias"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def embed(variables, ids, types):
    """`[B, T, H]`: the words are projected, then positions and types added and normalised in H."""
    words = variables["bert/embeddings/word_embeddings"][ids]
    projected = words @ variables["bert/embeddings/word_embeddings_2"]
    positions = variables["bert/embeddings/position_embeddings"][: ids.shape[1]]
    types = variables["bert/embeddings/token_type_embeddings"][types]
    return layer_norm(projected + positions + types, variables, "bert/embeddings/LayerNorm")


def block(hidden, variables, mask):
    query, key, value = (
        dense(hidden, variables, f"{BLOCK}attention/self/{part}")
        .reshape(*hidden.shape[:2], 5, 4)
        .transpose(0, 2, 1, 3)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 1, 3, 2) / 2.0 + (1 - mask[:, None, None]) * -10000.0
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    context = exponents / exponents.sum(-1, keepdims=True) @ value
    context = context.transpose(0, 2, 1, 3).reshape(hidden.shape)
    hidden = layer_norm(
        hidden + dense(context, variables, f"{BLOCK}attention/output/dense"),
        variables,
        f"{BLOCK}attention/output/LayerNorm",
    )
    inside = gelu(dense(hidden, variables, f"{BLOCK}intermediate/dense"))
    return layer_norm(
        hidden + dense(inside, variables, f"{BLOCK}output/dense"),
        variables,
        f"{BLOCK}output/LayerNorm",
    )


def test_outputs_equal_that_code_written_out(variables, small_features, tmp_path):
    """The reference follows brightmart/albert_zh's modeling.py and run_pretraining.py, float64."""
    tf_checkpoint.write_variables(tmp_path / "albert_model.ckpt", variables)
    (tmp_path / "albert_config_tiny.json").write_text(json.dumps(CONFIG))
    found = find(tmp_path).read()
    model = AlbertForPreTraining(found.config)
    assert weights.assign(model, found.tensors, found.origin) == []
    output = model(small_features)

    wide = {name: array.astype("float64") for name, array in variables.items()}
    hidden = embed(wide, small_features["input_ids"], small_features["token_type_ids"])
    for _ in range(3):
        hidden = block(hidden, wide, small_features["attention_mask"])
    inside = gelu(dense(hidden, wide, "cls/predictions/transform/dense"))
    inside = layer_norm(inside, wide, "cls/predictions/transform/LayerNorm")
    narrow = inside @ wide["bert/embeddings/word_embeddings_2"].T
    logits = narrow @ wide["bert/embeddings/word_embeddings"].T
    logits += wide["cls/predictions/output_bias"]
    pooled = np.tanh(dense(hidden[:, 0], wide, "bert/pooler/dense"))
    order = pooled @ wide["cls/seq_relationship/output_weights"].T
    order += wide["cls/seq_relationship/output_bias"]
    np.testing.assert_allclose(output.prediction_logits, logits, atol=3e-5)
    np.testing.assert_allclose(output.sop_logits, order, atol=3e-6)


@pytest.mark.parametrize(
    "layout", ["brightmart_albert_tiny_zh", "brightmart_albert_tiny_zh_jadepeng_copy"]
)
def test_published_layouts(golden, layout):
    path = golden / "A_checkpoint_layouts" / "checkpoint_layouts.json"
    facts = json.loads(path.read_text())[layout]
    variables = {
        variable["name"]: np.zeros(variable["shape"], "float32") for variable in facts["variables"]
    }
    assert google_variants.is_albert_zh(variables)
    config, renamed = google_variants.from_albert_zh(
        AlbertConfig.from_dict(facts["config"]), variables
    )
    table = names.google(config)
    assert config.embedding_size == config.hidden_size == 312
    expected = [name for name in table if name.startswith(("bert/", "cls/pred", "cls/seq"))]
    assert sorted(renamed) == sorted(name for name in expected if "mapping_in" not in name)
    assert renamed["bert/embeddings/word_embeddings"].shape == (21128, 312)


@pytest.mark.parametrize(("rows", "width"), [(10**6, 10**6), (10**6, 20), (31, 40)])
def test_tables_whose_product_would_be_larger_than_the_model(rows, width):
    """Two tables of a few megabytes may have a product of terabytes."""
    tables = {
        "bert/embeddings/word_embeddings": np.zeros((rows, 1), "float32"),
        "bert/embeddings/word_embeddings_2": np.zeros((1, width), "float32"),
    }
    with pytest.raises(UserError, match=r"and weights \[H, H\] .* Received: \("):
        google_variants.from_albert_zh(AlbertConfig.from_dict(CONFIG), tables)


def test_the_originals_are_not_of_albert_zh(small_config, google_variables):
    assert not google_variants.is_albert_zh(google_variables(small_config))


GARDEN_BLOCK = "bert/encoder/transformer/group_0/inner_group_0/attention_1/"


@pytest.mark.parametrize("prefix", ["", "albert_encoder/", "keras_layer/bert_model/"])
@pytest.mark.parametrize(
    ("theirs", "googles"),
    [
        ("word_embeddings/embeddings", "bert/embeddings/word_embeddings"),
        ("embeddings/layer_norm/gamma", "bert/embeddings/LayerNorm/gamma"),
        ("transformer/output/bias", f"{GARDEN_BLOCK[:-12]}ffn_1/intermediate/output/dense/bias"),
        ("transformer/output_layer_norm/beta", f"{GARDEN_BLOCK[:-12]}LayerNorm_1/beta"),
        ("bert/cls/predictions/output_bias/bias", "cls/predictions/output_bias"),
        ("bert/cls/predictions/transform/dense/kernel", "cls/predictions/transform/dense/kernel"),
    ],
)
def test_names_of_model_garden(prefix, theirs, googles):
    (name,) = google_variants.from_model_garden({prefix + theirs: np.ones((3, 2))})
    assert name == googles


def test_unknown_names_of_model_garden_stay():
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
    flat = (
        hidden @ found[f"{GARDEN_BLOCK}self/query/kernel"] + found[f"{GARDEN_BLOCK}self/query/bias"]
    )
    result = (
        flat @ found[f"{GARDEN_BLOCK}output/dense/kernel"]
        + found[f"{GARDEN_BLOCK}output/dense/bias"]
    )
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    assert google_variants.model_garden_heads(variables) == 5


def test_heads_of_other_variables():
    assert (
        google_variants.model_garden_heads({f"{GARDEN_BLOCK}self/query/kernel": np.ones((20, 20))})
        is None
    )
