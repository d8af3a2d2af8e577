"""Answers in words: the outputs of a SavedModel's signature `text`, one function for each task."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import tensorflow as tf

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
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.encoding import special_count
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import USER_DEFINED_PIECES
from albert_tf_export import characters
from albert_tf_export.answers import answers
from albert_tf_export.characters import at
from albert_tf_export.options import check_choice, refuse_left
from albert_tf_export.signatures import POSITIONS
from albert_tf_export.task_outputs import Tensors, task_outputs

Pooling = Literal["mean", "cls", "pooler"]
POOLINGS: Final = get_args(Pooling)
TOP_K: Final = 5
# Models whose answers have no places in a text.
_OF_WHOLE_ROWS: Final = (AlbertModel, AlbertForSequenceClassification, AlbertForMultipleChoice)


@dataclass(frozen=True)
class InWords:
    """Answers strings `[B]`, one or two of them, with a task's outputs in words.

    Attributes:
        preprocessor: makes the rows.
        unroll: see `task_outputs`.
        top_k: number of pieces for a mask.
        pooling: the vector of a text, as in `FeatureExtractionPipeline`.
        normalize: give vectors the length 1.
    """

    model: PreTrainedModel
    tokenizer: BaseTokenizer
    preprocessor: AlbertPreprocessor
    unroll: Unroll
    top_k: int = TOP_K
    pooling: Pooling | None = None
    normalize: bool = False

    def __call__(self, *texts: tf.Tensor) -> Tensors:
        return in_words(self.model, self, texts)

    def run(self, features: Tensors) -> Tensors:
        return task_outputs(self.model, features, self.unroll)

    def read(self, texts: Sequence[tf.Tensor]) -> tuple[characters.Pieces, Tensors, Tensors]:
        """Returns the pieces of the last text, the rows of all texts, and the outputs for them."""
        pieces = [self.preprocessor.tokenize(text) for text in texts]
        features = self.preprocessor.rows(pieces)
        ids = tf.pad(pieces[-1][:, : self.preprocessor.max_length].to_tensor(), [[0, 0], [0, 1]])
        last = characters.of_pieces(self.tokenizer, texts[-1], ids)
        return last, features, self.run(features)


def answerer(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    preprocessor: AlbertPreprocessor,
    *,
    unroll: Unroll,
    pairs: bool = False,
    top_k: int | None = None,
    pooling: Pooling | None = None,
    normalize: bool = False,
) -> InWords | None:
    """Returns the function from texts to answers in words; None if a task or vocabulary has none.

    A WordPiece vocabulary has no offsets in the graph. An encoder answers with pooling alone, a
    tagger single texts.
    """
    if isinstance(model, AlbertModel):
        has_words = pooling is not None
    elif isinstance(model, AlbertForTokenClassification) and pairs:
        has_words = False
    else:
        is_known = in_words.dispatch(type(model)) is not in_words.dispatch(object)
        has_words = is_known and isinstance(tokenizer, AlbertTokenizer)
    if not has_words:
        return None
    if not isinstance(model, _OF_WHOLE_ROWS):
        refuse_left(tokenizer, "An answer with places in a text")
    return InWords(model, tokenizer, preprocessor, unroll, top_k or TOP_K, pooling, normalize)


def check_words(
    model: PreTrainedModel, top_k: int | None, pooling: str | None, normalize: bool
) -> None:
    """Refuses options of other tasks."""
    if top_k is not None and not model.task.takes_positions:
        raise UserError(
            "top_k must be left out but for models of masked words. "
            f"Received: top_k={top_k!r} with {type(model).__name__}."
        )
    if top_k is not None and not 1 <= top_k <= model.config.vocab_size:
        raise UserError(
            f"top_k must lie between 1 and {model.config.vocab_size}, the size of the vocabulary. "
            f"Received: {top_k!r}."
        )
    if pooling is not None:
        check_choice("pooling", pooling, POOLINGS)
        if not isinstance(model, AlbertModel):
            raise UserError(
                "pooling must be left out but for an encoder. Received: "
                f"pooling={pooling!r} with {type(model).__name__}. Export its encoder, with "
                "model.albert (--task encoder)."
            )
        if pooling == "pooler" and (model.pooler is None or "pooler" in model.fresh_parts):
            raise UserError(
                "pooling='pooler' needs a checkpoint with a pooler. Received: one without. "
                "Use pooling='mean' or 'cls'."
            )
    if normalize and pooling is None:
        raise UserError("normalize needs a pooling. Received: none. Add pooling='mean' or 'cls'.")


@functools.singledispatch
def in_words(model: PreTrainedModel, to: InWords, texts: Sequence[tf.Tensor]) -> Tensors:
    """Returns a task's answers in words; each task that has some registers its function."""
    raise TypeError(f"There must be answers in words. Received: {type(model).__name__}.")


