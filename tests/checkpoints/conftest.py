"""Weights under Google's names, made here."""

import numpy as np
import pytest

SHAPES = {  # google-research/albert, modeling.py; sizes by the letters of the configuration
    "bert/embeddings/word_embeddings": "VE",
    "bert/embeddings/position_embeddings": "PE",
    "bert/embeddings/token_type_embeddings": "SE",
    "bert/embeddings/LayerNorm/gamma": "E",
    "bert/embeddings/LayerNorm/beta": "E",
    "bert/encoder/embedding_hidden_mapping_in/kernel": "EH",
    "bert/encoder/embedding_hidden_mapping_in/bias": "H",
    "bert/pooler/dense/kernel": "HH",
    "bert/pooler/dense/bias": "H",
}
BLOCK = {
    **{f"attention_1/self/{part}/kernel": "HH" for part in ("query", "key", "value")},
    **{f"attention_1/self/{part}/bias": "H" for part in ("query", "key", "value")},
    "attention_1/output/dense/kernel": "HH",
    "attention_1/output/dense/bias": "H",
    "LayerNorm/gamma": "H",
    "LayerNorm/beta": "H",
    "ffn_1/intermediate/dense/kernel": "HI",
    "ffn_1/intermediate/dense/bias": "I",
    "ffn_1/intermediate/output/dense/kernel": "IH",
    "ffn_1/intermediate/output/dense/bias": "H",
    "LayerNorm_1/gamma": "H",
    "LayerNorm_1/beta": "H",
}
HEADS = {
    "pretraining": {
        "cls/predictions/transform/dense/kernel": "HE",
        "cls/predictions/transform/dense/bias": "E",
        "cls/predictions/transform/LayerNorm/gamma": "E",
        "cls/predictions/transform/LayerNorm/beta": "E",
        "cls/predictions/output_bias": "V",
        "cls/seq_relationship/output_weights": "2H",
        "cls/seq_relationship/output_bias": "2",
    },
    "classifier": {"output_weights": "CH", "output_bias": "C"},
    "squad_v1": {"cls/squad/output_weights": "2H", "cls/squad/output_bias": "2"},
    "squad_v2": {
        "start_logits/dense/kernel": "H1",
        "start_logits/dense/bias": "1",
        "end_logits/dense_0/kernel": "DH",
        "end_logits/dense_0/bias": "H",
        "end_logits/LayerNorm/gamma": "H",
        "end_logits/LayerNorm/beta": "H",
        "end_logits/dense_1/kernel": "H1",
        "end_logits/dense_1/bias": "1",
        "answer_class/dense_0/kernel": "DH",
        "answer_class/dense_0/bias": "H",
        "answer_class/dense_1/kernel": "H1",
    },
}


@pytest.fixture(scope="session")
def google_variables():
    """Returns a function that draws the variables of a model, with heads by the keys of `HEADS`."""

    def draw(config, *heads):
        sizes = {
            "1": 1,
            "2": 2,
            "V": config.vocab_size,
            "P": config.max_position_embeddings,
            "S": config.type_vocab_size,
            "E": config.embedding_size,
            "H": config.hidden_size,
            "D": 2 * config.hidden_size,
            "I": config.intermediate_size,
            "C": config.num_labels,
        }
        scopes = [
            f"bert/encoder/transformer/group_{group}/inner_group_{inner}/"
            for group in range(config.stored_groups)
            for inner in range(config.inner_group_num)
        ]
        shapes = {
            **SHAPES,
            **{scope + name: shape for scope in scopes for name, shape in BLOCK.items()},
            **{name: shape for head in heads for name, shape in HEADS[head].items()},
        }
        if config.embedding_size == config.hidden_size:
            shapes = {name: shape for name, shape in shapes.items() if "mapping_in" not in name}
        generator = np.random.default_rng(11)
        return {
            name: generator.standard_normal([sizes[letter] for letter in shape], "float32")
            for name, shape in shapes.items()
        }

    return draw


