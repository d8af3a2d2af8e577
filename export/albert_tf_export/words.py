"""The outputs of a SavedModel's `text` signature: answers, tagged words, or sentence embeddings.

`albert_tf.pipelines` and `albert_tf.text` compute the same results in Python.
"""

import functools
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.layers.encoder import Unroll
from albert_tf.models import AlbertForQuestionAnswering, AlbertForTokenClassification
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.answers import BRACKETS, CLS, DEPLOYED, INVISIBLE, MARKS, NOWHERE
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.sequences import special_count
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf_export.letters import Alphabet
from albert_tf_export.options import refuse_left
from albert_tf_export.signatures import Tensors, task_outputs


def text_function(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    preprocessor: AlbertPreprocessor,
    *,
    unroll: Unroll,
    pairs: bool = False,
    embedding: SentenceEmbedding | None = None,
) -> Callable[..., Tensors] | None:
    """Returns a function that maps one or two string tensors `[B]` to text outputs or embeddings.

    Returns None if the model's task or vocabulary isn't supported. Encoders require pooling.
    Answers and tagged words require a SentencePiece vocabulary, because the graph computes offsets.
    Token classification supports only single texts.

    Args:
        preprocessor: layer that converts texts to the model's inputs.
        unroll: see `task_outputs`.
        embedding: how to compute a text's embedding from the encoder's states; only for encoders.
    """
    is_answerer = isinstance(model, AlbertForQuestionAnswering)
    if embedding is None:
        is_tagger = isinstance(model, AlbertForTokenClassification) and not pairs
        if not (is_answerer or is_tagger) or not isinstance(tokenizer, AlbertTokenizer):
            return None
        refuse_left(tokenizer, "An export that returns offsets into the text")

    def function(*texts: tf.Tensor) -> Tensors:
        tokens = [preprocessor.tokenize(text) for text in texts]
        features = preprocessor.rows(tokens)
        outputs = task_outputs(model, features, unroll)
        if embedding is not None:
            mask = tf.cast(features["attention_mask"], tf.float32)
            return {"embedding": embedding(outputs["last_hidden_state"], mask, keras.ops)}
        ids = tf.pad(tokens[-1][:, : preprocessor.max_length].to_tensor(), [[0, 0], [0, 1]])
        pieces = of_pieces(tokenizer, texts[-1], ids)
        if is_answerer:
            sizes = preprocessor.kept_lengths(tokens)[-1]
            return answers(model, pieces, features, sizes, outputs)
        return tags(tokenizer, pieces, features, outputs)

    return function


def tags(
    tokenizer: BaseTokenizer, pieces: "Pieces", features: Tensors, outputs: Tensors
) -> Tensors:
    """Returns each word's label and score, taken from its first token.

    All outputs are `[B, W]`, padded with "" or 0. `words` and `labels` are strings, `scores` is
    float32, and `starts`, `ends`, `start_bytes`, and `end_bytes` are int32.
    """
    number = tf.zeros_like(pieces.ids) + tf.range(tf.shape(pieces.ids)[1])
    length = tf.reduce_sum(features["attention_mask"], axis=1, keepdims=True)
    inside = number < length - special_count(False)
    is_same_character = tf.pad(pieces.starts[:, 1:] < pieces.ends[:, :-1], [[0, 0], [1, 0]])
    begins = pieces.begin_words | (number == 0) | (pieces.ids == tokenizer.unk_token_id)
    begins &= ~is_same_character  # tokens that share a character ("½") are one word
    is_next_same = tf.pad((inside & ~begins)[:, 1:], [[0, 0], [0, 1]])
    firsts = tf.ragged.boolean_mask(number, inside & begins)
    lasts = tf.ragged.boolean_mask(number, inside & ~is_next_same)
    first, last = (tf.pad(each.to_tensor(), [[0, 0], [0, 1]]) for each in (firsts, lasts))
    found = pieces.characters.read(at(pieces.starts, first), at(pieces.ends, last))
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


