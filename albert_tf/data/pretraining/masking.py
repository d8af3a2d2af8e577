"""n-gram masking of whole words: finds where words begin, and chooses the tokens to mask.

Source: ALBERT, arXiv 1909.11942, section 4.1, and the original's create_pretraining_data.py, with
two deliberate differences: an n-gram never crosses from one segment into the other, and the random
replacement token is never a special token.

`xp` is the module of array operations: `numpy_ops` (NumPy) or `tf_ops` (TensorFlow).
"""

import base64
import string
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from albert_tf.data.pretraining import numpy_ops, rng
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.pairs import Pairs
from albert_tf.tasks import IGNORED
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.scripts import is_unspaced
from albert_tf.text.tokenizer import AlbertTokenizer

MASKED: Final = 0.8  # fraction of predicted tokens replaced with [MASK]
UNCHANGED: Final = 0.9  # draws from 0.8 to 0.9 keep the token; higher ones pick a random token
ORDER, NGRAM, REPLACE, RANDOM = range(16, 20)  # random number streams
WordRule = Literal["original", "spaces", "wordpiece"]
# SHA-256 of the spiece.model that all published English models use.
PUBLISHED: Final = "fefb02b667a6c5c2fe27602d28e5fb3428f66ab89c7d6f388e7c8d44a02d0336"
# The original's punctuation lacks these four, so a piece that contains one begins a word.
_PUNCTUATION: Final = frozenset(string.punctuation) - frozenset("'<=>")
_CONTINUING: Final = frozenset(string.ascii_letters) | _PUNCTUATION
_WORDPIECE_CONTINUES: Final = "##"


class WordTable(NamedTuple):
    """The properties of a vocabulary that masking depends on.

    Attributes:
        starts: bool `[V]`, whether a token always begins a word.
        random_ids: int32 `[K]`, random replacements: all tokens except the special ones.
        pad_id, classify_id, separate_id, mask_id: ids of the special tokens.
        rule: rule that `word_starts` applied.
    """

    starts: np.ndarray
    random_ids: np.ndarray
    pad_id: int
    classify_id: int
    separate_id: int
    mask_id: int
    rule: WordRule = "original"

    def as_json(self) -> dict[str, Any]:
        """Returns the table as JSON. Booleans are packed into bits and base64-encoded."""
        is_random = np.isin(np.arange(len(self.starts)), self.random_ids)
        bits = (np.packbits(flags).tobytes() for flags in (self.starts, is_random))
        starts, random = (base64.b64encode(content).decode() for content in bits)
        rest = {name: getattr(self, name) for name in self._fields[2:]}
        return {"vocab_size": len(self.starts), "starts": starts, "random": random, **rest}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "WordTable":
        """Reads a table from the result of `as_json`.

        Raises:
            ValueError, KeyError, TypeError: the content isn't a word table.
        """
        starts, is_random = (
            np.unpackbits(np.frombuffer(base64.b64decode(content[name]), np.uint8)).astype(bool)[
                : content["vocab_size"]
            ]
            for name in ("starts", "random")
        )
        rest = {name: content[name] for name in cls._fields[2:] if name in content}
        table = cls(starts, np.flatnonzero(is_random).astype(np.int32), **rest)
        ids = (table.pad_id, table.classify_id, table.separate_id, table.mask_id)
        size = content["vocab_size"]
        if {len(starts), len(is_random)} != {size} or not all(0 <= id < size for id in ids):
            raise ValueError("the table is for a vocabulary of a different size")
        return table


def word_table(tokenizer: BaseTokenizer) -> WordTable:
    """Returns the word table of a tokenizer's vocabulary."""
    pieces = tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size))
    rule = word_rule(tokenizer)
    special = np.isin(np.arange(len(pieces)), tokenizer.all_special_ids)
    starts = word_starts(pieces, rule)
    starts[tokenizer.unk_token_id] = True
    return WordTable(
        starts=starts,
        random_ids=np.flatnonzero(~special).astype(np.int32),
        pad_id=tokenizer.pad_token_id,
        classify_id=tokenizer.cls_token_id,
        separate_id=tokenizer.sep_token_id,
        mask_id=tokenizer.mask_token_id,
        rule=rule,
    )


def word_rule(tokenizer: BaseTokenizer) -> WordRule:
    """Returns the rule for a vocabulary. "original" is only for the published vocabulary."""
    if not isinstance(tokenizer, AlbertTokenizer):
        return "wordpiece"
    return "original" if tokenizer.baked.sha256 == PUBLISHED else "spaces"


