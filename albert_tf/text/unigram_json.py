"""Converts a Unigram tokenizer from Hugging Face's `tokenizer.json` to a SentencePiece model.

The file describes every step of a tokenizer. The steps of ALBERT's and XLM-RoBERTa's tokenizers are
accepted, and all others are rejected. SentencePiece then does the work of the `tokenizers` package.
The ids differ only where the package differs from SentencePiece: it splits texts at the added
tokens before it looks for words, may keep a space at the end of a text, and replaces some sequences
of combining characters differently.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from albert_tf.checkpoints.hugging_face import CONFIG
from albert_tf.errors import UserError
from albert_tf.files import read_json, sha256
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.model_file import Baked, ModelProto
from albert_tf.text.tokens import SPECIAL_IDS, SPECIAL_TOKENS
from albert_tf.text.wordpiece_json import bert_template, read_template, step_error, steps_of

# The names of special tokens that only the list of added tokens contains.
_PAD: Final = ("<pad>", "[PAD]")
_MASK: Final = ("<mask>", "[MASK]")
_QUOTES: Final = [
    {"type": "Replace", "pattern": {"String": quotes}, "content": '"'} for quotes in ("``", "''")
]
_ACCENTS: Final = [{"type": "NFKD"}, {"type": "StripAccents"}]
_LOWER: Final = [{"type": "Lowercase"}]
_MOST_UNUSED: Final = 128  # with more rows, the model probably has another vocabulary


def is_unigram(content: Mapping[str, Any]) -> bool:
    """Returns whether a `tokenizer.json` contains a Unigram model."""
    model = content.get("model")
    return isinstance(model, dict) and model.get("type") == "Unigram"


def convert(path: Path, digit_comma: Any = None) -> tuple[bytes, Baked]:
    """Returns a SentencePiece model that isn't baked, and the options to bake into it.

    Args:
        path: a `tokenizer.json`.
        digit_comma: see `vocabulary.bake`. Default: "original", as for a published model, or
            "plain" for vocabularies with XLM-RoBERTa's special tokens.
    """
    content = read_json(path)
    if not is_unigram(content):
        raise UserError(f"{path} contains no Unigram vocabulary. Call from_pretrained instead.")
    charsmap, options = _read_normalizer(content, path)
    _check_splitter(content, path)
    begin, end, separators = _read_special(content, path)
    proto = _read_pieces(content, path)
    _add_unused(proto, path.parent / CONFIG)
    ids = {piece.piece: index for index, piece in enumerate(proto.pieces)}
    pad, mask = (next(filter(ids.__contains__, names), names[0]) for names in (_PAD, _MASK))
    tokens = pad, proto.pieces[proto.trainer_spec.unk_id].piece, begin, end, mask
    if missing := [token for token in tokens if token not in ids]:
        raise UserError(
            f"{path} ({len(ids)} tokens) lacks the special tokens {', '.join(missing)}. Use the "
            "checkpoint's vocabulary file."
        )
    special = tuple(ids[token] for token in tokens)
    proto.trainer_spec.pad_id, _, proto.trainer_spec.bos_id, proto.trainer_spec.eos_id, _ = special
    proto.normalizer_spec.precompiled_charsmap = charsmap
    baked = Baked(
        sha256(path),
        **options,
        digit_comma=digit_comma or ("original" if separators == 1 else "plain"),
        special=() if (tokens, special) == (SPECIAL_TOKENS, SPECIAL_IDS) else special,
        separators=separators,
    )
    return proto.SerializeToString(), baked


def _read_normalizer(content: Mapping[str, Any], path: Path) -> tuple[bytes, dict[str, Any]]:
    """Returns SentencePiece's rules, and the `bake` options for the steps that precede them."""
    steps = steps_of(content.get("normalizer"), "normalizers")
    rules = [step for step in steps if step.get("type") == "Precompiled"][:1]
    has_quotes, strips = _QUOTES[0] in steps, _ACCENTS[0] in steps
    lower_case = _LOWER[0] in steps
    known = [*_QUOTES * has_quotes, *_ACCENTS * strips, *_LOWER * lower_case, *rules]
    if [step for step in steps if not _is_about_spaces(step)] != known:
        rule = "Replace (of two quotes), NFKD with StripAccents, Lowercase, Precompiled, in order"
        other = next((s for s in steps if s not in known and not _is_about_spaces(s)), steps)
        raise step_error(path, "normalizer", f"limited to {rule}", other)
    charsmap = base64.b64decode(rules[0]["precompiled_charsmap"]) if rules else b""
    quotes = "huggingface" if has_quotes else "original"
    return charsmap, {"quotes": quotes, "keep_accents": not strips, "lower_case": lower_case}


