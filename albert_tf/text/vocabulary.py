"""SentencePiece models that normalize raw text themselves: baking and training them."""

import functools
import hashlib
import io
import os
from collections.abc import Iterable
from typing import Any, Final

import sentencepiece

from albert_tf.errors import UserError
from albert_tf.files import written_atomically
from albert_tf.options import CHARACTER_COVERAGE, THREADS
from albert_tf.text.encoding import SPECIAL_TOKENS
from albert_tf.text.model_file import (
    Baked,
    DigitComma,
    ModelProto,
    Quotes,
    Source,
    describe,
    parse_model,
    read_file,
)
from albert_tf.text.normalization import Normalization, compile_rules, demote_digit_comma

USER_DEFINED_PIECES: Final = ("(", ")", '"', "-", ".", "–", "£", "€")  # The published ones.
MAX_SENTENCE_BYTES: Final = 1 << 20  # SentencePiece silently skips lines of more than 4,192.


def bake(
    source: Source,
    *,
    lower_case: bool = True,
    keep_accents: bool = False,
    digit_comma: DigitComma = "original",
    quotes: Quotes = "original",
    turkish_i: bool = False,
    origin: str | None = None,
) -> bytes:
    """Returns a SentencePiece model that normalizes raw text itself.

    Args:
        source: path of a published `spiece.model`, or its bytes.
        lower_case: lower-case the text. False for cased models.
        keep_accents: keep accents, and leave out NFKD. Hugging Face's option; the original code
            always drops them.
        digit_comma: "original" never chooses a piece that ends in a digit and a comma, which has
            the effect of the original code's second pass over such pieces; "plain" leaves the
            search as the model was trained.
        quotes: "huggingface" reads a pair of grave accents or of apostrophes as `"`; "original"
            leaves them alone.
        turkish_i: lower-case I to ı and İ to i, as Turkish and Azerbaijani do.
        origin: name for the model in messages, when `source` is bytes.
    Returns:
        The serialized model. `model_file.describe` returns the options baked into it.
    Raises:
        UserError: the file doesn't exist, isn't an ALBERT vocabulary, or is already baked.
    """
    if digit_comma not in ("original", "plain"):
        raise UserError(f"digit_comma must be 'original' or 'plain'. Received: {digit_comma!r}.")
    if quotes not in ("original", "huggingface"):
        raise UserError(f"quotes must be 'original' or 'huggingface'. Received: {quotes!r}.")
    content, name = read_file(source, "spiece.model")
    origin = origin or name
    already = describe(content, origin=origin)
    if already is not None:
        raise UserError(
            f"A vocabulary can be baked only once. Received: {origin}, which is already baked "
            f"({already}). Use it as it is, or bake the source model (sha256 {already.sha256})."
        )
    digest = hashlib.sha256(content).hexdigest()
    return _bake(content, Baked(digest, lower_case, keep_accents, digit_comma, quotes, turkish_i))


def with_tokens(model: bytes, tokens: Iterable[str]) -> bytes:
    """Returns a baked model with further tokens at its end.

    Each has the score of the most probable piece, so that it wins against any two others, and texts
    without it are read as before. SentencePiece's "user-defined" pieces are less sure to win: they
    get that score once for each byte.
    """
    proto = parse_model(model, "the model")
    score = max(piece.score for piece in proto.pieces if piece.type == piece.NORMAL)
    for token in tokens:
        proto.pieces.add(piece=token, score=score)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def bake_file(
    source: Source, target: str | os.PathLike[str], *, force: bool = False, **options: Any
) -> None:
    """Writes `bake(source, **options)` to `target` atomically."""
    model = bake(source, **options)
    with written_atomically(target, force=force) as path:
        path.write_bytes(model)


@functools.lru_cache(maxsize=8)
def _bake(content: bytes, options: Baked) -> bytes:
    proto = parse_model(content, "the model")
    normalization = Normalization(
        options.lower_case, options.keep_accents, options.quotes, options.turkish_i
    )
    own = proto.normalizer_spec.precompiled_charsmap
    proto.normalizer_spec.precompiled_charsmap = _joined_rules(own, normalization)
    proto.normalizer_spec.remove_extra_whitespaces = True
    proto.normalizer_spec.name = str(options)
    if options.digit_comma == "original":
        demote_digit_comma(proto)
    # SentencePiece finds user-defined pieces in a text, and so would a text's "[SEP]" be one; the
    # operator of graphs doesn't.
    for piece in proto.pieces[: len(SPECIAL_TOKENS)]:
        if piece.type != piece.UNKNOWN:
            piece.type = piece.CONTROL
    return proto.SerializeToString()


@functools.lru_cache(maxsize=8)
def _joined_rules(own: bytes, normalization: Normalization) -> bytes:
    """Caches `compile_rules`, which takes seconds, for models with the same own rules."""
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
    turkish_i: bool = False,
    character_coverage: float = CHARACTER_COVERAGE,
    seed_sentencepiece_size: int = 1_000_000,
    max_sentences: int = 10_000_000,
    threads: int = THREADS,
) -> bytes:
    """Trains a SentencePiece vocabulary with the settings of ALBERT's own, and bakes it.

    Example:

    >>> from albert_tf import AlbertTokenizer, train_vocabulary
    >>> model = train_vocabulary(["the cat sat on the mat", "a dog barked"], vocab_size=40)
    >>> tokenizer = AlbertTokenizer(model)
    >>> tokenizer.decode(tokenizer.encode("The CAT", add_special_tokens=False))
    'the cat'

    Args:
        texts: lines of raw text.
        vocab_size: number of pieces, the 5 special ones included; fewer if the text has fewer.
        lower_case: option of `vocabulary.bake`.
        keep_accents: option of `vocabulary.bake`.
        digit_comma: option of `vocabulary.bake`.
        quotes: option of `vocabulary.bake`.
        turkish_i: option of `vocabulary.bake`.
        character_coverage: share of the text whose characters get a piece.
        seed_sentencepiece_size: number of candidate pieces that training starts from.
        max_sentences: number of lines, drawn at random, to keep in memory; 0 for all.
        threads: number of threads. Another number may round otherwise, and so give another
            vocabulary.
    Returns:
        The baked model: unigram, `<pad>` 0, `<unk>` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4.
    Raises:
        UserError: there is no text, or vocab_size is too small for the text's characters.
    """
    normalization = Normalization(lower_case, keep_accents, quotes, turkish_i)
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
        turkish_i=turkish_i,
    )