class Spans(NamedTuple):
    """The best spans of each row, best first, `[B, 12]`; see `albert_tf.text.answers.best_spans`.

    Attributes:
        starts, ends: indices of the first and last token in the context, int32.
        scores: probabilities, or 0 if there is no span.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


def answers(
    model: AlbertForQuestionAnswering,
    pieces: "Pieces",
    features: Tensors,
    sizes: tf.Tensor,
    outputs: Tensors,
) -> Tensors:
    """Returns the best answer to each question, and the probability of no answer.

    All outputs are `[B]`. `answer` is a string, `start`, `end`, `start_byte`, and `end_byte` are
    int32, and `score` and `no_answer_score` are float32. `answer` is "" if no span was found, or if
    the null score exceeds a fine-tuned model's threshold (`config.thresholds`).

    Args:
        pieces: tokens `[B, P]` of the contexts, and their character spans.
        features, outputs: the model's inputs `[B, T]`, and its outputs.
        sizes: number of context tokens among the inputs, `[B, 1]`.
    """
    length = tf.reduce_sum(features["attention_mask"], axis=1, keepdims=True)
    first, number = length - sizes - 1, tf.range(tf.shape(pieces.starts)[1])[None]  # before [SEP]
    inside = number < sizes
    if "cls_logits" in outputs:
        spans, none = _beam_spans(outputs, first, inside), tf.sigmoid(outputs["cls_logits"])
        null_score = outputs["cls_logits"]
    else:
        positions = tf.minimum(first + number, tf.shape(outputs["start_logits"])[1] - 1)
        spans, none, null_score = _logit_spans(outputs, positions, inside)

    starts, ends = _whole_words(spans, pieces, inside)
    found = pieces.characters.read(at(pieces.starts, starts), at(pieces.ends, ends))
    is_answer = (spans.scores > 0) & (found["text"] != "")
    scores = _merge_scores(found["text"], tf.where(is_answer, spans.scores, 0.0))
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


def _logit_spans(
    outputs: Tensors, positions: tf.Tensor, inside: tf.Tensor
) -> tuple[Spans, tf.Tensor, tf.Tensor]:
    """Returns the best spans, the probability of no answer, and the null score.

    The null score is the sum of `[CLS]`'s two logits minus the sum for the best span.
    """
    logits = [outputs[name] for name in ("start_logits", "end_logits")]
    none_logits = [each[:, CLS : CLS + 1] for each in logits]
    inner = [tf.where(inside, at(each, positions), NOWHERE) for each in logits]
    probabilities = [
        tf.nn.softmax(tf.concat(each, axis=1)) for each in zip(none_logits, inner, strict=True)
    ]
    none = probabilities[0][:, 0] * probabilities[1][:, 0]
    first, last = (tf.where(inside, each[:, 1:], 0.0) for each in probabilities)

    count = tf.shape(inside)[1]
    followers = tf.pad(last, [[0, 0], [0, DEPLOYED.longest - 1]])
    each_end = tf.stack(
        [followers[:, more : more + count] for more in range(DEPLOYED.longest)], axis=-1
    )
    products = tf.reshape(first[:, :, None] * each_end, [-1, count * DEPLOYED.longest])
    scores, index = tf.math.top_k(products, DEPLOYED.spans)
    starts = index // DEPLOYED.longest
    spans = Spans(starts, tf.minimum(starts + index % DEPLOYED.longest, count - 1), scores)

    sums = at(inner[0], spans.starts) + at(inner[1], spans.ends)
    best = tf.where(scores[:, 0] > 0, sums[:, 0], 0.0)
    return spans, none, tf.add_n(none_logits)[:, 0] - best


def _beam_spans(outputs: Tensors, first: tf.Tensor, inside: tf.Tensor) -> Spans:
    """Returns the best spans from the beam of the SQuAD 2.0 head."""
    starts, ends = outputs["start_top_index"] - first, outputs["end_top_index"] - first
    beam = starts.shape[1]
    log_probs = tf.repeat(outputs["start_top_log_probs"], beam, axis=1)
    scores = tf.exp(log_probs + outputs["end_top_log_probs"])
    starts = tf.repeat(starts, beam, axis=1)
    is_span = (starts <= ends) & (ends < starts + DEPLOYED.longest)
    is_span &= (starts >= 0) & (ends < tf.reduce_sum(tf.cast(inside, tf.int32), 1, keepdims=True))
    scores, index = tf.math.top_k(tf.where(is_span, scores, 0.0), DEPLOYED.spans)
    most = tf.shape(inside)[1] - 1
    starts, ends = (tf.clip_by_value(at(each, index), 0, most) for each in (starts, ends))
    return Spans(starts, ends, scores)


def _whole_words(spans: Spans, pieces: "Pieces", inside: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Extends spans to whole words, but not to the punctuation around them."""
    word = tf.cumsum(tf.cast(pieces.begin_words, tf.int32), axis=1)
    word = tf.where(inside, word, tf.shape(word)[1] + 1)
    low = tf.searchsorted(word, at(word, spans.starts))
    high = tf.searchsorted(word, at(word, spans.ends), side="right") - 1
    seen = tf.cumsum(tf.cast(~pieces.are_marks(), tf.int32), axis=1)  # number of other tokens
    before = at(tf.pad(seen, [[0, 0], [1, 0]]), low)
    low = tf.minimum(tf.searchsorted(seen, before + 1), spans.starts)
    return low, tf.maximum(tf.searchsorted(seen, at(seen, high)), spans.ends)


