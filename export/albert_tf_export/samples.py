"""Texts that expose differences between an export and Keras, with Keras's outputs for them."""

import itertools
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.classification import text_sequences
from albert_tf.data.tasks.rows import Rows, features_of
from albert_tf.models.base import PreTrainedModel
from albert_tf.runtimes.run import without_objects
from albert_tf.tasks import BEAM
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import ends_in_digit_comma
from albert_tf_export.check import Case, Row
from albert_tf_export.report import ParityError
from albert_tf_export.signatures import (
    IDS,
    MASKED,
    POSITIONS,
    TEXT,
    TEXT_PAIR,
    at_least,
    with_task_outputs,
)

TEXTS: Final = (
    "A quiet delight from start to finish.",
    "",
    "Crème brûlée costs 12 euros, and the café is NEVER closed on a Sunday!",
    "  spaces \t inside, and around  ",
    "Ταξίδι στην Αθήνα; 東京への旅 🦕 ﬁne",
    "In 1999, about 20,000 people came: [MASK] was not among them.",
    "A NUL inside\0 and at the end\0",
    "slow",
)
# Characters of one to four bytes in UTF-8, most of which no vocabulary contains.
RARE: Final = "~^`|\x7f¤ÞßЖ܀日ᚠ‱ﷺ\ufffd🦕𝔞\U000e0041"
MOST_ROWS: Final = 4  # maximum number of texts made from the vocabulary
CLOSE: Final = 1e-3  # Sums of scores that differ by less than this are treated as equal.


def sample(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    max_length: int,
    pairs: bool,
    choices: int = 3,
    predictions: int = 2,
    in_words: Callable[..., Mapping[str, tf.Tensor]] | None = None,
) -> dict[str, Case]:
    """Runs texts, including one longer than `max_length`, through the Python tokenizer and Keras.

    Args:
        model: model in float32.
        choices: C, the number of choices for multiple choice.
        predictions: P, the number of positions to score.
        in_words: function that maps strings to outputs, if the `text` signature returns text (see
            `words.py`).
    Returns:
        A case for each signature that an export of the model may have.
    """
    has_choices = model.task.has_choices
    texts = _texts(tokenizer, max_length, pairs, choices if has_choices else None)
    ids, pieces, with_ids, expected = [], [], [], []
    for row in texts:
        given = row if has_choices else {name: [text] for name, text in row.items()}
        sequences, _ = text_sequences(tokenizer, given[TEXT], given.get(TEXT_PAIR), max_length)
        rows = {
            name: [values.tolist() for values in arrays]
            for name, arrays in features_of(sequences).items()
        }
        features = Rows.of_choices([sequences], {}, tokenizer.pad_token_id).arrays
        pieces.append(features["input_ids"][0].shape[-1])
        ids.append(rows if has_choices else {name: values[0] for name, values in rows.items()})
        batch = {name: array[None] if has_choices else array for name, [array] in features.items()}
        inputs = batch
        if model.config.answerability:  # A beam needs at least as many positions as its width.
            inputs = {name: at_least(BEAM, value) for name, value in batch.items()}
        outputs = with_task_outputs(model, model(dict(inputs), training=False))
        expected.append({name: np.asarray(np.asarray(value)[0]) for name, value in outputs.items()})
        with_ids.append({**expected[-1], **{name: value[0] for name, value in batch.items()}})
    cases = {
        IDS: Case(ids, expected, pieces),
        TEXT: Case(texts, with_ids if model.task.outputs_by_token else expected, pieces),
    }
    if in_words is not None:
        cases[TEXT] = _text_case(texts, in_words)
    if model.task.takes_positions:  # the rows of `ids`, scored at some positions
        positions = [[7 * number % count for number in range(predictions)] for count in pieces]
        cases[MASKED] = Case(
            [{**row, POSITIONS: chosen} for row, chosen in zip(ids, positions, strict=True)],
            [
                {name: value[chosen] if value.ndim == 2 else value for name, value in row.items()}
                for row, chosen in zip(expected, positions, strict=True)
            ],
            [-1] * len(ids),
        )
    return cases


def _text_case(texts: Sequence[Row], answer: Callable[..., Mapping[str, tf.Tensor]]) -> Case:
    """Runs `answer` on each row. For token classification, words are compared instead of tokens."""
    rows = []
    for row in texts:
        answers = answer(*(tf.constant([row[name]]) for name in (TEXT, TEXT_PAIR) if name in row))
        values = {name: np.asarray(np.asarray(value)[0]) for name, value in answers.items()}
        rows.append({name: without_objects(value) for name, value in values.items()})
    ties = [name for name, value in rows[0].items() if value.dtype.kind != "f"]
    pieces = [len(row["words"]) if "words" in row else -1 for row in rows]
    return Case(texts, rows, pieces, ties=ties)