def _is_about_spaces(step: Mapping[str, Any]) -> bool:
    """Returns whether a step only removes spaces, which SentencePiece removes anyway."""
    is_replace = step.get("type") == "Replace" and step.get("pattern") == {"Regex": " {2,}"}
    return step.get("type") == "Strip" or (is_replace and step.get("content") in (" ", SPACE))


def _check_splitter(content: Mapping[str, Any], path: Path) -> None:
    """Checks that words are split at spaces and begin with "▁"."""
    steps = steps_of(content.get("pre_tokenizer"), "pretokenizers")
    rest = [step for step in steps if step != {"type": "WhitespaceSplit"}]
    own = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always"}
    defaults = {"prepend_scheme": "always", "add_prefix_space": True, "split": True}
    if [{**defaults, **step} for step in rest] != [{**defaults, **own}]:
        rule = f"a Metaspace with {SPACE} before every word"
        raise step_error(path, "pre_tokenizer", rule, content.get("pre_tokenizer"))


def _read_special(content: Mapping[str, Any], path: Path) -> tuple[str, str, int]:
    """Returns the tokens at the start and end of a text, and the number of separators in a pair."""
    template = read_template(content.get("post_processor"))
    if template and len(template["single"]) == 3:
        begin, end = template["single"][0][0], template["single"][2][0]
        for separators in (1, 2):
            if template == bert_template(begin, end, separators):
                return begin, end, separators
    rule = "a template as in BERT or XLM-RoBERTa"
    raise step_error(path, "post_processor", rule, content.get("post_processor"))


def _read_pieces(content: Mapping[str, Any], path: Path) -> ModelProto:
    """Returns a model with the pieces, in the order of their ids."""
    model, proto = content["model"], ModelProto()
    if model.get("byte_fallback"):
        raise step_error(path, "model.byte_fallback", "false", True)
    try:
        for piece, score in model["vocab"]:
            proto.pieces.add(piece=piece, score=score)
        for token in content["added_tokens"]:
            if token["id"] == len(proto.pieces) and token["special"]:
                proto.pieces.add()
                proto.pieces[-1].piece = token["content"]
            piece = proto.pieces[token["id"]]
            if piece.piece != token["content"]:
                raise ValueError(f"{token['content']} isn't token {token['id']}")
            piece.type = piece.CONTROL if token["special"] else piece.USER_DEFINED
            piece.score = 0.0  # these tokens are found before the vocabulary is searched
        unknown = proto.pieces[model["unk_id"]]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} contains no Unigram vocabulary, or is damaged ({type(error).__name__}: "
            f"{error}). Use the checkpoint's vocabulary file."
        ) from error
    unknown.type = unknown.UNKNOWN
    proto.trainer_spec.unk_piece, proto.trainer_spec.unk_id = unknown.piece, model["unk_id"]
    return proto


def _add_unused(proto: ModelProto, config: Path) -> None:
    """Adds tokens that no text contains for the last rows of the model's embedding matrix.

    multilingual-e5-small, for example, has 250,037 rows for 250,002 tokens.
    """
    rows = read_json(config).get("vocab_size") if config.is_file() else None
    size = len(proto.pieces)
    if isinstance(rows, int) and rows - size <= _MOST_UNUSED:
        for index in range(size, rows):
            proto.pieces.add(piece=f"<unused{index}>", type=proto.pieces[0].CONTROL)
    proto.trainer_spec.vocab_size = len(proto.pieces)