@pytest.fixture(scope="session")
def tf1_module():
    """Returns a function that saves a TF-Hub module of TensorFlow 1, with the original's names.

    As in the original's export there is a graph for training beside the one for use, and the
    variables have no scope of the module.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    heads, width = "attention_1/self/query", "ffn_1/intermediate/dense"

    def gelu(x):
        return 0.5 * x * (1 + tf.tanh(0.8 * (x + 0.044715 * tf.pow(x, 3))))

    activations = {"gelu_new": gelu, "relu": tf.nn.relu, "tanh": tf.tanh}

    def layer(hidden, config, scope):
        size = config.hidden_size // config.num_attention_heads
        with v1.variable_scope(f"{scope}/{heads}", reuse=True):
            kernel = v1.get_variable("kernel")
            kernel = tf.reshape(kernel, [config.hidden_size, config.num_attention_heads, size])
            query = tf.einsum("BFH,HND->BFND", hidden, kernel)
        scores = tf.einsum("BFND,BTND->BNFT", query, query)
        scores = tf.nn.softmax(scores, name="attention_probs")
        hidden += tf.reshape(tf.einsum("BNFT,BTND->BFND", scores, query), tf.shape(hidden))
        with v1.variable_scope(f"{scope}/{width}", reuse=True):
            inside = activations[config.hidden_act](tf.matmul(hidden, v1.get_variable("kernel")))
        return hidden + tf.reduce_mean(inside, -1, keepdims=True)

    def graph(config, variables, scope):
        for name, array in variables.items():
            v1.get_variable(scope + name, initializer=array, use_resource=False)
        hidden = v1.placeholder(tf.float32, [None, None, config.hidden_size])
        for number in range(config.num_hidden_layers):
            for inner in range(config.inner_group_num):
                name = f"{scope}bert/encoder/transformer/group_0/inner_group_{inner}"
                with tf.name_scope(f"layer_{number}"):
                    hidden = layer(hidden, config, name)
        tf.nn.log_softmax(tf.tanh(hidden[:, 0]), name="sop_log_probs")

    def save(folder, config, variables, scope=""):
        builder = v1.saved_model.Builder(str(folder))
        for tags in (["train"], []):
            with tf.Graph().as_default(), v1.Session() as session:
                graph(config, variables, scope)
                if tags:
                    tf.nn.softmax(tf.zeros(3), name="only_for_training")
                    session.run(v1.global_variables_initializer())
                    builder.add_meta_graph_and_variables(session, tags)
                else:
                    builder.add_meta_graph(tags)
        builder.save()
        (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")
        (folder / "assets").mkdir()
        (folder / "assets" / "30k-clean.model").write_bytes(b"vocabulary")
        return folder

    return save


@pytest.fixture(scope="session")
def garden_variables():
    """Returns a function that draws variables as Model Garden's `AlbertEncoder` names them."""

    def draw(config, with_mlm=False):
        hidden, width = config.hidden_size, config.embedding_size
        heads = (config.num_attention_heads, hidden // config.num_attention_heads)
        shapes = {
            "word_embeddings/embeddings": (config.vocab_size, width),
            "position_embedding/embeddings": (config.max_position_embeddings, width),
            "type_embeddings/embeddings": (config.type_vocab_size, width),
            "embeddings/layer_norm/gamma": (width,),
            "embeddings/layer_norm/beta": (width,),
            "embedding_projection/kernel": (width, hidden),
            "embedding_projection/bias": (hidden,),
            **{
                f"transformer/self_attention/{part}/{name}": shape
                for part in ("query", "key", "value")
                for name, shape in (("kernel", (hidden, *heads)), ("bias", heads))
            },
            "transformer/self_attention/attention_output/kernel": (*heads, hidden),
            "transformer/self_attention/attention_output/bias": (hidden,),
            "transformer/self_attention_layer_norm/gamma": (hidden,),
            "transformer/self_attention_layer_norm/beta": (hidden,),
            "transformer/intermediate/kernel": (hidden, config.intermediate_size),
            "transformer/intermediate/bias": (config.intermediate_size,),
            "transformer/output/kernel": (config.intermediate_size, hidden),
            "transformer/output/bias": (hidden,),
            "transformer/output_layer_norm/gamma": (hidden,),
            "transformer/output_layer_norm/beta": (hidden,),
            "pooler_transform/kernel": (hidden, hidden),
            "pooler_transform/bias": (hidden,),
        }
        if with_mlm:
            shapes |= {
                "bert/cls/predictions/output_bias/bias": (config.vocab_size,),
                "bert/cls/predictions/transform/dense/kernel": (hidden, width),
                "bert/cls/predictions/transform/dense/bias": (width,),
                "bert/cls/predictions/transform/LayerNorm/gamma": (width,),
                "bert/cls/predictions/transform/LayerNorm/beta": (width,),
            }
        generator = np.random.default_rng(13)
        return {name: generator.standard_normal(size, "float32") for name, size in shapes.items()}

    return draw


@pytest.fixture(scope="session")
def garden_module():
    """Returns a function that saves a SavedModel with functions that call each other as theirs."""
    import tensorflow as tf

    def save(folder, config, variables, approximate=True):
        module = tf.Module()
        # The checkpoint has numbers as keys, and the names are in its graph, as in published ones.
        module.kept = [tf.Variable(array, name=name) for name, array in variables.items()]
        by_name = {variable.name.removesuffix(":0"): variable for variable in module.kept}
        query = by_name["transformer/self_attention/query/kernel"]

        @tf.function
        def layer(hidden):
            scores = tf.einsum("BTH,HAD,FAD->BATF", hidden, query, query[:3])
            inside = tf.nn.gelu(hidden, approximate=approximate)
            return inside + tf.reduce_mean(tf.nn.softmax(scores))

        @tf.function(input_signature=[tf.TensorSpec([None, None, config.hidden_size])])
        def encode(hidden):
            for _ in range(config.num_hidden_layers):
                hidden = layer(hidden)
            return {"sequence_output": hidden, "pooled_output": tf.tanh(hidden[:, 0])}

        @tf.function(input_signature=encode.input_signature)
        def predict(hidden):
            inside = encode(hidden)["sequence_output"]
            return {"mlm_logits": tf.nn.gelu(inside, approximate=approximate)}

        signatures = {"serving_default": encode, "mlm": predict}
        tf.saved_model.save(module, str(folder), signatures=signatures)
        return folder

    return save
