"""Answers in words: the outputs of a SavedModel's signature `text`, one function for each task.

`albert_tf.pipelines` and `albert_tf.text` do the same in Python.
"""

import functools
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import keras
import tensorflow as tf

from albert_tf.checkpoints.options import Pooling
from albert_tf.checkpoints.sentence_transformers import FOLDER, SentenceEmbedding, chosen
from albert_tf.errors import UserError
from albert_tf.layers.encoder import Unroll
from albert_tf.models import (
    AlbertForMaskedLM,
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)
from albert_tf.models.base import PreTrainedModel
from albert_tf.quiet import import_tensorflow_text
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.answers import BRACKETS, CLS, MARKS, NOWHERE
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.encoding import special_count
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import UNASSIGNED, USER_DEFINED_PIECES
from albert_tf_export.early_exit import DEPTH
from albert_tf_export.options import refuse_left
from albert_tf_export.signatures import POSITIONS, Tensors, task_outputs

TOP_K: Final = 5
# Models whose answers have no places in a text.
_OF_WHOLE_ROWS: Final = (AlbertModel, AlbertForSequenceClassification, AlbertForMultipleChoice)
DROPPED: Final = "CMSZ"  # Unicode's categories of characters that a vocabulary may leave out
LONGEST: Final = 15  # pieces of an answer
CANDIDATES: Final = 12  # spans whose scores are added if they have the same text


@dataclass(frozen=True)
class TextFunction:
    """Answers strings `[B]`, one or two of them, with a task's outputs in words.

    Attributes:
        preprocessor: makes the rows.
        unroll: see `task_outputs`.
        top_k: number of tokens for a mask.
        embedding: how an encoder's vector of a text is made.
    """

    model: PreTrainedModel
    tokenizer: BaseTokenizer
    preprocessor: AlbertPreprocessor
    unroll: Unroll
    top_k: int = TOP_K
    embedding: SentenceEmbedding | None = None

    def __call__(self, *texts: tf.Tensor) -> Tensors:
        return answers_in_words(self.model, self, texts)

    def run(self, features: Tensors) -> Tensors:
        return task_outputs(self.model, features, self.unroll)

    def read(self, texts: Sequence[tf.Tensor]) -> tuple["Pieces", Tensors, Tensors]:
        """Returns the pieces of the last text, the rows of all texts, and the outputs for them."""
        pieces = [self.preprocessor.tokenize(text) for text in texts]
        features = self.preprocessor.rows(pieces)
        ids = tf.pad(pieces[-1][:, : self.preprocessor.max_length].to_tensor(), [[0, 0], [0, 1]])
        last = of_pieces(self.tokenizer, texts[-1], ids)
        return last, features, self.run(features)


def text_function(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    preprocessor: AlbertPreprocessor,
    *,
    unroll: Unroll,
    pairs: bool = False,
    top_k: int | None = None,
    pooling: Pooling | None = None,
    normalize: bool | None = None,
) -> TextFunction | None:
    """Returns the function from texts to answers in words; None if a task or vocabulary has none.

    A WordPiece vocabulary has no offsets in the graph. An encoder answers with vectors alone, a
    tagger single texts.
    """
    embedding = None
    if isinstance(model, AlbertModel):
        embedding = chosen(model.sentence_embedding, pooling or FOLDER, normalize)
        has_words = embedding is not None
    elif isinstance(model, AlbertForTokenClassification) and pairs:
        has_words = False
    else:
        is_known = answers_in_words.dispatch(type(model)) is not answers_in_words.dispatch(object)
        has_words = is_known and isinstance(tokenizer, AlbertTokenizer)
    if not has_words:
        return None
    if not isinstance(model, _OF_WHOLE_ROWS):
        refuse_left(tokenizer, "An answer with places in a text")
    return TextFunction(model, tokenizer, preprocessor, unroll, top_k or TOP_K, embedding)


