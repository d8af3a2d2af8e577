"""Writes TensorFlow Hub modules for the tests that read them."""

import tensorflow as tf

v1 = tf.compat.v1
ACTIVATIONS = {
    "gelu_new": lambda x: 0.5 * x * (1 + tf.tanh(0.8 * (x + 0.044715 * tf.pow(x, 3)))),
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
}


def save_tf1_module(folder, config, variables, scope=""):
    """Saves a module of TensorFlow 1, with the original's names of variables and operations.

    As in the original's export there is a graph for training beside the one for use, and the
    variables have no scope of the module.
    """
    builder = v1.saved_model.Builder(str(folder))
    with tf.Graph().as_default(), v1.Session() as session:
        build_graph(config, variables, scope)
        tf.nn.softmax(tf.zeros(3), name="only_for_training")
        session.run(v1.global_variables_initializer())
        builder.add_meta_graph_and_variables(session, ["train"])
    with tf.Graph().as_default():
        build_graph(config, variables, scope)
        builder.add_meta_graph([])
    builder.save()
    (folder / "assets").mkdir()
    return folder


def build_graph(config, variables, scope):
    for name, array in variables.items():
        v1.get_variable(scope + name, initializer=array, use_resource=False)
    hidden = v1.placeholder(tf.float32, [None, None, config.hidden_size])
    for number in range(config.num_hidden_layers):
        for inner in range(config.inner_group_num):
            block = f"{scope}bert/encoder/transformer/group_0/inner_group_{inner}"
            with tf.name_scope(f"layer_{number}"):
                hidden = apply_block(hidden, config, block)
    tf.nn.log_softmax(tf.tanh(hidden[:, 0]), name="sop_log_probs")


def apply_block(hidden, config, block):
    heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    with v1.variable_scope(f"{block}/attention_1/self/query", reuse=True):
        kernel = tf.reshape(v1.get_variable("kernel"), [config.hidden_size, heads, size])
        query = tf.einsum("BFH,HND->BFND", hidden, kernel)
    scores = tf.nn.softmax(tf.einsum("BFND,BTND->BNFT", query, query), name="attention_probs")
    hidden += tf.reshape(tf.einsum("BNFT,BTND->BFND", scores, query), tf.shape(hidden))
    with v1.variable_scope(f"{block}/ffn_1/intermediate/dense", reuse=True):
        inside = ACTIVATIONS[config.hidden_act](tf.matmul(hidden, v1.get_variable("kernel")))
    return hidden + tf.reduce_mean(inside, -1, keepdims=True)


def save_garden_module(folder, config, variables):
    """Saves a SavedModel with functions that call each other as Model Garden's do."""
    module = tf.Module()
    # The checkpoint has numbers as keys, and the names are in its graph, as in published ones.
    module.kept = [tf.Variable(array, name=name) for name, array in variables.items()]
    (query,) = (each for each in module.kept if each.name.endswith("query/kernel:0"))
    is_approximate = config.hidden_act == "gelu_new"

    @tf.function
    def layer(hidden):
        scores = tf.einsum("BTH,HAD,FAD->BATF", hidden, query, query[:3])
        inside = tf.nn.gelu(hidden, approximate=is_approximate)
        return inside + tf.reduce_mean(tf.nn.softmax(scores))

    @tf.function(input_signature=[tf.TensorSpec([None, None, config.hidden_size])])
    def encode(hidden):
        for _ in range(config.num_hidden_layers):
            hidden = layer(hidden)
        return {"sequence_output": hidden, "pooled_output": tf.tanh(hidden[:, 0])}

    @tf.function(input_signature=encode.input_signature)
    def predict(hidden):
        inside = encode(hidden)["sequence_output"]
        return {"mlm_logits": tf.nn.gelu(inside, approximate=is_approximate)}

    signatures = {"serving_default": encode, "mlm": predict}
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return folder
