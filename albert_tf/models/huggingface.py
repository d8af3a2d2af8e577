"""Arguments and methods of transformers models, and what to write instead."""

from typing import Final

_QUANTIZE: Final = "Call model.quantize('int8')."
_TUPLES: Final = "Use outputs.to_tuple(), or outputs[0]."
_IN_CALLS: Final = "Pass it to each call: model(inputs, {}=True)."
# Arguments of transformers that are accepted only with this value, and what to do instead.
CALL: Final = {
    "return_dict": (True, _TUPLES),
    "head_mask": (None, "Attention heads can't be masked."),
    "train": (False, "Pass training=True."),
    "params": (None, "A model stores its own weights. Call load_weights, or assign them."),
    "dropout_rng": (None, "Call keras.utils.set_random_seed(seed) before creating the model."),
}
LOADING: Final = {
    "return_dict": (True, _TUPLES),
    "output_attentions": (False, _IN_CALLS.format("output_attentions")),
    "output_hidden_states": (False, _IN_CALLS.format("output_hidden_states")),
    "torch_dtype": (None, "Pass dtype='mixed_float16', or another Keras policy."),
    "attn_implementation": (None, "There is only one attention implementation."),
    "device_map": (None, "Load the model within keras.device(name)."),
    "quantization_config": (None, _QUANTIZE),
    "load_in_8bit": (False, _QUANTIZE),
    "load_in_4bit": (False, _QUANTIZE),
    "trust_remote_code": (False, "Code is never loaded from a repository."),
    "output_loading_info": (False, "Read model.newly_initialized."),
    "variant": (None, "Rename the file to model.safetensors."),
    "state_dict": (None, "Create the model with AlbertModel(config), then call load_weights."),
}
SAVING: Final = {
    "safe_serialization": (True, "It always writes model.safetensors."),
    "saved_model": (False, "Call albert_tf.export_saved_model(model, folder)."),
    "is_main_process": (True, "Call it only in the main process."),
    "state_dict": (None, "It always writes the model's weights."),
    "variant": (None, "It always writes model.safetensors."),
}
# Options of transformers' `from_pretrained` and `save_pretrained` that are ignored.
WITHOUT_EFFECT: Final = frozenset(
    ("from_pt", "from_tf", "from_flax", "use_safetensors", "weights_only", "low_cpu_mem_usage")
    + ("max_shard_size", "save_function", "save_peft_format", "signatures", "version")
)
_ON_DEVICE: Final = "Create the model within keras.device(name)."
_POLICY: Final = "Load the model with from_pretrained(name, dtype='mixed_float16')."
_TRAINING: Final = "Pass training=True or training=False to each call."
_WEIGHTS: Final = "Read model.weights, or call model.get_weights() and model.set_weights(values)."
_TABLE: Final = "The word embedding matrix is model.get_input_embeddings().weight."
_MASK: Final = "Pass attention_mask, [B, T] or [B, T, T], to each call."
_BIAS: Final = "The bias of the masked-word head is model.predictions.bias."
# Methods of transformers models, and what to write instead. Some exist on torch.
METHODS: Final = {
    "prune_heads": "Attention heads can't be removed. model.with_depth(n) removes layers.",
    "set_input_embeddings": f"{_TABLE} Call assign(values) on it.",
    "get_output_embeddings": f"{_TABLE} The masked-word head uses it too.",
    "set_output_embeddings": f"{_TABLE} Call assign(values) on it.",
    "get_lm_head": "The masked-word head is model.predictions.",
    "get_output_layer_with_bias": "The masked-word head is model.predictions.",
    "get_prefix_bias_name": _BIAS,
    "get_bias": _BIAS,
    "set_bias": _BIAS,
    "tie_weights": "The masked-word head always uses the word embedding matrix.",
    "init_weights": "To initialize all weights, call the constructor: AlbertModel(config).",
    "post_init": "To initialize all weights, call the constructor: AlbertModel(config).",
    "get_position_embeddings": "Use model.albert.embedding.position_embeddings.",
    "resize_position_embeddings": "Create a model with config.replace(max_position_embeddings=n).",
    "to": _ON_DEVICE,
    "cuda": _ON_DEVICE,
    "cpu": _ON_DEVICE,
    "half": _POLICY,
    "float": "Load the model with from_pretrained(name, dtype='float32').",
    "eval": _TRAINING,
    "train": _TRAINING,
    "forward": "Call model(inputs).",
    "generate": "ALBERT doesn't generate text. pipeline('fill-mask', model) fills in words.",
    "state_dict": _WEIGHTS,
    "load_state_dict": _WEIGHTS,
    "parameters": _WEIGHTS,
    "named_parameters": _WEIGHTS,
    "prepare_tf_dataset": "Call model.fit(texts, labels), or use AlbertPreprocessor in tf.data.",
    "hf_compute_loss": "Use model(inputs, labels=labels).loss.",
    "serving": "Call albert_tf.export_saved_model(model, folder).",
    "create_model_card": "model.push_to_hub(repo_id) adds one.",
    "get_memory_footprint": "Multiply model.num_parameters() by the size of a weight in bytes.",
    "get_head_mask": "Attention heads can't be masked.",
    "get_extended_attention_mask": _MASK,
    "invert_attention_mask": _MASK,
    "set_attn_implementation": "There is only one attention implementation.",
    "estimate_tokens": "Use inputs['input_ids'].size.",
    "floating_point_ops": "Run albert-tf sizes --model folder.",
    "enable_input_require_grads": "Set layer.trainable = True or False.",
    "disable_input_require_grads": "Set layer.trainable = True or False.",
    "add_adapter": "Call layer.enable_lora(rank).",
    "load_adapter": "Call layer.enable_lora(rank).",
    "add_model_tags": "Edit README.md in the model's folder.",
    "register_for_auto_class": "Import the class from its own module.",
}