def check_words(
    model: PreTrainedModel, top_k: int | None, pooling: Pooling | None, normalize: bool | None
) -> None:
    """Refuses options of other tasks, and normalization without vectors."""
    if top_k is not None and not model.task.takes_positions:
        raise UserError(
            "top_k applies only to masked-LM models. "
            f"Received: top_k={top_k!r} with {type(model).__name__}."
        )
    if top_k is not None and not 1 <= top_k <= model.config.vocab_size:
        raise UserError(
            f"top_k must be between 1 and {model.config.vocab_size}, the size of the vocabulary. "
            f"Received: {top_k!r}."
        )
    if isinstance(model, AlbertModel):
        chosen(model.sentence_embedding, pooling or FOLDER, normalize)
    elif pooling is not None or normalize is not None:
        raise UserError(
            "pooling and normalize apply only to encoders. Received: "
            f"pooling={pooling!r}, normalize={normalize!r} with {type(model).__name__}. Export its "
            "encoder, with model.albert (--task encoder)."
        )


@functools.singledispatch
def answers_in_words(
    model: PreTrainedModel, function: TextFunction, texts: Sequence[tf.Tensor]
) -> Tensors:
    """Returns a task's answers in words; each task that has some registers its function."""
    raise TypeError(f"There must be answers in words. Received: {type(model).__name__}.")


@answers_in_words.register
def _(
    model: AlbertForQuestionAnswering, function: TextFunction, texts: Sequence[tf.Tensor]
) -> Tensors:
    return answers(model, *function.read(texts))


@answers_in_words.register
def _(
    model: AlbertForTokenClassification, function: TextFunction, texts: Sequence[tf.Tensor]
) -> Tensors:
    """`words` and `labels`, string, `scores`, `starts`, `ends`, `start_bytes`, `end_bytes`.

    All are `[B, W]`, "" and 0 after a row's last word. A word's label and score are those of its
    first piece. With early exit also `depth` `[B]`.
    """
    pieces, features, outputs = function.read(texts)
    number = tf.zeros_like(pieces.ids) + tf.range(tf.shape(pieces.ids)[1])
    length = tf.reduce_sum(features["attention_mask"], axis=1, keepdims=True)
    inside = number < length - special_count(False)
    is_same_character = tf.pad(pieces.starts[:, 1:] < pieces.ends[:, :-1], [[0, 0], [1, 0]])
    begins = pieces.begin_words | (number == 0) | (pieces.ids == function.tokenizer.unk_token_id)
    begins &= ~is_same_character  # as in "½": a pipeline's entities share no character
    is_next_same = tf.pad((inside & ~begins)[:, 1:], [[0, 0], [0, 1]])
    firsts = tf.ragged.boolean_mask(number, inside & begins)
    lasts = tf.ragged.boolean_mask(number, inside & ~is_next_same)
    first, last = (tf.pad(each.to_tensor(), [[0, 0], [0, 1]]) for each in (firsts, lasts))
    found = pieces.read(at(pieces.starts, first), at(pieces.ends, last))
    is_word = tf.sequence_mask(firsts.row_lengths(), tf.shape(first)[1]) & (found["text"] != "")
    position = tf.minimum(first + 1, tf.shape(features["input_ids"])[1] - 1)  # after [CLS]
    words = {
        "words": found.pop("text"),
        "labels": at(outputs["labels"], position),
        "scores": at(tf.reduce_max(outputs["probabilities"], axis=-1), position),
        **{f"{name}s": value for name, value in found.items()},
    }
    depths = {DEPTH: outputs[DEPTH]} if DEPTH in outputs else {}
    return depths | {
        name: tf.ragged.boolean_mask(value, is_word).to_tensor() for name, value in words.items()
    }


