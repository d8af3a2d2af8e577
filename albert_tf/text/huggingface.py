"""Arguments and methods of transformers tokenizers, and what replaces them here."""

import os
from collections.abc import Collection, Mapping
from typing import Any, Final

from albert_tf.options import without_foreign

# transformers arguments that have no effect here: the accepted value, and what to do instead.
FROM_PRETRAINED: Final = {"trust_remote_code": (False, "No code is loaded.")}
SAVE_PRETRAINED: Final = {
    "legacy_format": (None, "Every version of transformers can read the files. Drop the option."),
    "filename_prefix": (None, "Call save_vocabulary(folder, filename_prefix)."),
    "push_to_hub": (False, "Call push_to_hub(repo_id)."),
}
_FIXED: Final = "The built-in special tokens are fixed. Add other tokens with add_special_tokens."
SENTENCEPIECE_ARGUMENTS: Final = {
    "remove_space": (True, "The vocabulary always collapses white space."),
    "add_prefix_space": (True, "The vocabulary always adds a space before a text."),
    "trim_offsets": (True, "Offsets never include the white space around a token."),
    "sp_model_kwargs": ({}, "Sampling of segmentations isn't supported."),
    "tokenizer_file": (None, "Pass spiece.model as vocab_file."),
    "vocab": (None, "Pass spiece.model as vocab_file."),
    "additional_special_tokens": (None, "Call add_special_tokens on the new tokenizer."),
    "unk_token": ("<unk>", _FIXED),
    "pad_token": ("<pad>", _FIXED),
    "mask_token": ("[MASK]", _FIXED),
    **dict.fromkeys(("cls_token", "bos_token"), ("[CLS]", _FIXED)),
    **dict.fromkeys(("sep_token", "eos_token"), ("[SEP]", _FIXED)),
}
WORDPIECE_ARGUMENTS: Final = {
    "do_basic_tokenize": (True, "Texts are always split at white space and punctuation."),
    "never_split": (None, "Add tokens to the vocabulary with add_tokens."),
    "tokenizer_file": (None, "Pass vocab.txt as vocab_file."),
    "vocab": (None, "Pass vocab.txt as vocab_file."),
}
# transformers arguments that are accepted with any value and ignored.
_WITHOUT_EFFECT: Final = frozenset({"clean_up_tokenization_spaces", "name_or_path", "use_fast"})
_NO_CHAT: Final = (
    "ALBERT doesn't generate text. Join the messages into one text, and call tokenizer(text)."
)

# transformers methods, and what to write instead.
TOKENIZER_METHODS: Final = {
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
    "preprocess_text": "The vocabulary already normalizes texts. Call tokenizer(text).",
    "prepare_for_tokenization": "The vocabulary already normalizes texts. Call tokenizer(text).",
    "clean_up_tokenization": "Call decode(ids); the vocabulary determines the spaces.",
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


def own_arguments(
    arguments: Mapping[str, Any],
    foreign: Mapping[str, tuple[Any, str]],
    known: Collection[str],
) -> dict[str, Any]:
    """Drops constructor arguments that have no effect here.

    Args:
        arguments: values keyed by name.
        foreign: the accepted value of each transformers argument; see `without_foreign`.
        known: names of the tokenizer's own arguments.
    Raises:
        UserError: a transformers argument has a value other than the accepted one.
        TypeError: an argument is unknown.
    """
    own = without_foreign(arguments, foreign)
    own = {name: value for name, value in own.items() if name not in _WITHOUT_EFFECT}
    if unknown := sorted(own.keys() - known):
        raise TypeError(
            f"Unknown tokenizer option {', '.join(unknown)}. The options are {', '.join(known)}."
        )
    return own


def path_of(vocabulary: Any) -> str | None:
    """Returns the path of a vocabulary, or None if it was passed as bytes."""
    return None if isinstance(vocabulary, bytes) else os.fspath(vocabulary)
