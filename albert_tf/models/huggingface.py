"""Arguments and methods of transformers' models, and what replaces them here."""

from typing import Final

_QUANTIZE: Final = "Call model.quantize('int8')."
_TUPLES: Final = "Use outputs.to_tuple(), or outputs[0]."
_IN_CALLS: Final = "Pass it to each call: model(inputs, {}=True)."
# transformers' arguments that are accepted with their no-op value only: that value, and what to do
# instead.
CALL: Final = {
    "return_dict": (True, _TUPLES),
    "head_mask": (None, "Single heads can't be masked."),
    "train": (False, "Pass training=True."),
    "params": (None, "A model has its weights: call load_weights, or assign them."),
    "dropout_rng": (None, "Call keras.utils.set_random_seed(seed) before the model is made."),
}
LOADING: Final = {
    "return_dict": (True, _TUPLES),
    "output_attentions": (False, _IN_CALLS.format("output_attentions")),
    "output_hidden_states": (False, _IN_CALLS.format("output_hidden_states")),
    "torch_dtype": (None, "Pass dtype='mixed_float16', or another policy of Keras."),
    "attn_implementation": (None, "There is one implementation of attention."),
    "device_map": (None, "Load the model within keras.device(name)."),
    "quantization_config": (None, _QUANTIZE),
    "load_in_8bit": (False, _QUANTIZE),
    "load_in_4bit": (False, _QUANTIZE),
    "trust_remote_code": (False, "No code is loaded."),
    "output_loading_info": (False, "Read model.newly_initialized."),
    "variant": (None, "Rename the file to model.safetensors."),
    "state_dict": (None, "Make the model by AlbertModel(config), and call load_weights."),
}
SAVING: Final = {
    "safe_serialization": (True, "It writes model.safetensors."),
    "saved_model": (False, "Call albert_tf.export_saved_model(model, folder)."),
    "is_main_process": (True, "Call it in the main process only."),
    "state_dict": (None, "It writes the model's own weights."),
    "variant": (None, "It writes model.safetensors."),
}
# Options of transformers' `from_pretrained` and `save_pretrained` that may have any value.
WITHOUT_EFFECT: Final = frozenset(
    ("from_pt", "from_tf", "from_flax", "use_safetensors", "weights_only", "low_cpu_mem_usage")
    + ("max_shard_size", "save_function", "save_peft_format", "signatures", "version")
)
_ON_DEVICE: Final = "Make the model within keras.device(name)."
_POLICY: Final = "Load the model with from_pretrained(name, dtype='mixed_float16')."
_TRAINING: Final = "Pass training=True or training=False to each call."
_WEIGHTS: Final = "Read model.weights, or call model.get_weights() and model.set_weights(values)."
_TABLE: Final = "The word table is model.get_input_embeddings().weight."
_MASK: Final = "Pass attention_mask, [B, T] or [B, T, T], to each call."
_BIAS: Final = "The bias of the masked-word head is model.predictions.bias."
# Methods of transformers' models, and what to write instead. Some exist on torch.
METHODS: Final = {
    "prune_heads": "All layers have all heads. model.with_depth(n) removes whole layers.",
    "set_input_embeddings": f"{_TABLE} Call assign(values) on it.",
    "get_output_embeddings": f"{_TABLE} The masked-word head uses it too.",
    "set_output_embeddings": f"{_TABLE} Call assign(values) on it.",
    "get_lm_head": "The masked-word head is model.predictions.",
    "get_output_layer_with_bias": "The masked-word head is model.predictions.",
    "get_prefix_bias_name": _BIAS,
    "get_bias": _BIAS,
    "set_bias": _BIAS,
    "tie_weights": "The masked-word head always uses the word table.",
    "init_weights": "The constructor initializes all weights: AlbertModel(config).",
    "post_init": "The constructor initializes all weights: AlbertModel(config).",
    "get_position_embeddings": "The table is model.albert.embedding.position_embeddings.",
    "resize_position_embeddings": "Make the model with config.replace(max_position_embeddings=n).",
    "to": _ON_DEVICE,
    "cuda": _ON_DEVICE,
    "cpu": _ON_DEVICE,
    "half": _POLICY,
    "float": "Load the model with from_pretrained(name, dtype='float32').",
    "eval": _TRAINING,
    "train": _TRAINING,
    "forward": "Write model(inputs).",
    "generate": "ALBERT generates no text. Write pipeline('fill-mask', model) for masked words.",
    "state_dict": _WEIGHTS,
    "load_state_dict": _WEIGHTS,
    "parameters": _WEIGHTS,
    "named_parameters": _WEIGHTS,
    "prepare_tf_dataset": "Write model.fit(texts, labels), or use AlbertPreprocessor in tf.data.",
    "hf_compute_loss": "Write model(inputs, labels=labels).loss.",
    "serving": "Write albert_tf.export_saved_model(model, folder).",
    "create_model_card": "model.push_to_hub(repo_id) writes one.",
    "get_memory_footprint": "Multiply model.num_parameters() by the size of a weight in bytes.",
    "get_head_mask": "Single heads can't be masked.",
    "get_extended_attention_mask": _MASK,
    "invert_attention_mask": _MASK,
    "set_attn_implementation": "There is one implementation of attention.",
    "estimate_tokens": "Read inputs['input_ids'].size.",
    "floating_point_ops": "Run albert-tf sizes --model folder.",
    "enable_input_require_grads": "Set layer.trainable = True or False.",
    "disable_input_require_grads": "Set layer.trainable = True or False.",
    "add_adapter": "Call layer.enable_lora(rank) of Keras.",
    "load_adapter": "Call layer.enable_lora(rank) of Keras.",
    "add_model_tags": "Edit README.md in the model's folder.",
    "register_for_auto_class": "Import the class from its own module.",
}
