"""The keys of configuration files: which exist, who writes them, and which mean nothing here."""

import difflib
from collections.abc import Mapping, Set
from typing import Any, Final

from albert_tf.errors import UserError

# google-research/albert writes these and reads none of them: only these values have ever meant
# anything.
GOOGLE_INERT: Final[Mapping[str, Any]] = {
    "down_scale_factor": 1,
    "gap_size": 0,
    "layers_to_keep": [],
    "net_structure_type": 0,
    "num_memory_blocks": 0,
    # Chinese models carry these over from BERT.
    "directionality": "bidi",
    "ln_type": "postln",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
# Hugging Face writes these about the run or the library; none changes what an encoder computes.
HF_BOOKKEEPING: Final = frozenset(
    """_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path
    add_cross_attention architectures attn_implementation bad_words_ids begin_suppress_tokens
    chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id diversity_penalty
    do_sample dtype early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty
    finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing is_decoder
    is_encoder_decoder language length_penalty max_length min_length no_repeat_ngram_size
    num_beam_groups num_beams num_return_sequences output_attentions output_hidden_states
    output_past output_scores prefix pruned_heads remove_invalid_values repetition_penalty
    return_dict return_dict_in_generate sep_token_id suppress_tokens task_specific_params
    temperature tf_legacy_loss tokenizer_class top_k top_p torch_dtype torchscript
    transformers_version typical_p use_bfloat16 use_cache""".split()  # noqa: SIM905 (a list would take forty lines)
)
# Keys with one value that this model implements.
FIXED: Final[Mapping[str, Any]] = {
    "model_type": "albert",
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}
# Fields that Google's files have; every other key is written by Hugging Face alone.
GOOGLE_FIELDS: Final = frozenset(
    """attention_probs_dropout_prob embedding_size hidden_act hidden_dropout_prob hidden_size
    initializer_range inner_group_num intermediate_size max_position_embeddings
    num_attention_heads num_hidden_groups num_hidden_layers type_vocab_size
    vocab_size""".split()  # noqa: SIM905
)
LABEL_KEYS: Final = frozenset({"id2label", "label2id", "num_labels"})
OWN_KEYS: Final = frozenset({"shared_groups"})  # this project's, beside fields of its own


def is_googles(values: Mapping[str, Any]) -> bool:
    """Whether a file is Google's: it has no key that only Hugging Face writes."""
    return values.keys() <= GOOGLE_FIELDS | GOOGLE_INERT.keys()


def check_keys(values: Mapping[str, Any], fields: Set[str]) -> None:
    """Refuses keys and values that no ALBERT configuration has.

    Args:
        values: the content of a file.
        fields: the names of `AlbertConfig`'s fields.
    Raises:
        UserError: a value that is always another, or an unknown key (the nearest one is named).
    """
    for fixed in (FIXED, GOOGLE_INERT):
        for key, only in fixed.items():
            if key in values and values[key] != only:
                raise UserError(
                    f"{key} must be {only!r} in an ALBERT configuration. Received: {values[key]!r}."
                )
    known = fields | HF_BOOKKEEPING | FIXED.keys() | GOOGLE_INERT.keys() | LABEL_KEYS | OWN_KEYS
    for key in values.keys() - known:
        nearest = difflib.get_close_matches(key, known, n=1)
        hint = f"Did you mean {nearest[0]!r}?" if nearest else "Remove it if it means nothing here."
        raise UserError(f"Every key of a configuration must be known. Received: {key!r}. {hint}")
