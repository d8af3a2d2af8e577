"""Datasets of padded batches, from texts in memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.data.pipeline import Batches
from albert_tf.data.tasks.choices import choice_rows
from albert_tf.data.tasks.classification import text_rows
from albert_tf.data.tasks.questions import question_rows
from albert_tf.data.tasks.rows import Rows
from albert_tf.data.tasks.tagging import word_rows
from albert_tf.options import COUNT, NOT_NEGATIVE, SEED, checks_numbers
from albert_tf.text.base_tokenizer import BaseTokenizer

_numbers = checks_numbers(max_length=COUNT, batch_size=COUNT, seed=SEED, initial_epoch=NOT_NEGATIVE)


@_numbers
def classification_dataset(
    tokenizer: BaseTokenizer,
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    text_pairs: Sequence[str] | None = None,
    *,
    sample_weight: Sequence[float] | None = None,
    max_length: int | None = None,
    batch_size: int = 32,
    shuffle: bool = True,
    seed: int = 0,
    initial_epoch: int = 0,
) -> tf.data.Dataset:
    """Returns batches for `AlbertForSequenceClassification`.

    With labels, texts of similar length are batched together, in a different order each epoch.
    Without labels, the texts keep their order, as needed for `predict`.

    Args:
        tokenizer: the model's tokenizer.
        labels: a class id (int), a score (float), or a list of 0s and 1s (multi-label) per text.
        text_pairs: the second text of each pair.
        sample_weight: weight of each text in the loss. Requires labels.
        max_length: maximum number of tokens in an example. Default: `tokenizer.model_max_length`.
        shuffle: whether to shuffle labeled texts.
        seed: seed for shuffling.
        initial_epoch: epoch at which to start, as in `fit`. `Resume` sets it.
    Raises:
        UserError: the lengths of the columns differ, or labels aren't numbers.

    Example:
        >>> from albert_tf import AlbertForSequenceClassification, AlbertTokenizer
        >>> from albert_tf.data import classification_dataset
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> dataset = classification_dataset(tokenizer, ["Great.", "Boring."], [1, 0])
        >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> model.compile()
        >>> history = model.fit(dataset, verbose=0)
    """
    rows = text_rows(tokenizer, texts, labels, text_pairs, sample_weight, max_length=max_length)
    return _epochs(rows, batch_size, seed, initial_epoch, shuffle)


@_numbers
def question_answering_dataset(
    tokenizer: BaseTokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[Mapping[str, Sequence[Any]]] | None = None,
    *,
    answerability: bool = False,
    max_length: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    initial_epoch: int = 0,
) -> tf.data.Dataset:
    """Returns batches of windows for `AlbertForQuestionAnswering`.

    A long context is split into windows. If a window doesn't contain the whole answer, its label
    is the position of `[CLS]`. Questions whose answer isn't in the context are skipped, and their
    number is logged. Without answers, all rows are padded to the same length, because `predict`
    concatenates batches.

    Args:
        tokenizer: the model's tokenizer.
        answers: for each question, `(text, start)`, or `{"text": […], "answer_start": […]}` as in
            Hugging Face datasets; for an unanswerable question, None or a dict of empty lists.
        answerability: the model's `answerability`; if True, features contain `start_positions`.
        max_length: maximum number of tokens in a window. Default: `tokenizer.model_max_length`.
        seed: seed for shuffling.
        initial_epoch: epoch at which to start, as in `fit`. `Resume` sets it.
    Raises:
        UserError: the lengths of the columns differ, or no context contains its answer.

    Example:
        >>> from albert_tf import AlbertForQuestionAnswering, AlbertTokenizer, ExactMatch
        >>> from albert_tf.data import question_answering_dataset
        >>> tokenizer, answer = AlbertTokenizer.from_pretrained("small"), {"text": ["Lisbon"]}
        >>> columns = ["Where?"], ["She lives in Lisbon."], [{**answer, "answer_start": [13]}]
        >>> dataset = question_answering_dataset(tokenizer, *columns, max_length=64)
        >>> model = AlbertForQuestionAnswering.from_pretrained("small")
        >>> model.compile(metrics=[ExactMatch()])
        >>> history = model.fit(dataset, verbose=0)
    """
    rows = question_rows(
        *(tokenizer, questions, contexts, answers),
        answerability=answerability,
        max_length=max_length,
    )
    if answers is None:
        rows.lengths[:] = rows.lengths.max()
    return _epochs(rows, batch_size, seed, initial_epoch)


@_numbers
def token_classification_dataset(
    tokenizer: BaseTokenizer,
    words: Sequence[Sequence[str]],
    tags: Sequence[Sequence[int]] | None = None,
    *,
    max_length: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    initial_epoch: int = 0,
) -> tf.data.Dataset:
    """Returns batches for `AlbertForTokenClassification`.

    The first token of each word gets the word's tag, and all other positions get -100. A sentence
    of more than `max_length` tokens is split. For the order, see `classification_dataset`.
    Without tags, all rows are padded to the same length, because `predict` concatenates batches.

    Args:
        tokenizer: the model's tokenizer.
        words: a list of words for each sentence.
        tags: a list of class ids for each sentence, one per word.
        max_length: maximum number of tokens in an example. Default: `tokenizer.model_max_length`.
        seed: seed for shuffling.
        initial_epoch: epoch at which to start, as in `fit`. `Resume` sets it.
    Raises:
        UserError: the lengths of the columns differ, or tags aren't class ids.

    Example:
        >>> from albert_tf import AlbertForTokenClassification, AlbertTokenizer
        >>> from albert_tf.data import token_classification_dataset
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> dataset = token_classification_dataset(tokenizer, [["Ada", "ran"]], [[1, 0]])
        >>> model = AlbertForTokenClassification.from_pretrained("small", num_labels=2)
        >>> model.compile()
        >>> history = model.fit(dataset, verbose=0)
    """
    rows = word_rows(tokenizer, words, tags, max_length=max_length)
    if tags is None:
        rows.lengths[:] = rows.lengths.max()
    return _epochs(rows, batch_size, seed, initial_epoch)


@_numbers
def multiple_choice_dataset(
    tokenizer: BaseTokenizer,
    contexts: Sequence[str],
    choices: Sequence[Sequence[str]],
    labels: Sequence[int] | None = None,
    questions: Sequence[str] | None = None,
    *,
    max_length: int | None = None,
    batch_size: int = 16,
    seed: int = 0,
    initial_epoch: int = 0,
) -> tf.data.Dataset:
    """Returns batches for `AlbertForMultipleChoice`, ordered as in `classification_dataset`.

    Each example becomes one sequence per choice. The number of choices may vary.

    Args:
        tokenizer: the model's tokenizer.
        contexts: the first segment of each example. If it is empty, the question is used instead.
        choices: two or more texts for each example.
        labels: the index of the correct choice for each example.
        questions: for each example, a text that precedes every choice.
        max_length: maximum number of tokens in a sequence. Default: `tokenizer.model_max_length`.
        batch_size: number of examples in a batch.
        seed: seed for shuffling.
        initial_epoch: epoch at which to start, as in `fit`. `Resume` sets it.
    Raises:
        UserError: the lengths of the columns differ, an example has fewer than two choices, or a
            label isn't the index of a choice.

    Example:
        >>> from albert_tf import AlbertForMultipleChoice, AlbertTokenizer
        >>> from albert_tf.data import multiple_choice_dataset
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> endings = [["She opened it.", "It flew."], ["He ate it.", "It rained.", "No."]]
        >>> contexts, right = ["A letter came.", "There was soup."], [0, 0]
        >>> dataset = multiple_choice_dataset(tokenizer, contexts, endings, right)
        >>> model = AlbertForMultipleChoice.from_pretrained("small")
        >>> model.compile()
        >>> history = model.fit(dataset, verbose=0)
    """
    rows = choice_rows(tokenizer, contexts, choices, labels, questions, max_length=max_length)
    if labels is None:  # `predict` concatenates its batches
        most = max(len(ids) for ids in rows.arrays["input_ids"])
        for values in rows.arrays.values():
            values[:] = [np.pad(array, ((0, most - len(array)), (0, 0))) for array in values]
    return _epochs(rows, batch_size, seed, initial_epoch)


def _epochs(
    rows: Rows, batch_size: int, seed: int, initial_epoch: int, shuffle: bool = True
) -> tf.data.Dataset:
    rows.warn_of_cut()
    jit_compile = keras.Model().jit_compile  # Keras's default for models
    batches = Batches(rows, batch_size, seed, shuffle=shuffle, jit_compile=jit_compile)
    batches.next_epoch = initial_epoch
    return batches.epochs()