@in_words.register
def _(model: AlbertForQuestionAnswering, to: InWords, texts: Sequence[tf.Tensor]) -> Tensors:
    return answers(model, *to.read(texts))


@in_words.register
def _(model: AlbertForTokenClassification, to: InWords, texts: Sequence[tf.Tensor]) -> Tensors:
    """`words` and `labels`, string, `scores`, `starts`, `ends`, `start_bytes`, `end_bytes`.

    All are `[B, W]`, "" and 0 after a row's last word. A word's label and score are those of its
    first piece.
    """
    pieces, features, outputs = to.read(texts)
    number = tf.zeros_like(pieces.ids) + tf.range(tf.shape(pieces.ids)[1])
    length = tf.reduce_sum(features["attention_mask"], axis=1, keepdims=True)
    inside = number < length - special_count(False)
    is_same_character = tf.pad(pieces.starts[:, 1:] < pieces.ends[:, :-1], [[0, 0], [1, 0]])
    begins = pieces.begin_words | (number == 0) | (pieces.ids == to.tokenizer.unk_token_id)
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
    return {
        name: tf.ragged.boolean_mask(value, is_word).to_tensor() for name, value in words.items()
    }


@in_words.register(AlbertForMaskedLM)
@in_words.register(AlbertForPreTraining)
def _(model: PreTrainedModel, to: InWords, texts: Sequence[tf.Tensor]) -> Tensors:
    """`token` (int32), `token_str` and `score` `[B, P, K]`: the K best pieces of each `[MASK]`.

    They replace the logits; 0 and "" after a row's last mask. `[MASK]` is the only special token
    that is read in a text.
    """
    tokenizer = to.tokenizer
    features = to.preprocessor.rows([_with_masks(to, text) for text in texts])
    is_mask = features["input_ids"] == tokenizer.mask_token_id
    position = tf.zeros_like(features["input_ids"]) + tf.range(tf.shape(is_mask)[1])
    masks = tf.ragged.boolean_mask(position, is_mask)
    outputs = to.run({**features, POSITIONS: masks.to_tensor()})
    score, token = tf.math.top_k(tf.nn.softmax(outputs.pop(model.targets["labels"])), to.top_k)
    text = tf.constant([tokenizer.decode([each]) for each in range(tokenizer.vocab_size)])
    found = {"token": token, "token_str": tf.gather(text, token), "score": score}
    is_filled = tf.sequence_mask(masks.row_lengths(), tf.shape(score)[1])[:, :, None]
    return outputs | {
        name: tf.where(is_filled, value, tf.zeros_like(value)) for name, value in found.items()
    }


@in_words.register
def _(model: AlbertModel, to: InWords, texts: Sequence[tf.Tensor]) -> Tensors:
    """`embedding` `[B, H]`."""
    features = to.preprocessor(tuple(texts))
    outputs = to.run(features)
    states = outputs["last_hidden_state"]
    if to.pooling == "mean":
        mask = tf.cast(features["attention_mask"], tf.float32)[:, :, None]
        vectors = tf.reduce_sum(states * mask, axis=1) / tf.reduce_sum(mask, axis=1)
    else:
        vectors = states[:, 0] if to.pooling == "cls" else outputs["pooler_output"]
    return {"embedding": tf.math.l2_normalize(vectors, axis=-1) if to.normalize else vectors}


def _with_masks(to: InWords, texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the pieces of texts in which `[MASK]` is a mask, ragged int32 `[B, T]`.

    Drops the lone "▁" between a mask and a full stop, bracket or dash, as `FillMaskPipeline` does.
    """
    tokenizer = to.tokenizer
    mask = tokenizer.mask_token_id
    parts = tf.strings.split(texts, tokenizer.mask_token)
    pieces = to.preprocessor.tokenize(parts.values).with_row_splits_dtype(tf.int64)
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
