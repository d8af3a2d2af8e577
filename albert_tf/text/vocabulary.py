"""SentencePiece models that normalise raw text themselves: made, described and trained here."""

import functools
import hashlib
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import sentencepiece

from albert_tf.errors import UserError
from albert_tf.files import written_atomically
from albert_tf.text.digit_comma import demote
from albert_tf.text.model_file import Source, parse_model, read_model
from albert_tf.text.normalization import Normalization, compile_rules
from albert_tf.text.sentencepiece_messages import ModelProto
from albert_tf.text.special_tokens import SPECIAL_TOKENS

DigitComma = Literal["original", "plain"]
Quotes = Literal["original", "huggingface"]

MARK = "albert_tf/1"
USER_DEFINED_PIECES = ("(", ")", '"', "-", ".", "–", "£", "€")  # As in the published vocabularies.
CHARACTER_COVERAGE = 0.99995
MAX_SENTENCE_BYTES = 1 << 20  # SentencePiece would leave out lines of more than 4,192 in silence.
THREADS = 16  # SentencePiece's default. Fixed: how sums are rounded depends on it.


@dataclass(frozen=True)
class Baked:
    """What was baked into a vocabulary.

    Attributes:
        sha256: digest of the model file that it was made from, in hexadecimal.
        lower_case, keep_accents, digit_comma, quotes: the options of `bake`.
    """

    sha256: str
    lower_case: bool
    keep_accents: bool
    digit_comma: DigitComma
    quotes: Quotes

    def __str__(self) -> str:
        flags = f"lower_case={int(self.lower_case)};keep_accents={int(self.keep_accents)}"
        choices = f"digit_comma={self.digit_comma};quotes={self.quotes}"
        return f"{MARK};sha256={self.sha256};{flags};{choices}"

    @classmethod
    def parse(cls, name: str) -> "Baked":
        """Reads the model's `normalizer_spec.name` as `__str__` wrote it."""
        fields = dict(field.split("=", 1) for field in name.split(";")[1:])
        return cls(
            sha256=fields["sha256"],
            lower_case=fields["lower_case"] == "1",
            keep_accents=fields["keep_accents"] == "1",
            digit_comma=fields["digit_comma"],  # type: ignore[arg-type]
            quotes=fields["quotes"],  # type: ignore[arg-type]
        )


def bake(
    source: Source,
    *,
    lower_case: bool = True,
    keep_accents: bool = False,
    digit_comma: DigitComma = "original",
    quotes: Quotes = "original",
    origin: str | None = None,
) -> bytes:
    """Makes a SentencePiece model normalise raw text itself.

    Args:
        source: path of a published `spiece.model`, or its bytes.
        lower_case: lower-case the text. False for cased models.
        keep_accents: keep accents, and leave out NFKD. Hugging Face's option; the original code
            always drops them.
        digit_comma: "original" never chooses a piece that ends in a digit and a comma, which is
            what the original code's second pass over such pieces comes to; "plain" leaves the
            search as the model was trained.
        quotes: "huggingface" reads a pair of grave accents or of apostrophes as `"`; "original"
            leaves them alone.
        origin: what messages call the model when `source` is bytes.
    Returns:
        The serialized model. `describe` reads from it what was baked in.
    Raises:
        UserError: no such file, not a SentencePiece model, no ALBERT vocabulary (a special piece
            is missing), or already baked.
    """
    if digit_comma not in ("original", "plain"):
        raise ValueError(f"digit_comma must be 'original' or 'plain'. Received: {digit_comma!r}.")
    if quotes not in ("original", "huggingface"):
        raise ValueError(f"quotes must be 'original' or 'huggingface'. Received: {quotes!r}.")
    content, name = read_model(source)
    origin = origin or name
    already = describe(content, origin=origin)
    if already is not None:
        raise UserError(
            f"A vocabulary can be baked only once. Received: {origin}, which is already baked "
            f"({already}). Use it as it is, or bake the source model (sha256 {already.sha256})."
        )
    digest = hashlib.sha256(content).hexdigest()
    return _bake(content, Baked(digest, lower_case, keep_accents, digit_comma, quotes))