@answers_in_words.register(AlbertForMaskedLM)
@answers_in_words.register(AlbertForPreTraining)
def _(model: PreTrainedModel, function: TextFunction, texts: Sequence[tf.Tensor]) -> Tensors:
    """`token` (int32), `token_str` and `score` `[B, P, K]`: the K best tokens of each `[MASK]`.

    They replace the logits; 0 and "" after a row's last mask. `[MASK]` is the only special token
    that is read in a text.
    """
    tokenizer = function.tokenizer
    features = function.preprocessor.rows([_with_masks(function, text) for text in texts])
    is_mask = features["input_ids"] == tokenizer.mask_token_id
    position = tf.zeros_like(features["input_ids"]) + tf.range(tf.shape(is_mask)[1])
    masks = tf.ragged.boolean_mask(position, is_mask)
    outputs = function.run({**features, POSITIONS: masks.to_tensor()})
    score, token = tf.math.top_k(
        tf.nn.softmax(outputs.pop(model.targets["labels"])), function.top_k
    )
    text = tf.constant([tokenizer.decode([each]) for each in range(tokenizer.vocab_size)])
    found = {"token": token, "token_str": tf.gather(text, token), "score": score}
    is_filled = tf.sequence_mask(masks.row_lengths(), tf.shape(score)[1])[:, :, None]
    return outputs | {
        name: tf.where(is_filled, value, tf.zeros_like(value)) for name, value in found.items()
    }


@answers_in_words.register
def _(model: AlbertModel, function: TextFunction, texts: Sequence[tf.Tensor]) -> Tensors:
    """`embedding` `[B, H]`."""
    embedding = function.embedding
    assert embedding is not None
    features = function.preprocessor(texts)
    outputs = function.run(features)
    mask = tf.cast(features["attention_mask"], tf.float32)
    return {"embedding": embedding(outputs["last_hidden_state"], mask, keras.ops)}


