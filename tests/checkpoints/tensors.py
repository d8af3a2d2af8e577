"""Random weights under the names of Hugging Face, Google, and Model Garden."""

import numpy as np

from albert_tf.checkpoints import names

BLOCK = "bert/encoder/transformer/group_0/inner_group_0/"
GARDEN = {  # tensorflow/models, official/nlp/modeling/networks/albert_encoder.py
    "bert/embeddings/word_embeddings": "word_embeddings/embeddings",
    "bert/embeddings/position_embeddings": "position_embedding/embeddings",
    "bert/embeddings/token_type_embeddings": "type_embeddings/embeddings",
    "bert/embeddings/LayerNorm": "embeddings/layer_norm",
    "bert/encoder/embedding_hidden_mapping_in": "embedding_projection",
    f"{BLOCK}attention_1/self": "transformer/self_attention",
    f"{BLOCK}attention_1/output/dense": "transformer/self_attention/attention_output",
    f"{BLOCK}LayerNorm": "transformer/self_attention_layer_norm",
    f"{BLOCK}ffn_1/intermediate/dense": "transformer/intermediate",
    f"{BLOCK}ffn_1/intermediate/output/dense": "transformer/output",
    f"{BLOCK}LayerNorm_1": "transformer/output_layer_norm",
    "bert/pooler/dense": "pooler_transform",
    "cls/predictions/output_bias": "bert/cls/predictions/output_bias/bias",
    "cls/predictions/transform": "bert/cls/predictions/transform",
}


def draw(config, *heads):
    """Returns weights of the encoder, the pooler, and these heads in `names.HEADS`."""
    generator = np.random.default_rng(6)
    drawn = {}
    for name, shape in names.shapes(config).items():
        if name.split(".")[0] in ("embeddings", "encoder", "pooler", *heads):
            shape = [config.num_labels if size is None else size for size in shape]
            drawn[name] = generator.standard_normal(shape, "float32")
    return drawn


def google_variables(config, *heads):
    """Returns random weights under the names in `names.google`, as in the golden checkpoints."""
    drawn = draw(config, *heads)
    variables = {
        variable: drawn[name].T if transposed else drawn[name]
        for variable, (name, transposed) in names.google(config).items()
        if name in drawn
    }
    if config.embedding_size == config.hidden_size:
        variables = {name: array for name, array in variables.items() if "mapping_in" not in name}
    return variables


def garden_variables(config, variables):
    """Renames Google's variables to Model Garden's, and splits H into heads as it does."""
    heads = (config.num_attention_heads, config.hidden_size // config.num_attention_heads)
    renamed = {}
    for name, array in variables.items():
        (part,) = (part for part in GARDEN if f"{name}/".startswith(f"{part}/"))
        if "attention_1/self" in part:
            array = array.reshape(*array.shape[:-1], *heads)
        elif name.endswith("attention_1/output/dense/kernel"):
            array = array.reshape(*heads, -1)
        renamed[name.replace(part, GARDEN[part], 1)] = array
    return renamed


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)
