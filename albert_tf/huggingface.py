"""Names, arguments, and methods of other libraries that albert_tf lacks, and what to use instead.

For each argument, a table contains the only accepted value (the default in transformers) and what
to do instead of passing a different value; see `options.without_foreign`. For methods and
attributes, see `options.without_methods`.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

from albert_tf.options import without_foreign

Foreign: TypeAlias = Mapping[str, tuple[Any, str]]

# Names in transformers (without the prefixes TF and Flax), KerasHub, and Model Garden.
NAMES: Final = {
    name: way_out
    for names, way_out in (
        ("AlbertPreTrainedModel PreTrainedModel", "Subclass AlbertModel or a model with a head."),
        ("AlbertMainLayer", "Use AlbertModel. In a model with a head, it is model.albert."),
        ("AlbertEncoder AlbertTransformer", "Use AlbertModel. Its encoder is model.encoder."),
        ("AlbertLayerGroup AlbertLayer AlbertAttention", "Use AlbertModel(config).encoder.blocks."),
        ("AlbertEmbeddings", "Use AlbertModel(config).embedding."),
        ("PretrainedConfig PreTrainedConfig", "Use AlbertConfig."),
        ("PreTrainedTokenizer", "Use AlbertTokenizer."),
        ("Trainer TrainingArguments", "Call model.compile() and model.fit(texts, labels)."),
        (
            "create_optimizer AdamWeightDecay WarmUp",
            "Call model.compile(), or use AlbertAdamW with WarmupPolynomialDecay.",
        ),
        (
            "DataCollatorWithPadding DataCollatorForTokenClassification DefaultDataCollator "
            "default_data_collator",
            "Call model.fit(texts, labels), which pads each batch.",
        ),
        (
            "DataCollatorForLanguageModeling DataCollatorForWholeWordMask",
            "Call build_data, then pretraining_batches, which masks tokens.",
        ),
        ("set_seed enable_full_determinism", "Call keras.utils.set_random_seed(seed)."),
        ("PushToHubCallback", "Call model.push_to_hub(repo_id) after model.fit."),
        ("KerasMetricCallback", "Pass metrics to model.compile."),
        (
            "FeatureExtractionPipeline FillMaskPipeline QuestionAnsweringPipeline "
            "TextClassificationPipeline TokenClassificationPipeline ZeroShotClassificationPipeline",
            "Call pipeline(task, model).",
        ),
        ("AlbertBackbone", "Use AlbertModel."),
        (
            "AlbertTextClassifier AlbertClassifier BertClassifier",
            "Use AlbertForSequenceClassification.",
        ),
        ("AlbertMaskedLM", "Use AlbertForMaskedLM."),
        ("BertSpanLabeler", "Use AlbertForQuestionAnswering."),
        ("BertTokenClassifier", "Use AlbertForTokenClassification."),
        (
            "AlbertTextClassifierPreprocessor",
            "Use AlbertTokenizer, or AlbertPreprocessor(tokenizer, max_length) in graphs.",
        ),
        ("AlbertMaskedLMPreprocessor", "Call build_data, then pretraining_batches."),
    )
    for name in names.split()
}
# KerasHub's presets, and the same models on the Hub.
PRESETS: Final = {
    f"albert_{size.replace('x', 'extra_')}_en_uncased": f"albert/albert-{size}-v2"
    for size in ("base", "large", "xlarge", "xxlarge")
}
# Arguments of KerasHub's backbone, and the corresponding fields of `AlbertConfig`.
KERAS_HUB_FIELDS: Final = {
    "vocabulary_size": "vocab_size",
    "embedding_dim": "embedding_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_groups": "num_hidden_groups",
    "num_inner_repetitions": "inner_group_num",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
}
KERAS_HUB: Final[Foreign] = {
    "num_classes": (None, "Pass num_labels."),
    "activation": (None, "The outputs are logits. Call model.probabilities(logits)."),
    **{theirs: (None, f"Pass {ours}.") for theirs, ours in KERAS_HUB_FIELDS.items()},
}

_IN_CALLS: Final = "Pass it to each call: model(inputs, {}=True)."
_ENCODER: Final = "ALBERT is a bidirectional encoder."
_QUANTIZE: Final = "Call model.quantize('int8')."
_ON_DEVICE: Final = "Create and call the pipeline in a scope such as keras.device('cpu:0')."
_BY_NAME: Final = "Pass a model instead of a name: from_pretrained(name, {})."
_NO_CODE: Final = "Code is never loaded from a repository."
_FIXED: Final = "The built-in special tokens are fixed. Add other tokens with add_special_tokens."

_OUTPUTS: Final[Foreign] = {
    "return_dict": (True, "Call outputs.to_tuple(), or read outputs[0]."),
    **{
        name: (False, _IN_CALLS.format(name))
        for name in ("output_attentions", "output_hidden_states")
    },
}
CONFIG: Final[Foreign] = {
    **_OUTPUTS,
    "torchscript": (False, "Export the model with albert_tf.export_saved_model."),
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "add_cross_attention"), (False, _ENCODER)),
    "pruned_heads": ({}, "Pruned heads aren't supported. Use the unpruned checkpoint."),
}
MODEL_CALL: Final[Foreign] = {
    "return_dict": _OUTPUTS["return_dict"],
    "head_mask": (None, "Attention heads can't be masked."),
    "train": (False, "Pass training=True."),
    "params": (None, "A model stores its own weights. Call load_weights."),
    "dropout_rng": (None, "Call keras.utils.set_random_seed(seed) before creating the model."),
}
MODEL_LOADING: Final[Foreign] = {
    **_OUTPUTS,
    "torch_dtype": (None, "Pass dtype='mixed_float16', or another Keras policy."),
    "attn_implementation": (None, "There is only one attention implementation."),
    "device_map": (None, "Load the model within keras.device(name)."),
    "quantization_config": (None, _QUANTIZE),
    "load_in_8bit": (False, _QUANTIZE),
    "load_in_4bit": (False, _QUANTIZE),
    "trust_remote_code": (False, _NO_CODE),
    "output_loading_info": (False, "Read model.newly_initialized."),
    "variant": (None, "Rename the file to model.safetensors."),
    "state_dict": (None, "Create the model with AlbertModel(config), then call load_weights."),
}
MODEL_SAVING: Final[Foreign] = {
    "safe_serialization": (True, "save_pretrained always writes model.safetensors."),
    "saved_model": (False, "Call albert_tf.export_saved_model(model, folder)."),
    "is_main_process": (True, "Call save_pretrained only in the main process."),
    "state_dict": (None, "save_pretrained always writes the model's weights."),
    "variant": (None, "save_pretrained always writes model.safetensors."),
}
TOKENIZER_LOADING: Final[Foreign] = {"trust_remote_code": (False, _NO_CODE)}
TOKENIZER_SAVING: Final[Foreign] = {
    "legacy_format": (None, "Every version of transformers can read the files. Drop the option."),
    "filename_prefix": (None, "Call save_vocabulary(folder, filename_prefix)."),
    "push_to_hub": (False, "Call push_to_hub(repo_id)."),
}
SENTENCEPIECE: Final[Foreign] = {
    "remove_space": (True, "The tokenizer always collapses whitespace."),
    "add_prefix_space": (True, "The tokenizer always adds a space before a text."),
    "trim_offsets": (True, "Offsets never include the whitespace around a token."),
    "sp_model_kwargs": ({}, "Segmentations can't be sampled."),
    **dict.fromkeys(("tokenizer_file", "vocab"), (None, "Pass spiece.model as vocab_file.")),
    "additional_special_tokens": (None, "Call add_special_tokens on the new tokenizer."),
    "unk_token": ("<unk>", _FIXED),
    "pad_token": ("<pad>", _FIXED),
    "mask_token": ("[MASK]", _FIXED),
    **dict.fromkeys(("cls_token", "bos_token"), ("[CLS]", _FIXED)),
    **dict.fromkeys(("sep_token", "eos_token"), ("[SEP]", _FIXED)),
}
WORDPIECE: Final[Foreign] = {
    "do_basic_tokenize": (True, "Texts are always split at whitespace and punctuation."),
    "never_split": (None, "Add tokens to the vocabulary with add_tokens."),
    **dict.fromkeys(("tokenizer_file", "vocab"), (None, "Pass vocab.txt as vocab_file.")),
}
PIPELINE: Final[Foreign] = {
    **dict.fromkeys(("device", "device_map"), (None, _ON_DEVICE)),
    **dict.fromkeys(("dtype", "torch_dtype"), (None, _BY_NAME.format("dtype='mixed_float16'"))),
    "model_kwargs": (None, _BY_NAME.format("**options")),
}
# Options that are accepted with any value but have no effect.
IGNORED_BY_MODELS: Final = frozenset(
    ("from_pt", "from_tf", "from_flax", "use_safetensors", "weights_only", "low_cpu_mem_usage")
    + ("max_shard_size", "save_function", "save_peft_format", "signatures", "version")
)
IGNORED_BY_TOKENIZERS: Final = frozenset(
    {"clean_up_tokenization_spaces", "name_or_path", "use_fast"}
)
IGNORED_BY_PIPELINES: Final = frozenset({"use_fast", "num_workers", "padding"})

# Methods, and attributes, which begin with a period.
_BACKBONE: Final = "Use model.albert, or the AlbertModel itself."
_TABLE: Final = "The word embedding matrix is model.get_input_embeddings().weight."
MODEL_METHODS: Final = {
    **dict.fromkeys((".base_model", ".backbone"), _BACKBONE),
    ".device": "Keras moves inputs to the device of the weights. To choose it, create the model "
    "within keras.device(name).",
    ".dummy_inputs": "The constructor already builds the model.",
    **dict.fromkeys((".num_labels", ".num_classes"), "Use model.config.num_labels."),
    ".preprocessor": "Use model.tokenizer, or AlbertPreprocessor(model.tokenizer, max_length).",
    "from_preset": "Call from_pretrained(name), which also reads preset folders.",
    "save_to_preset": "Call save_pretrained(folder).",
    "prune_heads": "Attention heads can't be removed. model.with_depth(n) removes layers.",
    **dict.fromkeys(
        ("set_input_embeddings", "set_output_embeddings"), f"{_TABLE} Call assign(values) on it."
    ),
    "get_output_embeddings": f"{_TABLE} The masked-LM head uses it too.",
    **dict.fromkeys(
        ("get_lm_head", "get_output_layer_with_bias"),
        "The masked-LM head is model.predictions.",
    ),
    **dict.fromkeys(
        ("get_prefix_bias_name", "get_bias", "set_bias"),
        "The bias of the masked-LM head is model.predictions.bias.",
    ),
    "tie_weights": "The masked-LM head always uses the word embedding matrix.",
    **dict.fromkeys(
        ("init_weights", "post_init"),
        "To initialize all weights, call the constructor: AlbertModel(config).",
    ),
    "get_position_embeddings": "Use model.albert.embedding.position_embeddings.",
    "resize_position_embeddings": "Create a model with config.replace(max_position_embeddings=n).",
    **dict.fromkeys(("to", "cuda", "cpu"), "Create the model within keras.device(name)."),
    "half": "Load the model with from_pretrained(name, dtype='mixed_float16').",
    "float": "Load the model with from_pretrained(name, dtype='float32').",
    **dict.fromkeys(("eval", "train"), "Pass training=True or training=False to each call."),
    "forward": "Call model(inputs).",
    "generate": "ALBERT doesn't generate text. pipeline('fill-mask', model) fills in words.",
    **dict.fromkeys(
        ("state_dict", "load_state_dict", "parameters", "named_parameters"),
        "Read model.weights, or call model.get_weights() and model.set_weights(values).",
    ),
    "prepare_tf_dataset": "Call model.fit(texts, labels), or use AlbertPreprocessor in tf.data.",
    "hf_compute_loss": "Use model(inputs, labels=labels).loss.",
    "serving": "Call albert_tf.export_saved_model(model, folder).",
    "create_model_card": "model.push_to_hub(repo_id) adds one.",
    "get_memory_footprint": "Multiply model.num_parameters() by the size of a weight in bytes.",
    "get_head_mask": "Attention heads can't be masked.",
    **dict.fromkeys(
        ("get_extended_attention_mask", "invert_attention_mask"),
        "Pass attention_mask, [B, T] or [B, T, T], to each call.",
    ),
    "set_attn_implementation": "There is only one attention implementation.",
    "estimate_tokens": "Use inputs['input_ids'].size.",
    "floating_point_ops": "Run albert-tf sizes --model folder.",
    **dict.fromkeys(
        ("enable_input_require_grads", "disable_input_require_grads"),
        "Set layer.trainable = True or False.",
    ),
    **dict.fromkeys(
        ("add_adapter", "load_adapter", "enable_lora"), "Call layer.enable_lora(rank)."
    ),
    "add_model_tags": "Edit README.md in the model's folder.",
    "register_for_auto_class": "Import the class from its own module.",
}
_NO_CHAT: Final = (
    "ALBERT doesn't generate text. Join the messages into one text, and call tokenizer(text)."
)
TOKENIZER_METHODS: Final = {
    ".sp_model": "Call tokenize(text), or pass model_proto=tokenizer.model_bytes to "
    "sentencepiece.SentencePieceProcessor.",
    "from_preset": "Call from_pretrained(name), which also reads preset folders.",
    "save_to_preset": "Call save_pretrained(folder).",
    "encode_plus": "Call tokenizer(text, text_pair).",
    "batch_encode_plus": "Call tokenizer(texts), or tokenizer([(text, text_pair), …]).",
    "prepare_for_model": "Call tokenizer(text, text_pair) for texts, or "
    "build_inputs_with_special_tokens(ids, pair_ids) for ids.",
    "truncate_sequences": "Call tokenizer(text, truncation=True, max_length=…).",
    "prepare_seq2seq_batch": "ALBERT doesn't generate text. Call tokenizer(texts).",
    "as_target_tokenizer": "ALBERT doesn't generate text. Call tokenizer(texts).",
    "apply_chat_template": _NO_CHAT,
    "get_chat_template": _NO_CHAT,
    "encode_message_with_chat_template": _NO_CHAT,
    "train_new_from_iterator": "Call albert_tf.train_vocabulary(texts, vocab_size).",
    "preprocess_text": "The tokenizer already normalizes texts. Call tokenizer(text).",
    "prepare_for_tokenization": "The tokenizer already normalizes texts. Call tokenizer(text).",
    "clean_up_tokenization": "Call decode(ids). The tokens determine the spaces.",
    "set_truncation_and_padding": "Pass truncation and padding to each call.",
    "sanitize_special_tokens": "Special tokens are always part of the vocabulary.",
    "register_for_auto_class": "Import the class from its own module.",
}
ENCODING_METHODS: Final = {
    "tokens": "Call tokenizer.convert_ids_to_tokens(ids).",
    "words": "Call encoding.word_ids(batch_index).",
    "convert_to_tensors": "Pass return_tensors to the tokenizer.",
    "to": "Keras moves arrays to the model's device: call model(encoding).",
}


def own_options(
    options: Mapping[str, Any], foreign: Foreign, ignored: Collection[str] = ()
) -> dict[str, Any]:
    """Drops options in `ignored`, and options in `foreign` that have the accepted value."""
    options = {name: value for name, value in options.items() if name not in ignored}
    return without_foreign(options, foreign)