def _with_masks(function: TextFunction, texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the pieces of texts in which `[MASK]` is a mask, ragged int32 `[B, T]`.

    Drops the lone "▁" between a mask and a full stop, bracket or dash, as `FillMaskPipeline` does.
    """
    tokenizer = function.tokenizer
    mask = tokenizer.mask_token_id
    parts = tf.strings.split(texts, tokenizer.mask_token)
    pieces = function.preprocessor.tokenize(parts.values).with_row_splits_dtype(tf.int64)
    count = tf.size(parts.values, tf.int64)
    after_mask = tf.range(count) != tf.gather(parts.row_starts(), parts.value_rowids())
    masks = tf.ragged.boolean_mask(tf.fill([count, 1], mask), after_mask[:, None])
    joined = tf.concat([masks, pieces], axis=1)
    splits = tf.gather(joined.row_splits, parts.row_splits)
    whole = tf.RaggedTensor.from_row_splits(joined.values, splits)

    row, ids = whole.value_rowids(), whole.values
    marks = tf.constant(tokenizer.convert_tokens_to_ids(list(USER_DEFINED_PIECES)))
    is_mark = tf.reduce_any(ids[:, None] == marks, axis=1)
    same_row = row[:-1] == row[1:]
    is_space = (ids == tokenizer.convert_tokens_to_ids(SPACE)) & (ids != tokenizer.unk_token_id)
    is_after = tf.pad((ids[:-1] == mask) & same_row, [[1, 0]])[: tf.size(ids)]
    is_before = tf.pad(is_mark[1:] & same_row, [[0, 1]])[: tf.size(ids)]
    return tf.ragged.boolean_mask(whole, whole.with_values(~(is_space & is_after & is_before)))


class Spans(NamedTuple):
    """The best spans of each row, best first, `[B, 12]`.

    Attributes:
        starts, ends: first and last piece of the context, int32.
        scores: probabilities; 0 where there is no span.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


def answers(
    model: AlbertForQuestionAnswering, pieces: "Pieces", features: Tensors, outputs: Tensors
) -> Tensors:
    """Returns `answer` (string), `start`, `end`, `start_byte`, `end_byte` (int32), `score`: `[B]`.

    `no_answer_score` `[B]` is the probability that there is no answer. `answer` is "" where the
    threshold of a fine-tuned model (`config.thresholds`) says so, or nothing was found.

    Args:
        pieces: P pieces of each context.
        features, outputs: the rows `[B, T]`, and the model's outputs.
    """
    length, after_question = (
        tf.reduce_sum(features[name], axis=1, keepdims=True)
        for name in ("attention_mask", "token_type_ids")
    )
    first, number = length - after_question, tf.range(tf.shape(pieces.starts)[1])[None]
    inside = number < after_question - 1  # without [SEP]
    if "cls_logits" in outputs:
        spans, none = _of_beam(outputs, first, inside), tf.sigmoid(outputs["cls_logits"])
        null_score = outputs["cls_logits"]
    else:
        positions = tf.minimum(first + number, tf.shape(outputs["start_logits"])[1] - 1)
        spans, none, null_score = _of_logits(outputs, positions, inside)

    starts, ends = _whole_words(spans, pieces, inside)
    found = pieces.read(at(pieces.starts, starts), at(pieces.ends, ends))
    is_answer = (spans.scores > 0) & (found["text"] != "")
    scores = _merged(found["text"], tf.where(is_answer, spans.scores, 0.0))
    best = tf.argmax(scores, axis=1, output_type=tf.int32)[:, None]
    is_none = ~tf.reduce_any(is_answer, axis=1)
    score = tf.where(is_none, 0.0, at(scores, best)[:, 0])
    if model.config.thresholds:
        is_none |= null_score > model.config.thresholds[0]
        score = tf.where(is_none, none, score)
    chosen = {name: at(value, best)[:, 0] for name, value in found.items()}
    answer = {
        name: tf.where(is_none, tf.zeros_like(value), value) for name, value in chosen.items()
    }
    return {"answer": answer.pop("text"), **answer, "score": score, "no_answer_score": none}


def _of_logits(
    outputs: Tensors, positions: tf.Tensor, inside: tf.Tensor
) -> tuple[Spans, tf.Tensor, tf.Tensor]:
    """Returns the best spans, the probability of no answer, and its score minus the best span's."""
    logits = [outputs[name] for name in ("start_logits", "end_logits")]
    none_logits = [each[:, CLS : CLS + 1] for each in logits]
    inner = [tf.where(inside, at(each, positions), NOWHERE) for each in logits]
    probabilities = [
        tf.nn.softmax(tf.concat(each, axis=1)) for each in zip(none_logits, inner, strict=True)
    ]
    none = probabilities[0][:, 0] * probabilities[1][:, 0]
    first, last = (tf.where(inside, each[:, 1:], 0.0) for each in probabilities)

    count = tf.shape(inside)[1]
    followers = tf.pad(last, [[0, 0], [0, LONGEST - 1]])
    each_end = tf.stack([followers[:, more : more + count] for more in range(LONGEST)], axis=-1)
    products = tf.reshape(first[:, :, None] * each_end, [-1, count * LONGEST])
    scores, index = tf.math.top_k(products, CANDIDATES)
    starts = index // LONGEST
    spans = Spans(starts, tf.minimum(starts + index % LONGEST, count - 1), scores)

    sums = at(inner[0], spans.starts) + at(inner[1], spans.ends)
    best = tf.where(scores[:, 0] > 0, sums[:, 0], 0.0)
    return spans, none, tf.add_n(none_logits)[:, 0] - best


def _of_beam(outputs: Tensors, first: tf.Tensor, inside: tf.Tensor) -> Spans:
    """Returns the best spans of the SQuAD 2.0 head's beam."""
    starts, ends = outputs["start_top_index"] - first, outputs["end_top_index"] - first
    beam = starts.shape[1]
    log_probs = tf.repeat(outputs["start_top_log_probs"], beam, axis=1)
    scores = tf.exp(log_probs + outputs["end_top_log_probs"])
    starts = tf.repeat(starts, beam, axis=1)
    is_span = (starts <= ends) & (ends < starts + LONGEST)
    is_span &= (starts >= 0) & (ends < tf.reduce_sum(tf.cast(inside, tf.int32), 1, keepdims=True))
    scores, index = tf.math.top_k(tf.where(is_span, scores, 0.0), CANDIDATES)
    most = tf.shape(inside)[1] - 1
    starts, ends = (tf.clip_by_value(at(each, index), 0, most) for each in (starts, ends))
    return Spans(starts, ends, scores)


def _whole_words(spans: Spans, pieces: "Pieces", inside: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Extends spans to whole words, without the punctuation around them."""
    word = tf.cumsum(tf.cast(pieces.begin_words, tf.int32), axis=1)
    word = tf.where(inside, word, tf.shape(word)[1] + 1)
    low = tf.searchsorted(word, at(word, spans.starts))
    high = tf.searchsorted(word, at(word, spans.ends), side="right") - 1
    seen = tf.cumsum(tf.cast(~pieces.are_marks(), tf.int32), axis=1)  # pieces but punctuation
    before = at(tf.pad(seen, [[0, 0], [1, 0]]), low)
    low = tf.minimum(tf.searchsorted(seen, before + 1), spans.starts)
    return low, tf.maximum(tf.searchsorted(seen, at(seen, high)), spans.ends)


def _merged(texts: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Adds the scores of equal texts to the first of them, and gives the others 0."""
    # The operator for lower case ends at NUL.
    lower = tf.strings.lower(tf.strings.regex_replace(texts, r"\x00", "\x01"), encoding="utf-8")
    same = (lower[:, :, None] == lower[:, None, :]) & (scores[:, None, :] > 0)
    total = tf.reduce_sum(tf.where(same, scores[:, None, :], 0.0), axis=2)
    earlier = tf.linalg.band_part(tf.cast(same, tf.int32), -1, 0)
    is_first = (scores > 0) & (tf.reduce_sum(earlier, axis=2) == 1)
    return tf.where(is_first, total, 0.0)


class Characters:
    """Characters of strings `[B]`.

    Attributes:
        texts: the strings.
        points: code points, int32 `[B, C]`; 0 after the end of a text.
        first_bytes: int32 `[B, C]`; after the end of a text its number of bytes.
    """

    def __init__(self, texts: tf.Tensor):
        points, first_bytes = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        self.texts = texts
        self.points = tf.pad(points.to_tensor(), [[0, 0], [0, 1]])  # The end of a text is one too.
        inside = tf.sequence_mask(points.row_lengths(), tf.shape(self.points)[1])
        known = tf.pad(tf.cast(first_bytes.to_tensor(), tf.int32), [[0, 0], [0, 1]])
        self.first_bytes = tf.where(inside, known, tf.strings.length(texts)[:, None])

    def at_bytes(self, byte: tf.Tensor) -> tf.Tensor:
        """Returns the characters that begin at bytes `[B, N]`."""
        return tf.searchsorted(self.first_bytes, byte)

    def are(self, members: Sequence[int]) -> tf.Tensor:
        """Returns whether each character is among sorted code points, bool `[B, C]`."""
        known = tf.constant(members)
        flat = tf.reshape(self.points, [-1])
        place = tf.minimum(tf.searchsorted(known, flat), len(members) - 1)
        return tf.reshape(tf.gather(known, place) == flat, tf.shape(self.points))

    def read(
        self, starts: tf.Tensor, ends: tf.Tensor, blank: Sequence[int]
    ) -> dict[str, tf.Tensor]:
        """Returns parts of the texts without white space around them.

        Args:
            starts, ends: characters, int32 `[B, N]`.
            blank: code points to leave out at the start.
        Returns:
            `text`, string, and int32 `start`, `end`, `start_byte` and `end_byte`, all `[B, N]`.
        """
        start = tf.minimum(_next(~self.are(blank), starts), ends)
        end = _end_of_last(~self.are(white_space()), ends)
        end = tf.maximum(tf.minimum(end, ends), start)
        first, last = at(self.first_bytes, start), at(self.first_bytes, end)
        text = tf.strings.substr(self.texts[:, None], first, last - first)
        return {"text": text, "start": start, "end": end, "start_byte": first, "end_byte": last}


class Pieces(NamedTuple):
    """Characters of the pieces of texts.

    Attributes:
        characters: of the texts, up to the last piece.
        ids: int32 `[B, P]`.
        starts, ends: int32 `[B, P]`.
        begin_words: whether pieces begin a word, bool `[B, P]`.
        blank: code points that the vocabulary normalizes to a space or to nothing.
    """

    characters: Characters
    ids: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    begin_words: tf.Tensor
    blank: Sequence[int]

    def read(self, starts: tf.Tensor, ends: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.characters.read(starts, ends, self.blank)

    def are_marks(self) -> tf.Tensor:
        """Returns whether pieces have only brackets, quotation marks, stops and white space."""
        letters = ~self.characters.are(marks())
        before = tf.cumsum(tf.cast(letters, tf.int32), axis=1, exclusive=True)
        return at(before, self.starts) == at(before, self.ends)


def of_pieces(tokenizer: BaseTokenizer, texts: tf.Tensor, ids: tf.Tensor) -> Pieces:
    """Returns the characters of pieces; `albert_tf.text.tokenizer` is the same in Python.

    Args:
        texts: string `[B]`.
        ids: their first pieces, int32 `[B, P]`, P > 0, from `AlbertPreprocessor.tokenize`, whose
            operator has no offsets. The one that has them may cut a word at other places where two
            ways to cut it are equally likely; then a piece has the characters of the piece of the
            same number in its word.
    """
    # Made in the graph, where the operator owns the vocabulary, which nothing else has to save.
    operator = import_tensorflow_text().SentencepieceTokenizer(tokenizer.model_bytes)
    most = tf.shape(ids)[1]
    others, starts, ends = (
        tf.pad(tf.cast(each[:, :most].to_tensor(), tf.int32), [[0, 0], [0, 1]])
        for each in operator.tokenize_with_offsets(texts)
    )
    read = tf.strings.substr(texts, tf.zeros_like(ends[:, 0]), tf.reduce_max(ends, axis=1))
    characters = Characters(read)
    tokens = tokenizer.convert_ids_to_tokens(list(range(tokenizer.vocab_size)))
    begin = tf.constant([token.startswith(SPACE) for token in tokens])
    source = _same_places(tf.gather(begin, ids), tf.gather(begin, others))
    first, last = (characters.at_bytes(at(each, source)) for each in (starts, ends))
    # A character that normalizes to several (a ligature) belongs to each piece that has one of
    # them. A lone "▁" before the text has no character.
    is_added = (ids == tokenizer.convert_tokens_to_ids(SPACE)) & (tf.range(most) == 0)
    widened = tf.minimum(first + 1, tf.shape(characters.points)[1] - 1)
    last = tf.where(is_added, first, tf.maximum(last, widened))
    return Pieces(characters, ids, first, last, tf.gather(begin, ids), blank(tokenizer))


def _same_places(begins: tf.Tensor, others_begin: tf.Tensor) -> tf.Tensor:
    """Returns for each piece the other piece with the same number in the same word."""
    word, others = (tf.cumsum(tf.cast(each, tf.int32), axis=1) for each in (begins, others_begin))
    number = tf.range(tf.shape(word)[1]) - tf.searchsorted(word, word)
    after = tf.searchsorted(others, word, side="right")
    return tf.maximum(tf.minimum(tf.searchsorted(others, word) + number, after - 1), 0)


def at(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Returns values `[B, C]` at indices `[B, N]`."""
    return tf.gather(values, index, batch_dims=1)


def _next(are: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """Returns the first true index from each start on, or the number of indices."""
    seen = tf.cumsum(tf.cast(are, tf.int32), axis=1)
    return tf.searchsorted(seen, at(tf.pad(seen, [[0, 0], [1, 0]]), starts) + 1)


def _end_of_last(are: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the index after the last true one before each end, or 1."""
    seen = tf.cumsum(tf.cast(are, tf.int32), axis=1)
    return tf.searchsorted(seen, at(tf.pad(seen, [[0, 0], [1, 0]]), ends)) + 1


@functools.cache
def white_space() -> Sequence[int]:
    return [point for point in range(sys.maxunicode + 1) if chr(point).isspace()]


@functools.cache
def marks() -> Sequence[int]:
    """Returns the punctuation around an answer, and white space."""
    brackets = [
        point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) in BRACKETS
    ]
    return sorted({*brackets, *map(ord, MARKS), *white_space()})


@functools.lru_cache(maxsize=1)
def blank(tokenizer: BaseTokenizer) -> Sequence[int]:
    """Returns the code points that a vocabulary normalizes to a space or to nothing."""
    categories = ((point, unicodedata.category(chr(point))) for point in range(sys.maxunicode + 1))
    candidates = [
        point for point, each in categories if each[0] in DROPPED and each not in UNASSIGNED
    ]
    found = tokenizer([chr(point) for point in candidates], add_special_tokens=False)["input_ids"]
    return [point for point, ids in zip(candidates, found, strict=True) if not ids]