def _merge_scores(texts: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Assigns the total score of equal texts to the first one, and 0 to the others."""
    # tf.strings.lower stops at NUL.
    lower = tf.strings.lower(tf.strings.regex_replace(texts, r"\x00", "\x01"), encoding="utf-8")
    same = (lower[:, :, None] == lower[:, None, :]) & (scores[:, None, :] > 0)
    total = tf.reduce_sum(tf.where(same, scores[:, None, :], 0.0), axis=2)
    earlier = tf.linalg.band_part(tf.cast(same, tf.int32), -1, 0)
    is_first = (scores > 0) & (tf.reduce_sum(earlier, axis=2) == 1)
    return tf.where(is_first, total, 0.0)


class Characters:
    """The characters of strings `[B]`.

    Attributes:
        texts: the strings.
        points: code points, int32 `[B, C]`, padded with 0.
        first_bytes: index of each character's first byte, int32 `[B, C]`, padded with the number of
            bytes in the text.
    """

    def __init__(self, texts: tf.Tensor):
        points, first_bytes = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        self.texts = texts
        self.points = tf.pad(points.to_tensor(), [[0, 0], [0, 1]])  # one more for the end
        inside = tf.sequence_mask(points.row_lengths(), tf.shape(self.points)[1])
        known = tf.pad(tf.cast(first_bytes.to_tensor(), tf.int32), [[0, 0], [0, 1]])
        self.first_bytes = tf.where(inside, known, tf.strings.length(texts)[:, None])

    def at_bytes(self, byte: tf.Tensor) -> tf.Tensor:
        """Returns the index of the character at each byte offset, `[B, N]`."""
        return tf.searchsorted(self.first_bytes, byte)

    def are(self, members: Sequence[int]) -> tf.Tensor:
        """Returns whether each character is one of these sorted code points, bool `[B, C]`."""
        known = tf.constant(members)
        flat = tf.reshape(self.points, [-1])
        index = tf.minimum(tf.searchsorted(known, flat), len(members) - 1)
        return tf.reshape(tf.gather(known, index) == flat, tf.shape(self.points))

    def read(self, starts: tf.Tensor, ends: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns spans of the texts, without invisible characters at either end.

        Args:
            starts, ends: indices of characters, int32 `[B, N]`.
        Returns:
            A string `text` and int32 `start`, `end`, `start_byte`, and `end_byte`, all `[B, N]`.
        """
        are_visible = ~self.are(of_categories(INVISIBLE))
        start = tf.minimum(_next_true(are_visible, starts), ends)
        end = _end_of_last(are_visible, ends)
        end = tf.maximum(tf.minimum(end, ends), start)
        first, last = at(self.first_bytes, start), at(self.first_bytes, end)
        text = tf.strings.substr(self.texts[:, None], first, last - first)
        return {"text": text, "start": start, "end": end, "start_byte": first, "end_byte": last}


class Pieces(NamedTuple):
    """The tokens of a batch of texts, and the character span of each token.

    Attributes:
        characters: characters of the texts, up to the last token.
        ids: int32 `[B, P]`.
        starts, ends: the start and end character of each token, int32 `[B, P]`.
        begin_words: whether a token starts a word, bool `[B, P]`.
    """

    characters: Characters
    ids: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    begin_words: tf.Tensor

    def are_marks(self) -> tf.Tensor:
        """Returns whether each token consists only of characters in `marks`."""
        letters = ~self.characters.are(marks())
        before = tf.cumsum(tf.cast(letters, tf.int32), axis=1, exclusive=True)
        return at(before, self.starts) == at(before, self.ends)


def of_pieces(tokenizer: BaseTokenizer, texts: tf.Tensor, ids: tf.Tensor) -> Pieces:
    """Returns tokens and the character span of each, as `albert_tf.text.tokenizer` does.

    A token covers as many known letters of the normalized text as it contains. An unknown token
    covers the letters between its neighbors.

    Args:
        texts: string `[B]`.
        ids: first tokens of the texts, int32 `[B, P]`, P > 0, from `AlbertPreprocessor.tokenize`.
    """
    alphabet = Alphabet(tokenizer)
    counts = tf.cast(tf.gather(alphabet.counts(), ids), tf.int32)
    known, before, after = tf.unstack(counts, axis=-1)
    read = tf.cumsum(known, axis=1)
    are_known, origins = alphabet.read(texts, read[:, -1])

    seen = tf.cumsum(tf.cast(are_known, tf.int32), axis=1)
    first = tf.searchsorted(seen, read - known + 1) - before
    last = tf.searchsorted(seen, read) + after
    after_previous = tf.pad(last[:, :-1] + 1, [[0, 0], [1, 0]])
    before_next = tf.pad(first[:, 1:] - 1, [[0, 0], [0, 1]])
    first = tf.where(known > 0, first, after_previous)
    last = tf.where(known > 0, last, before_next)

    tokens = tokenizer.convert_ids_to_tokens(list(range(tokenizer.vocab_size)))
    begin_words = tf.gather([token.startswith(SPACE) for token in tokens], ids)
    is_space = ids == tokenizer.convert_tokens_to_ids(SPACE)
    first += tf.cast(begin_words & ~is_space, tf.int32)
    end = tf.shape(origins)[1] - 1
    first, last = (tf.clip_by_value(index, 0, end) for index in (first, last))
    # A character that normalizes to several letters (such as a ligature) belongs to every token
    # that contains one of them, and one that normalizes to none belongs to the character before it.
    after_last = tf.searchsorted(origins, at(origins, last), side="right")
    starts, ends = at(origins, first), at(origins, tf.minimum(after_last, end))
    # A "▁" that was added before the text corresponds to no character in it.
    is_added = is_space & (tf.range(tf.shape(ids)[1]) == 0)
    ends = tf.where(is_added, starts, tf.maximum(starts, ends))

    size = tf.reduce_max(ends, axis=1)
    characters = Characters(tf.strings.substr(texts, tf.zeros_like(size), size))
    starts, ends = characters.at_bytes(starts), characters.at_bytes(ends)
    return Pieces(characters, ids, starts, ends, begin_words)


def at(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Returns values `[B, C]` at indices `[B, N]`."""
    return tf.gather(values, index, batch_dims=1)


def _next_true(are: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """Returns the index of the first True at or after each start, or the length if none follows."""
    seen = tf.cumsum(tf.cast(are, tf.int32), axis=1)
    return tf.searchsorted(seen, at(tf.pad(seen, [[0, 0], [1, 0]]), starts) + 1)


def _end_of_last(are: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the index just after the last True before each end, or 1 if there is none."""
    seen = tf.cumsum(tf.cast(are, tf.int32), axis=1)
    return tf.searchsorted(seen, at(tf.pad(seen, [[0, 0], [1, 0]]), ends)) + 1


@functools.cache
def of_categories(names: Sequence[str]) -> Sequence[int]:
    """Returns the code points in these Unicode categories."""
    points = range(sys.maxunicode + 1)
    return [point for point in points if unicodedata.category(chr(point)) in names]


@functools.cache
def marks() -> Sequence[int]:
    """Returns the code points of brackets, quotation and other marks, and invisible characters."""
    return sorted({*of_categories((*BRACKETS, *INVISIBLE)), *map(ord, MARKS)})
