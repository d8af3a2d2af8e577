"""Models with random weights: the configuration of a named size, or of a file."""

import dataclasses
from pathlib import Path
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.sizes import SIZES
from albert_tf.text.base_tokenizer import BaseTokenizer


def is_size(model: str) -> bool:
    """Whether this is a named size or a configuration file, not a model with weights."""
    return model in SIZES or (model.endswith(".json") and not Path(model).is_dir())


def size_config(size: str, tokenizer: BaseTokenizer, **changes: Any) -> AlbertConfig:
    """The configuration of a name, with the vocabulary's size and ids, or of a JSON file.

    Args:
        **changes: fields to set otherwise.
    Raises:
        UserError: there is no such size, or file; or it isn't one of ALBERT.
    """
    if size in SIZES:
        ids = {
            "vocab_size": tokenizer.vocab_size,
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.cls_token_id,
            "eos_token_id": tokenizer.sep_token_id,
        }
        return AlbertConfig.from_size(size, **{**ids, **changes})
    if not Path(size).is_file():
        raise UserError(
            f"A size must be one of {', '.join(SIZES)}, or a configuration file (JSON). "
            f"Received: {size!r}."
        )
    return dataclasses.replace(AlbertConfig.from_json_file(size), **changes)
