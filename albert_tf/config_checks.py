"""The keys of configuration files, and the values that a configuration may have."""

import difflib
import logging
import math
import reprlib
from collections.abc import Callable, Mapping, Set
from numbers import Integral, Real
from typing import Any, Final

from albert_tf.errors import UserError

# google-research/albert writes these and reads none of them; no model has other values.
GOOGLE_CONSTANTS: Final[Mapping[str, Any]] = {
    "down_scale_factor": 1,
    "gap_size": 0,
    "layers_to_keep": [],
    "net_structure_type": 0,
    "num_memory_blocks": 0,
}
# Likewise, in Chinese models, which have them from BERT.
_BERT_CONSTANTS: Final[Mapping[str, Any]] = {
    "directionality": "bidi",
    "ln_type": "postln",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
# Hugging Face writes these about the run or the library; none changes what an encoder computes.
_HF_BOOKKEEPING: Final = frozenset(
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
_NO_HEADS: Final[tuple[Any, ...]] = (None, {}, [])  # of `pruned_heads`
# Keys of which ALBERT implements one value.
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
_LABEL_KEYS: Final = frozenset({"id2label", "label2id", "num_labels"})
_MOST_LABELS: Final = 1_000_000  # whose names alone take 150 MB
_SHORT: Final = reprlib.Repr()  # for values in messages
_SHORT.maxstring = _SHORT.maxother = 100
_OWN_KEYS: Final = frozenset({"shared_groups"})  # this project's, beside its fields
logger = logging.getLogger(__name__)


def is_googles(values: Mapping[str, Any]) -> bool:
    """Whether a file is Google's: it has no key that only Hugging Face writes."""
    return values.keys() <= GOOGLE_FIELDS | GOOGLE_CONSTANTS.keys() | _BERT_CONSTANTS.keys()


def check_keys(values: Mapping[str, Any], fields: Set[str]) -> None:
    """Warns of unknown keys, which another library wrote; refuses what changes a model.

    Args:
        values: the content of a file.
        fields: the names of `AlbertConfig`'s fields.
    Raises:
        UserError: another value of a constant, pruned heads, or a key that is a field's but for a
            typing error.
    """
    constants = {**FIXED, **GOOGLE_CONSTANTS, **_BERT_CONSTANTS}
    for key, only in constants.items():
        if key in values and values[key] != only:
            raise UserError(
                f"{key} must be {only!r} in an ALBERT configuration. "
                f"Received: {_SHORT.repr(values[key])}."
            )
    if values.get("pruned_heads") not in _NO_HEADS:
        raise UserError(
            "pruned_heads must be empty: all layers have all heads. "
            f"Received: {_SHORT.repr(values['pruned_heads'])}. Use the checkpoint before pruning."
        )
    known = fields | constants.keys() | _HF_BOOKKEEPING | _LABEL_KEYS | _OWN_KEYS
    unknown = sorted(values.keys() - known)
    for key in unknown:
        if nearest := difflib.get_close_matches(key, fields - values.keys(), n=1, cutoff=0.85):
            raise UserError(
                "A key of a configuration must be a field's name. "
                f"Received: {_SHORT.repr(key)}. Did you mean {nearest[0]!r}?"
            )
    if unknown:
        logger.warning(
            "A configuration's unknown keys change nothing: %s.",
            ", ".join(_SHORT.repr(key) for key in unknown[:8]) + ", …" * (len(unknown) > 8),
        )


def require(name: str, value: Any, holds: Callable[[Any], bool], rule: str) -> None:
    """Raises an error for a value that breaks its rule."""
    if not holds(value):
        raise ValueError(f"{name} must be {rule}. Received: {name}={_SHORT.repr(value)}.")


def require_count(name: str, value: Any, limit: int) -> None:
    """Raises an error for a value that isn't 1, 2, … up to a limit."""
    require(name, value, lambda value: is_integer(value) and value > 0, "a positive integer")
    require(name, value, lambda value: value <= limit, f"{limit:,} at the most")


def is_integer(value: Any) -> bool:
    """Whether a value is an int; True and False aren't."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_fraction(value: Any) -> bool:
    """Whether a value is a number in [0, 1)."""
    return _is_number(value) and 0 <= value < 1


def is_in_unit(value: Any) -> bool:
    """Whether a value is a number above 0, and 1 at the most."""
    return _is_number(value) and 0 < value <= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or is_integer(value)


def checked_numbers(name: str, values: Any) -> tuple[float, ...]:
    """Returns a sequence of finite numbers as a tuple.

    Raises:
        ValueError: it isn't one.
    """
    is_numbers = isinstance(values, list | tuple) and all(
        isinstance(value, Real) and math.isfinite(value) for value in values
    )
    require(name, values, lambda _: is_numbers, "a list of numbers")
    return tuple(float(value) for value in values)


def checked_labels(labels: Mapping[int, str]) -> dict[int, str]:
    """Returns `id2label` in order; every class must have a name, no two the same."""
    received = f"Received: {_SHORT.repr(labels)}."
    if not isinstance(labels, Mapping) or not all(map(is_integer, labels)):
        raise ValueError(f"id2label must map class numbers to names. {received}")
    ordered = {index: labels[index] for index in sorted(labels)}
    if not ordered or list(ordered) != list(range(len(ordered))):
        raise ValueError(f"id2label must name the classes 0, 1, 2, … without a gap. {received}")
    if not all(map(_is_text, ordered.values())):
        raise ValueError(f"id2label must have text as names. {received}")
    if len(set(ordered.values())) < len(ordered):
        raise ValueError(f"id2label must not name two classes alike. {received}")
    require_count("num_labels", len(ordered), _MOST_LABELS)
    return ordered


def _is_text(value: Any) -> bool:
    """Whether a value is text that UTF-8 can express: half of a surrogate pair isn't."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def read_labels(values: Mapping[str, Any]) -> dict[int, str] | None:
    """Returns a file's labels: `id2label`, or `num_labels` unnamed ones."""
    labels, count = values.get("id2label"), values.get("num_labels", values.get("_num_labels"))
    if isinstance(labels, Mapping) and all(str(index).isdigit() for index in labels):
        return {int(index): label for index, label in labels.items()}
    if labels is not None:
        received = _SHORT.repr(labels)
        raise ValueError(f"id2label must map class numbers to names. Received: {received}.")
    return None if count is None else unnamed_labels(count)


def unnamed_labels(count: int) -> dict[int, str]:
    """Returns `{0: "LABEL_0", …}`, as transformers names classes without names."""
    require_count("num_labels", count, _MOST_LABELS)
    return {index: f"LABEL_{index}" for index in range(count)}


def merged_labels(changes: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Returns `changes` with `num_labels`, `id2label` and `label2id` merged into `id2label`.

    Args:
        changes: fields to override.
        count: number of classes; `num_labels` keeps their names if it is the same.
    """
    others = dict(changes)
    number, labels = others.pop("num_labels", None), others.pop("id2label", None)
    if number is not None:
        require("num_labels", number, lambda n: isinstance(n, Integral) and int(n) > 0, "1 or more")
    numbers = others.pop("label2id", None)
    if labels is None and numbers is not None:
        labels = {index: name for name, index in numbers.items()}
    if labels is not None:
        if not isinstance(labels, Mapping):
            received = _SHORT.repr(labels)
            raise ValueError(f"id2label must map class numbers to names. Received: {received}.")
        labels = {int(index): name for index, name in labels.items()}
        if number not in (None, len(labels)):
            raise ValueError(
                "num_labels must be the number of names in id2label. "
                f"Received: num_labels={number}, id2label={_SHORT.repr(labels)}."
            )
        return {**others, "id2label": labels}
    if number not in (None, count):
        return {**others, "id2label": unnamed_labels(int(number))}
    is_removed = "id2label" in changes and number is None
    return {**others, "id2label": None} if is_removed else others
