"""Reads a WordPiece tokenizer from Hugging Face's `tokenizer.json`.

The file describes every step of a tokenizer. Only the vocabulary and the normalizer settings are
read; all other steps must be the same as in BERT. Supported versions: tokenizers 0.10 to 0.23.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.errors import UserError, short_repr
from albert_tf.files import read_json

CONTINUATION: Final = "##"  # prefix of tokens that continue a word
LONGEST_WORD: Final = 100  # characters
_NOT_IN_LINES: Final = re.compile("[\n\ud800-\udfff]")


class Normalizer(NamedTuple):
    """The settings of a BertNormalizer. `strip_accents=None` uses the value of `lowercase`."""

    lowercase: bool
    strip_accents: bool | None
    handle_chinese_chars: bool


def is_wordpiece(content: Mapping[str, Any]) -> bool:
    """Returns whether a `tokenizer.json` contains a WordPiece model. Old files lack the type."""
    model = content.get("model")
    if not isinstance(model, dict):
        return False
    return model.get("type") == "WordPiece" or (
        "type" not in model and "max_input_chars_per_word" in model
    )


def read_tokens(path: Path) -> tuple[str, ...]:
    """Returns the tokens in the order of their ids."""
    content = read_json(path)
    model = content["model"] if is_wordpiece(content) else {}
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not all(type(index) is int for index in ids.values()):
        raise _vocabulary_error(path)
    tokens = tuple(sorted(ids, key=ids.__getitem__))
    is_whole = [ids[token] for token in tokens] == list(range(len(tokens)))
    if not is_whole or _NOT_IN_LINES.search("".join(tokens)):
        raise _vocabulary_error(path)
    for name, own in (
        ("continuing_subword_prefix", CONTINUATION),
        ("max_input_chars_per_word", LONGEST_WORD),
    ):
        if model.get(name, own) != own:
            raise step_error(path, f"model.{name}", repr(own), model[name])
    return tokens


def read_normalizer(path: Path, begin: str, end: str, unknown: str) -> Normalizer:
    """Returns the normalizer settings in a file, after checking that all steps match BERT's.

    `begin` and `end` are the special tokens at the beginning and at the end of a text.
    """
    content = read_json(path)
    normalizer = _only(content.get("normalizer"), "normalizers")
    values: list[Any] = [normalizer.get(name) for name in Normalizer._fields]
    if (
        normalizer.get("type") != "BertNormalizer"
        or normalizer.get("clean_text") is not True
        or not all(isinstance(value, bool) for value in (values[0], values[1] or False, values[2]))
    ):
        rule = "a BertNormalizer with clean_text, unless you pass do_lower_case"
        raise step_error(path, "normalizer", rule, content.get("normalizer"))
    splitter = _only(content.get("pre_tokenizer"), "pretokenizers")
    if splitter.get("type") != "BertPreTokenizer":
        raise step_error(path, "pre_tokenizer", "a BertPreTokenizer", content.get("pre_tokenizer"))
    processor = content.get("post_processor")
    if processor is not None and read_template(processor) != bert_template(begin, end):
        rule = f"null or add {begin} and {end} as in BERT"
        raise step_error(path, "post_processor", rule, processor)
    if content["model"].get("unk_token", unknown) != unknown:
        raise step_error(path, "model.unk_token", repr(unknown), content["model"]["unk_token"])
    return Normalizer(*values)


def _only(step: Any, steps: str) -> Mapping[str, Any]:
    """Returns a step, or the only step of a Sequence."""
    inner = steps_of(step, steps)
    return inner[0] if len(inner) == 1 else {}


def steps_of(step: Any, steps: str) -> list[Mapping[str, Any]]:
    """Returns a step, or the steps of a Sequence, as a list."""
    if isinstance(step, dict) and step.get("type") == "Sequence":
        step = step.get(steps)
    inner = step if isinstance(step, list) else [] if step is None else [step]
    return [each if isinstance(each, dict) else {} for each in inner]


Template = Mapping[str, list[tuple[str, int]]]


def bert_template(begin: str, end: str, separators: int = 1) -> Template:
    """Returns the tokens and token types of "[CLS] A [SEP]" and "[CLS] A [SEP] B [SEP]".

    If `separators` is 2, a pair is "[CLS] A [SEP] [SEP] B [SEP]", as in RoBERTa, and all token
    types are 0.
    """
    single, second = [(begin, 0), ("A", 0), (end, 0)], int(separators == 1)
    pair = [*single, *[(end, 0)] * (separators - 1), ("B", second), (end, second)]
    return {"single": single, "pair": pair}


def read_template(processor: Any) -> Template | None:
    """Returns the tokens and token types of a post-processor, or None if it has no template."""
    try:
        if processor["type"] == "BertProcessing":
            return bert_template(processor["cls"][0], processor["sep"][0])
        return {
            name: [
                (part["id"], part["type_id"]) for each in processor[name] for part in each.values()
            ]
            for name in ("single", "pair")
        }
    except (TypeError, KeyError, IndexError, AttributeError):
        return None


def _vocabulary_error(path: Path) -> UserError:
    return UserError(
        f"{path} contains no WordPiece vocabulary with consecutive ids from 0. Use the "
        "checkpoint's vocabulary file."
    )


def step_error(path: Path, name: str, rule: str, received: Any) -> UserError:
    return UserError(
        f"{name} in {path} must be {rule}. Received: {short_repr(received)}. "
        "Encode texts with the checkpoint's own tokenizer."
    )
