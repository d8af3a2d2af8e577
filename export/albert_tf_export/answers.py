"""The answer to each question of a batch, in the graph: `QuestionAnsweringPipeline` for one window.

`albert_tf.text.answers` is the same in NumPy.
"""

from typing import Final, NamedTuple

import tensorflow as tf

from albert_tf.models import AlbertForQuestionAnswering
from albert_tf.text.answers import CLS, NOWHERE
from albert_tf_export.characters import Pieces, at
from albert_tf_export.task_outputs import Tensors

LONGEST: Final = 15  # pieces of an answer
CANDIDATES: Final = 12  # spans whose scores are added if they have the same text


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
    model: AlbertForQuestionAnswering, pieces: Pieces, features: Tensors, outputs: Tensors
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
        odds = outputs["cls_logits"]
    else:
        positions = tf.minimum(first + number, tf.shape(outputs["start_logits"])[1] - 1)
        spans, none, odds = _of_logits(outputs, positions, inside)

    starts, ends = _whole_words(spans, pieces, inside)
    found = pieces.read(at(pieces.starts, starts), at(pieces.ends, ends))
    is_answer = (spans.scores > 0) & (found["text"] != "")
    scores = _merged(found["text"], tf.where(is_answer, spans.scores, 0.0))
    best = tf.argmax(scores, axis=1, output_type=tf.int32)[:, None]
    is_none = ~tf.reduce_any(is_answer, axis=1)
    score = tf.where(is_none, 0.0, at(scores, best)[:, 0])
    if model.config.thresholds:
        is_none |= odds > model.config.thresholds[0]
        score = tf.where(is_none, none, score)
    chosen = {name: at(value, best)[:, 0] for name, value in found.items()}
    answer = {
        name: tf.where(is_none, tf.zeros_like(value), value) for name, value in chosen.items()
    }
    return {"answer": answer.pop("text"), **answer, "score": score, "no_answer_score": none}


def _of_logits(
    outputs: Tensors, positions: tf.Tensor, inside: tf.Tensor
) -> tuple[Spans, tf.Tensor, tf.Tensor]:
    """Returns the best spans, the probability of no answer, and how far that is ahead."""
    logits = [outputs[name] for name in ("start_logits", "end_logits")]
    none_logits = [each[:, CLS : CLS + 1] for each in logits]
    inner = [tf.where(inside, at(each, positions), NOWHERE) for each in logits]
    odds = [tf.nn.softmax(tf.concat(each, axis=1)) for each in zip(none_logits, inner, strict=True)]
    none = odds[0][:, 0] * odds[1][:, 0]
    first, last = (tf.where(inside, each[:, 1:], 0.0) for each in odds)

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


def _whole_words(spans: Spans, pieces: Pieces, inside: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
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