def word_starts(pieces: Sequence[str], rule: WordRule) -> np.ndarray:
    """Returns whether each piece begins a word: bool `[V]`.

    Args:
        rule: which pieces begin a word. "spaces": pieces that follow a space or consist of
            punctuation; in a script without spaces, all pieces that don't begin with a combining
            mark. "original": single punctuation marks, and pieces that contain a character other
            than ASCII letters and punctuation, such as a digit or an accented letter. "wordpiece":
            all pieces that don't begin with `##`.
    """
    begins: dict[str, Callable[[str], bool]] = {
        "spaces": _is_spaces_start,
        "original": lambda piece: piece in _PUNCTUATION or not _CONTINUING.issuperset(piece),
        "wordpiece": lambda piece: not piece.startswith(_WORDPIECE_CONTINUES),
    }
    return np.array([begins[rule](piece) for piece in pieces])


def _is_spaces_start(piece: str) -> bool:
    first, *_ = categories = [unicodedata.category(character)[0] for character in piece]
    if piece.startswith(SPACE) or (is_unspaced(piece[0]) and first != "M"):
        return True
    return not set(categories) & {"L", "M", "N"}


class Unmasked(NamedTuple):
    """Examples before masking.

    Attributes:
        ids: int32 `[R, T]`, `[CLS] A [SEP] B [SEP]` and padding.
        lengths: int32 `[R]`, number of tokens without padding.
        first: int32 `[R]`, number of tokens in `[CLS] A [SEP]`; for a single segment, `lengths`.
    """

    ids: Any
    lengths: Any
    first: Any


class Masked(NamedTuple):
    """Examples after masking. P is the maximum number of predictions.

    Attributes:
        ids: int32 `[R, T]`.
        positions: int32 `[R, P]`, in ascending order, followed by zeros.
        labels: int32 `[R, P]`, the original tokens, followed by `IGNORED`.
    """

    ids: Any
    positions: Any
    labels: Any


def as_rows(pairs: Pairs, ids: Any, table: WordTable, length: Any, xp: Any = numpy_ops) -> Unmasked:
    """Formats pairs as `[CLS] A [SEP] B [SEP]`, padded to `length`. All pairs must fit.

    Args:
        ids: int32 `[N]`, the tokens that `pairs` index into.
    """
    at = xp.arange(length)
    begins = [xp.cast(segment[:, :1], np.int32) for segment in (pairs.first, pairs.second)]
    ends = [xp.cast(segment[:, 1:], np.int32) for segment in (pairs.first, pairs.second)]
    first = ends[0] - begins[0] + 2
    lengths = first + ends[1] - begins[1] + 1
    source = xp.where(at < first, begins[0] + at - 1, begins[1] + at - first)
    source = xp.minimum(xp.maximum(source, 0), xp.shape(ids)[0] - 1)
    separators = (at == first - 1) | (at == lengths - 1)
    rows = xp.where(separators, table.separate_id, xp.take(ids, source))
    rows = xp.where(at == 0, table.classify_id, xp.where(at < lengths, rows, table.pad_id))
    return Unmasked(xp.cast(rows, np.int32), lengths[:, 0], first[:, 0])


def mask(
    rows: Unmasked, keys: Any, table: WordTable, options: ExampleOptions, xp: Any = numpy_ops
) -> Masked:
    """Masks rows. The random numbers depend only on the keys.

    Args:
        keys: uint64 `[R]`, a random key for each row.
    """
    words = _words(rows, keys, table, options, xp)
    chosen = xp.gather(_select_words(words, _budget(rows.lengths, options, xp), xp), words.numbers)
    positions = xp.positions(chosen, options.predictions)
    counts = xp.cast(xp.sum(xp.cast(chosen, np.int32), 1, keepdims=True), np.int32)
    labels = xp.gather(rows.ids, positions)
    is_label = xp.arange(options.predictions) < counts
    new = xp.where(is_label, _replacements(positions, labels, keys, table, xp), table.classify_id)
    ids = xp.scatter(rows.ids + 0, positions, new)
    return Masked(ids, positions, xp.where(is_label, labels, IGNORED))


class _Words(NamedTuple):
    """The words of rows. Bounds are the tokens that begin a word, and `[CLS]` and `[SEP]` tokens.

    Attributes:
        bounds: int32 `[R, W]`, positions of the bounds in each row, in ascending order.
        numbers: int32 `[R, T]`, index of the last bound at or before each position.
        counts: int32 `[R, 1]`, number of words.
        visit_order: int32 `[R, W]`, word indices in the order in which they are visited.
        ends: int32 `[R, W]`, for each word in `visit_order`, index of the bound that ends the
            n-gram starting at the word.
        longest: maximum number of words in an n-gram.
    """

    bounds: Any
    numbers: Any
    counts: Any
    visit_order: Any
    ends: Any
    longest: int