def numeric(case: Case, names: Sequence[str] = ()) -> Case:
    """Keeps only the outputs with these names, or all numeric outputs if `names` is empty."""
    return case._replace(
        expected=[
            {
                name: value
                for name, value in row.items()
                if (name in names if names else value.dtype.kind in "if")
            }
            for row in case.expected
        ]
    )


def check_tokens(tokenizer: BaseTokenizer) -> None:
    """Compares the ids from Python with the ids from the operator in the graph.

    The texts contain the probes of `vocabulary_texts`, `RARE` characters, and every token of the
    vocabulary. Each token occurs unchanged, in capitals, with decomposed accents, and followed by
    the next token. Two segmentations with the same score count as equal, because float32 rounding
    decides between them.

    Raises:
        ParityError: if a text has different ids in the graph.
    """
    if not isinstance(tokenizer, AlbertTokenizer):  # WordPiece uses the same operator in Python.
        return
    tokens = [token.replace(SPACE, " ") for token in tokenizer.get_vocab()]
    texts = [
        *tokens,
        *map(str.upper, tokens),
        *(unicodedata.normalize("NFD", token).title() for token in tokens),
        *(first + second for first, second in itertools.pairwise(tokens)),
        *(f"a{character}b {character}" for character in RARE),
        *_probes(tokenizer),
        *TEXTS,
    ]
    ours = tokenizer.encode_plain(texts)
    theirs = tokenizer.in_graph().tokenize(tf.constant([text.encode() for text in texts]))
    pieces = ModelProto.FromString(tokenizer.model_bytes).pieces
    scores = np.array([piece.score for piece in pieces])
    for text, wanted, actual in zip(texts, ours, theirs.numpy().tolist(), strict=True):
        if wanted.tolist() == list(actual):
            continue
        python, graph = map(tokenizer.convert_ids_to_tokens, (wanted.tolist(), list(actual)))
        is_tie = abs(scores[wanted].sum() - scores[actual].sum()) < CLOSE
        if is_tie and "".join(python) == "".join(graph) and tokenizer.unk_token not in python:
            continue
        raise ParityError(
            f"{text!r} has different tokens in Python ({' '.join(python)!r}) and in the graph "
            f"({' '.join(graph)!r}). Report this as a bug, or export with ids_only=True."
        )


def vocabulary_texts(tokenizer: BaseTokenizer, room: int) -> list[str]:
    """Returns texts of at most `room` tokens that cover every kind of token in a vocabulary."""
    rows, left = [""], room
    for probe in _probes(tokenizer):
        size = len(tokenizer.encode_plain([probe])[0])
        if size > left:
            rows, left = [*rows, ""], room
        if size <= left:
            rows[-1] += f" {probe}"
            left -= size
    return [row for row in rows if row][:MOST_ROWS]


def _probes(tokenizer: BaseTokenizer) -> list[str]:
    """Returns a text for each kind of token, character, and script in a vocabulary."""
    tokens = [token for token in tokenizer.get_vocab() if token not in tokenizer.all_special_tokens]
    kinds = dict(zip(map(_kind, reversed(tokens)), reversed(tokens), strict=True))
    plain = [token.replace(SPACE, " ").strip() for token in kinds.values()]
    unknown: dict[int, str] = {}
    for character, encoded in zip(RARE, tokenizer.tokens_of(list(RARE)), strict=True):
        if tokenizer.unk_token_id in encoded.ids:
            unknown.setdefault(len(character.encode()), character)
    return [
        *unknown.values(),
        " ".join(tokenizer.all_special_tokens),
        *filter(None, plain),
        *(token.upper() for token in plain if token.upper() != token),
        *(unicodedata.normalize("NFD", token) for token in plain if not token.isascii()),
    ]


def _kind(token: str) -> tuple[object, ...]:
    """Returns token properties that may affect a runtime's behavior.

    These are the position in a word, and the script and category of the first character.
    """
    text = token.lstrip(SPACE)
    first = text[:1] or SPACE
    script = unicodedata.name(first, "").split(" ")[0] if first.isalpha() else ""
    category = unicodedata.category(first)
    return token.startswith(SPACE), len(text) > 1, script, category, ends_in_digit_comma(token)


def _texts(
    tokenizer: BaseTokenizer, max_length: int, pairs: bool, choices: int | None
) -> list[Row]:
    is_pair = pairs or choices is not None
    room = (max_length - tokenizer.num_special_tokens_to_add(is_pair)) // (1 + is_pair)
    first = [*TEXTS, *vocabulary_texts(tokenizer, room), "on and on " * max_length]
    second = [*first[1:], first[0]]
    if choices is not None:
        turned = [[*second[at:], *second[:at]] for at in range(choices)]
        return [
            {TEXT: [text] * choices, TEXT_PAIR: list(others)}
            for text, *others in zip(first, *turned, strict=True)
        ]
    if pairs:
        return [{TEXT: text, TEXT_PAIR: pair} for text, pair in zip(first, second, strict=True)]
    return [{TEXT: text} for text in first]
