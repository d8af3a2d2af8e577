"""Which text, word and characters each place of an encoding comes from."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from albert_tf.text.rows import NO_TEXT, Row


class CharSpan(NamedTuple):
    """Characters of a raw text, from `start` to before `end`."""

    start: int
    end: int


class Places:
    """The places of the rows of an encoding, padding included.

    Args:
        rows: the rows without padding.
        detailed: makes the same rows with tokens, offsets and words; called when they are needed.
        lengths: the rows' lengths with padding.
        padding_side: "right" or "left".
    """

    def __init__(
        self,
        rows: Sequence[Row],
        detailed: Callable[[], Sequence[Row]],
        lengths: Sequence[int],
        padding_side: str,
    ):
        self._rows = rows
        self._make_detailed = detailed
        self._lengths = lengths
        self._padding_side = padding_side

    @cached_property
    def _detailed(self) -> Sequence[Row]:
        return self._make_detailed()

    def sequence_ids(self, row: int) -> list[int | None]:
        return self._padded(row, self._row(row).sequence_ids, None)

    def word_ids(self, row: int) -> list[int | None]:
        known = self._row(row)
        return self._padded(row, (known if known.has_words else self._detailed[row]).word_ids, None)

    def offsets(self, row: int) -> list[tuple[int, int]]:
        self._row(row)
        return self._padded(row, self._detailed[row].offset_mapping, NO_TEXT)

    def _row(self, row: int) -> Row:
        if not 0 <= row < len(self._rows):
            raise IndexError(
                f"There must be such a row. Received: row {row} of {len(self._rows)}. "
                "Rows count from 0."
            )
        return self._rows[row]

    def _padded(self, row: int, values: list, padding: Any) -> list:
        rest = [padding] * (self._lengths[row] - len(values))
        return rest + values if self._padding_side == "left" else values + rest