def _words(rows: Unmasked, keys: Any, table: WordTable, options: ExampleOptions, xp: Any) -> _Words:
    at = xp.arange(xp.shape(rows.ids)[1])
    first, lengths = rows.first[:, None], rows.lengths[:, None]
    special = (at == 0) | (at == first - 1) | (at >= lengths - 1)
    starts = ~special
    if options.do_whole_word_mask:
        starts &= (at == 1) | (at == first) | xp.take(table.starts, rows.ids)
    is_bound = starts | (special & (at < lengths))
    numbers = xp.cumsum(is_bound) - 1
    bounds = xp.positions(is_bound)
    separators = [xp.gather(numbers, last - 1) for last in (first, lengths)]
    number = xp.arange(xp.shape(bounds)[1])
    is_word = (number > 0) & (number != separators[0]) & (number < separators[1])
    drawn = rng.uniform(keys, ORDER, bounds, xp)
    visit_order = xp.argsort(xp.where(is_word, drawn, np.inf))
    drawn = rng.uniform(keys, NGRAM, xp.gather(bounds, visit_order), xp)
    limits = np.cumsum(options.ngram_probabilities)[:-1].tolist()
    ends = visit_order + 1
    for limit in limits:
        ends += xp.cast(drawn >= limit, np.int32)
    ends = xp.minimum(ends, xp.where(visit_order < separators[0], *separators))
    counts = xp.cast(xp.sum(xp.cast(is_word, np.int32), 1, keepdims=True), np.int32)
    return _Words(bounds, numbers, counts, visit_order, ends, len(limits) + 1)


def _budget(lengths: Any, options: ExampleOptions, xp: Any) -> Any:
    """Returns the number of tokens to mask: int32 `[R, 1]`."""
    if not options.masked_lm_prob:
        return xp.cast(lengths * 0, np.int32)[:, None]
    wanted = xp.cast(xp.round(options.masked_lm_prob * xp.cast(lengths, np.float64)), np.int32)
    return xp.minimum(xp.maximum(wanted, 1), options.predictions)[:, None]


def _select_words(words: _Words, budget: Any, xp: Any) -> Any:
    """Selects the words to predict: bool `[R, W]`.

    Round k visits the k-th word of every row in `visit_order`. An n-gram that exceeds the remaining
    budget is shortened. An n-gram that contains a selected word is skipped.

    Args:
        budget: int32 `[R, 1]`, number of tokens to select.
    """
    steps = xp.arange(words.longest)
    begins = xp.gather(words.bounds, words.visit_order)

    def is_unfinished(turn: Any, remaining: Any, selected: Any) -> Any:
        return xp.any((remaining > 0) & (turn < words.counts))

    def visit(turn: Any, remaining: Any, selected: Any) -> tuple[Any, Any, Any]:
        word, begin, end = (
            column[:, turn : turn + 1] for column in (words.visit_order, begins, words.ends)
        )
        ends = xp.gather(words.bounds, xp.minimum(word + steps + 1, end))
        size = xp.where(ends - begin <= remaining, ends - begin, 0)
        # Words of the n-gram that don't fit are replaced with [CLS], which is never selected.
        numbers = xp.where((word + steps < end) & (size > 0), word + steps, 0)
        is_free = ~xp.any(xp.gather(selected, numbers), 1, keepdims=True) & (turn < words.counts)
        numbers = xp.where(is_free, numbers, 0)
        selected = xp.scatter(selected, numbers, numbers > 0)
        size = xp.where(is_free, xp.max(size, 1, keepdims=True), 0)
        return turn + 1, remaining - size, selected

    return xp.while_loop(is_unfinished, visit, (0, budget, words.bounds < 0))[2]


def _replacements(positions: Any, labels: Any, keys: Any, table: WordTable, xp: Any) -> Any:
    """Draws `[MASK]`, the token itself, or a random token for each label: int32 `[R, P]`."""
    replace = rng.uniform(keys, REPLACE, positions, xp)
    number = rng.uniform(keys, RANDOM, positions, xp) * len(table.random_ids)
    other = xp.take(table.random_ids, xp.cast(number, np.int32))
    other = xp.where(replace < UNCHANGED, labels, other)
    return xp.where(replace < MASKED, table.mask_id, other)
