"""Encodes in-memory texts as rows, or as a dataset of padded batches."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.data.pipeline import Batches
from albert_tf.data.tasks.choices import choice_rows, segments
from albert_tf.data.tasks.classification import encode_texts
from albert_tf.data.tasks.questions import Question, encode_questions, question_of, trainable
from albert_tf.data.tasks.rows import Rows
from albert_tf.data.tasks.tagging import encode_words
from albert_tf.errors import UserError, short_repr
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
        text_pairs: second texts of pairs.
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


def text_rows(
    tokenizer: BaseTokenizer,
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    text_pairs: Sequence[str] | None = None,
    sample_weight: Sequence[float] | None = None,
    *,
    max_length: int | None = None,
) -> Rows:
    """Returns the rows of `classification_dataset`."""
    texts, labels, text_pairs, sample_weight = columns(
        texts=texts, labels=labels, text_pairs=text_pairs, sample_weight=sample_weight
    )
    if labels is not None and np.asarray(labels).dtype.kind not in "iufb":
        raise UserError(
            "labels must be class ids, scores, or lists of 0s and 1s. Received: "
            f"{short_repr(labels[0])}. Map label names to class ids with config.label2id."
        )
    if labels is None and sample_weight is not None:
        raise UserError("sample_weight requires labels.")
    length = max_length or tokenizer.model_max_length
    rows = encode_texts(texts, text_pairs, labels, tokenizer, length)
    rows.warn_of_cut(length)
    if sample_weight is not None:
        rows.weights = [np.float32(weight) for weight in sample_weight]
    return rows


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
    is `[CLS]`. Questions whose answer isn't in the context are skipped, and their number is logged.
    Without answers, all rows are padded to the same length, because `predict` concatenates batches.

    Args:
        tokenizer: the model's tokenizer.
        answers: for each question, `{"text": […], "answer_start": […]}` as in Hugging Face
            datasets (empty lists for an unanswerable question), or `(text, start)`, or None.
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


def question_rows(
    tokenizer: BaseTokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[Any] | None = None,
    *,
    answerability: bool = False,
    max_length: int | None = None,
) -> Rows:
    """Returns the rows of `question_answering_dataset`."""
    examples = questions_of(questions, contexts, answers)
    used = examples if answers is None else trainable(examples)
    length = max_length or tokenizer.model_max_length
    rows = encode_questions(used, tokenizer, length, answerability)
    numbers = {question.id: number for number, question in enumerate(examples)}
    rows.examples = np.array([numbers[used[row].id] for row in rows.examples])
    rows.count = len(examples)
    return rows


def questions_of(
    questions: Sequence[str], contexts: Sequence[str], answers: Sequence[Any] | None = None
) -> list[Question]:
    """Returns the examples in the columns of `question_answering_dataset`."""
    questions, contexts, answers = columns(questions=questions, contexts=contexts, answers=answers)
    return [
        question_of(
            *(question, contexts[row]),
            None if answers is None else _answers(answers[row], row),
            f"number {row}",
        )
        for row, question in enumerate(questions)
    ]


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


def word_rows(
    tokenizer: BaseTokenizer,
    words: Sequence[Sequence[str]],
    tags: Sequence[Sequence[int]] | None = None,
    *,
    max_length: int | None = None,
) -> Rows:
    """Returns the rows of `token_classification_dataset`."""
    words, tags = columns(words=words, tags=tags)
    for number, sentence in enumerate(words):
        given = sentence if tags is None else tags[number]
        if isinstance(sentence, str) or len(sentence) != len(given):
            raise UserError(
                "Each sentence must be a list of words with a tag for each word. Received: "
                f"{short_repr(sentence)} with {short_repr(given)}."
            )
        if others := [word for word in sentence if not isinstance(word, str | bytes)]:
            raise UserError(
                f"Words must be strings. Received: {short_repr(others[0])} in sentence {number}, "
                f"{short_repr(sentence)}. Convert numbers with str(word), and drop missing values."
            )
    if tags is not None and any(
        len(row) and np.asarray(row).dtype.kind not in "iu" for row in tags
    ):
        raise UserError(
            f"tags must be class ids. Received: {short_repr(tags[0])}. "
            "Map label names to class ids with config.label2id."
        )
    return encode_words(words, tags, tokenizer, max_length or tokenizer.model_max_length)


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
        contexts: first segments. If a context is empty, the question is the first segment.
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
    rows = choice_rows_of(tokenizer, contexts, choices, labels, questions, max_length=max_length)
    if labels is None:  # `predict` concatenates its batches
        most = max(len(ids) for ids in rows.arrays["input_ids"])
        for values in rows.arrays.values():
            values[:] = [np.pad(array, ((0, most - len(array)), (0, 0))) for array in values]
    return _epochs(rows, batch_size, seed, initial_epoch)


def choice_rows_of(
    tokenizer: BaseTokenizer,
    contexts: Sequence[str],
    choices: Sequence[Sequence[str]],
    labels: Sequence[int] | None = None,
    questions: Sequence[str] | None = None,
    *,
    max_length: int | None = None,
) -> Rows:
    """Returns the rows of `multiple_choice_dataset`."""
    contexts, choices, labels, questions = columns(
        contexts=contexts, choices=choices, labels=labels, questions=questions
    )
    for number, texts in enumerate(choices):
        label = None if labels is None else labels[number]
        has_label = label is None or label in range(len(texts))
        if len(texts) < 2 or isinstance(texts, str) or not has_label:
            raise UserError(
                "Each example must have at least two choices, and its label must be the index of "
                f"a choice. Received: {short_repr(texts)} with label {label} in example {number}."
            )
    pairs = list(map(segments, contexts, questions or [""] * len(contexts), choices))
    return choice_rows(pairs, labels, tokenizer, max_length or tokenizer.model_max_length)


def _epochs(
    rows: Rows, batch_size: int, seed: int, initial_epoch: int, shuffle: bool = True
) -> tf.data.Dataset:
    jit_compile = keras.Model().jit_compile  # Keras's default for models
    batches = Batches(rows, batch_size, seed, shuffle=shuffle, jit_compile=jit_compile)
    batches.next_epoch = initial_epoch
    return batches.epochs()


def _answers(answer: Any, row: int) -> Mapping[str, Sequence[Any]]:
    """Returns a question's answers as a dict with the columns "text" and "answer_start"."""
    if answer is None:
        return {"text": [], "answer_start": []}
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str):
        return {"text": [answer[0]], "answer_start": [answer[1]]}
    columns = ("text", "answer_start")
    if isinstance(answer, Mapping) and all(np.ndim(answer.get(name, "")) == 1 for name in columns):
        return answer
    raise UserError(
        "An answer must be (text, start), None for an unanswerable question, or "
        f"{{'text': [...], 'answer_start': [...]}}. Received: {short_repr(answer)} in row {row}."
    )


def columns(**given: Iterable[Any] | None) -> tuple[Any, ...]:
    """Converts columns to lists, because a pandas Series is indexed by label. None is kept.

    Raises:
        UserError: a column is a single text, the columns are empty, or their lengths differ.
    """
    for name, values in given.items():
        if isinstance(values, str):
            raise UserError(f"{name} must be a list. Received: {short_repr(values)}.")
    lists = {name: None if values is None else list(values) for name, values in given.items()}
    for name, values in lists.items():
        for row, value in enumerate(values or ()):
            if isinstance(value, float) and math.isnan(value):
                raise UserError(
                    f"{name} must not contain missing values. Received: nan in row {row}. Drop the "
                    "row, or replace the value."
                )
    lengths = {name: len(values) for name, values in lists.items() if values is not None}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise UserError(
            "All columns must have one value per example. Received: "
            f"{', '.join(f'{number} {name}' for name, number in lengths.items())}."
        )
    return tuple(lists.values())
