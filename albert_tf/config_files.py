"""Converts configuration files (Hugging Face, Google, BERT) to arguments of `AlbertConfig`."""

import difflib
import logging
from collections.abc import Mapping, Set
from typing import Any, Final

from albert_tf.errors import UserError, short_repr
from albert_tf.huggingface import CONFIG, KERAS_HUB
from albert_tf.options import without_foreign

logger = logging.getLogger(__name__)

# google-research/albert writes these but never reads them. They are the same in every model.
GOOGLE_CONSTANTS: Final[Mapping[str, Any]] = {
    "down_scale_factor": 1,
    "gap_size": 0,
    "layers_to_keep": [],
    "net_structure_type": 0,
    "num_memory_blocks": 0,
}
# The same holds for these keys, which Chinese models inherit from BERT.
_BERT_CONSTANTS: Final[Mapping[str, Any]] = {
    "directionality": "bidi",
    "ln_type": "postln",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
# Default values for fields that a BERT configuration omits.
_BERT_DEFAULTS: Final[Mapping[str, Any]] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "bos_token_id": None,
    "eos_token_id": None,
}
# Hugging Face's keys about the run or the library. None affects what an encoder computes.
_BOOKKEEPING: Final = frozenset(
    """_attn_implementation _attn_implementation_autoset _commit_hash _from_auto _name_or_path
    _num_labels add_cross_attention architectures attn_implementation bad_words_ids
    begin_suppress_tokens chunk_size_feed_forward cross_attention_hidden_size
    decoder_start_token_id diversity_penalty do_sample dtype early_stopping
    encoder_no_repeat_ngram_size eos_token_ids exponential_decay_length_penalty finetuning_task
    forced_bos_token_id forced_eos_token_id gradient_checkpointing is_decoder is_encoder_decoder
    language length_penalty max_length min_length name_or_path no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_attentions output_hidden_states output_past output_scores
    prefix pruned_heads remove_invalid_values repetition_penalty return_dict
    return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature
    tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript
    transformers_version typical_p use_bfloat16 use_cache xla_device""".split()  # noqa: SIM905 (a list would take forty lines)
)
# Keys for which ALBERT supports a single value. Only the second key is a field.
FIXED: Final[Mapping[str, Any]] = {
    "model_type": "albert",
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}
_CONSTANTS: Final[Mapping[str, Any]] = {**FIXED, **GOOGLE_CONSTANTS, **_BERT_CONSTANTS}
FOREIGN: Final = CONFIG  # transformers arguments that are also attributes
# Fields in Google's files. Only Hugging Face writes other keys.
GOOGLE_FIELDS: Final = frozenset(
    """attention_probs_dropout_prob embedding_size hidden_act hidden_dropout_prob hidden_size
    initializer_range inner_group_num intermediate_size max_position_embeddings
    num_attention_heads num_hidden_groups num_hidden_layers type_vocab_size
    vocab_size""".split()  # noqa: SIM905
)
_GOOGLE: Final = GOOGLE_FIELDS | GOOGLE_CONSTANTS.keys() | _BERT_CONSTANTS.keys()
# Keys that this project and transformers write in addition to the fields.
_OTHER_KEYS: Final = frozenset({"shared_groups", "label2id", "num_labels"})


def arguments_of(config_dict: Mapping[str, Any], fields: Set[str]) -> dict[str, Any]:
    """Converts a file's content to arguments of `AlbertConfig`; see `AlbertConfig.from_dict`.

    Args:
        config_dict: the content of the file.
        fields: names of the fields of `AlbertConfig`.
    Raises:
        UserError: a key is misspelled, the file describes a different model family, or ALBERT
            doesn't support a value.
    """
    is_bert = config_dict.get("model_type") == "bert"
    values = _from_bert(config_dict) if is_bert else config_dict
    _check_keys(values, fields)
    arguments = {key: value for key, value in values.items() if key in fields}
    if values.keys() <= _GOOGLE and arguments.get("hidden_act") == "gelu":
        arguments["hidden_act"] = "gelu_new"
    for key in [key for key in arguments if key.endswith("_dropout_prob")]:
        if arguments[key] is None:  # Older transformers versions write null for the default.
            del arguments[key]
    if arguments.get("share", "all") != "all":
        arguments["num_hidden_groups"] = values.get("shared_groups", 1)
    if values.get("id2label") is None:
        arguments["num_labels"] = values.get("num_labels", values.get("_num_labels"))
    return arguments


def without_bookkeeping(arguments: Mapping[str, Any], fields: Set[str]) -> dict[str, Any]:
    """Drops transformers arguments that describe a run or a library, not a model."""
    arguments = without_foreign(arguments, {**FOREIGN, **KERAS_HUB})
    _check_constants(arguments)
    dropped = _BOOKKEEPING | _CONSTANTS.keys() - fields
    return {name: value for name, value in arguments.items() if name not in dropped}


def _from_bert(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a BERT configuration to that of the equivalent ALBERT model."""
    for key in ("is_decoder", "add_cross_attention"):
        if values.get(key):
            raise UserError(
                f"{key} must be false in a BERT configuration, because every ALBERT token "
                f"attends to all others. Received: {short_repr(values[key])}."
            )
    if values.get("type_vocab_size") == 1 and values.get("pad_token_id"):
        raise UserError(
            "The configuration looks like RoBERTa's, which isn't supported. Received: "
            f"type_vocab_size=1 with pad_token_id={short_repr(values['pad_token_id'])}. Choose a "
            "BERT or ALBERT checkpoint."
        )
    fields = {**_BERT_DEFAULTS, **values, "model_type": "albert"}
    dropout = fields.pop("classifier_dropout", None)
    return {
        **fields,
        "classifier_dropout_prob": fields["hidden_dropout_prob"] if dropout is None else dropout,
        "embedding_size": fields["hidden_size"],
        "num_hidden_groups": fields["num_hidden_layers"],
    }


def _check_keys(values: Mapping[str, Any], fields: Set[str]) -> None:
    """Warns about unknown keys; rejects misspelled ones and values that ALBERT doesn't support."""
    _check_constants(values)
    if values.get("pruned_heads") not in (None, {}, []):
        raise UserError(
            f"pruned_heads must be empty. Received: {short_repr(values['pruned_heads'])}. "
            f"{FOREIGN['pruned_heads'][1]}"
        )
    unknown = sorted(values.keys() - fields - _CONSTANTS.keys() - _BOOKKEEPING - _OTHER_KEYS)
    for key in unknown:
        if nearest := difflib.get_close_matches(key, fields - values.keys(), n=1, cutoff=0.85):
            raise UserError(
                f"Unknown key {short_repr(key)} in the configuration. Did you mean {nearest[0]!r}?"
            )
    if unknown:
        logger.warning(
            "Unknown keys in the configuration are ignored: %s.",
            ", ".join(map(short_repr, unknown[:8])) + ", …" * (len(unknown) > 8),
        )


def _check_constants(values: Mapping[str, Any]) -> None:
    """Rejects values that ALBERT doesn't support."""
    for key, only in _CONSTANTS.items():
        if key in values and values[key] != only:
            raise UserError(
                f"{key} must be {only!r} in an ALBERT configuration. "
                f"Received: {short_repr(values[key])}."
            )