def ensure_baked(source: Source, **wanted: object) -> tuple[bytes, Baked]:
    """A baked model as it is, or any other baked with the options `wanted` that aren't None.

    Raises:
        UserError: as `bake`, or baked with other options than wanted.
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    content, origin = read_model(source)
    baked = describe(content, origin=origin)
    if baked is None:
        content = bake(content, origin=origin, **given)  # type: ignore[arg-type]
        return content, describe(content)  # type: ignore[return-value]
    differing = {name: value for name, value in given.items() if getattr(baked, name) != value}
    if differing:
        has = ", ".join(f"{name}={getattr(baked, name)!r}" for name in differing)
        asked = ", ".join(f"{name}={value!r}" for name, value in differing.items())
        raise UserError(
            f"A baked vocabulary keeps its options. Received: {origin}, baked with {has}, and "
            f"{asked}. Leave the options out, or start from the published vocabulary "
            f"(sha256 {baked.sha256})."
        )
    return content, baked


def bake_file(
    source: Source, target: str | os.PathLike[str], *, force: bool = False, **options: Any
) -> None:
    """Writes `bake(source, **options)` to `target`, whole or not at all."""
    model = bake(source, **options)
    with written_atomically(target, force=force) as path:
        path.write_bytes(model)


def describe(model: Source, *, origin: str | None = None) -> Baked | None:
    """What was baked into a model (path or bytes), or None if it is as it was trained.

    Raises:
        UserError: no such file, or not an ALBERT vocabulary.
    """
    content, name = read_model(model)
    proto = parse_model(content, origin or name)
    if not proto.normalizer_spec.name.startswith(MARK + ";"):
        return None
    return Baked.parse(proto.normalizer_spec.name)


@functools.lru_cache(maxsize=8)
def _bake(content: bytes, options: Baked) -> bytes:
    proto = parse_model(content, "the model")
    normalization = Normalization(options.lower_case, options.keep_accents, options.quotes)
    own = proto.normalizer_spec.precompiled_charsmap
    proto.normalizer_spec.precompiled_charsmap = _joined_rules(own, normalization)
    proto.normalizer_spec.remove_extra_whitespaces = True
    proto.normalizer_spec.name = str(options)
    if options.digit_comma == "original":
        demote(proto)
    return proto.SerializeToString()


@functools.lru_cache(maxsize=8)
def _joined_rules(own: bytes, normalization: Normalization) -> bytes:
    """`compile_rules`, which takes seconds, once for all models with the same own rules."""
    model = ModelProto()
    model.normalizer_spec.precompiled_charsmap = own
    return compile_rules(model.SerializeToString(), normalization)


def train_vocabulary(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lower_case: bool = True,
    keep_accents: bool = False,
    digit_comma: DigitComma = "original",
    quotes: Quotes = "original",
    character_coverage: float = CHARACTER_COVERAGE,
    seed_sentencepiece_size: int = 1_000_000,
    max_sentences: int = 10_000_000,
    threads: int = THREADS,
) -> bytes:
    """Trains a vocabulary with the settings of ALBERT's own, and bakes it.

    Args:
        texts: lines of raw text, normalised here as the options say; up to `max_sentences` of
            them (0: all), drawn at random, are held in memory.
        vocab_size: pieces, the 5 special ones included. Fewer if the text doesn't support as many.
    Returns:
        The baked model: unigram, `<pad>` 0, `<unk>` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4.
    Raises:
        UserError: no text, or vocab_size too small for the text's characters.
    """
    normalization = Normalization(lower_case, keep_accents, quotes)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(normalization(text) for text in texts),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            seed_sentencepiece_size=seed_sentencepiece_size,
            input_sentence_size=max_sentences,
            max_sentence_length=MAX_SENTENCE_BYTES,
            num_threads=threads,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIAL_TOKENS[2:]),
            user_defined_symbols=list(USER_DEFINED_PIECES),
            minloglevel=3,
        )
    except RuntimeError as error:
        raise UserError(
            "SentencePiece could not train on this text. "
            f"Received: vocab_size={vocab_size}; its message: {error}. "
            "Give more text, or another vocab_size."
        ) from error
    return bake(
        model.getvalue(),
        lower_case=lower_case,
        keep_accents=keep_accents,
        digit_comma=digit_comma,
        quotes=quotes,
    )
