"""Pieces of one or two texts laid out as rows: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from albert_tf.text.pieces import Pieces
from albert_tf.text.special_tokens import CLASSIFY_ID, SEPARATE_ID
from albert_tf.text.truncation import Strategy, kept_lengths, windows

NO_TEXT = (0, 0)


@dataclass(frozen=True)
class Layout:
    """How rows are made.

    Attributes:
        add_special_tokens: put `[CLS]` and `[SEP]` around the texts.
        truncation: what loses pieces when a row is too long.
        max_length: the most pieces of a row; not looked at when nothing is truncated.
        stride: pieces that a window shares with the one before it.
        overflow: what is cut off makes further rows.
    """

    add_special_tokens: bool
    truncation: Strategy
    max_length: int
    stride: int = 0
    overflow: bool = False

    def room(self, is_pair: bool) -> int:
        """Places for pieces of text.

        Raises:
            ValueError: not even the special tokens fit.
        """
        special = special_count(is_pair) if self.add_special_tokens else 0
        if self.truncation != "do_not_truncate" and self.max_length < special:
            raise ValueError(
                f"max_length must leave room for {special} special tokens. "
                f"Received: max_length={self.max_length}. Use a larger one."
            )
        return self.max_length - special


@dataclass(frozen=True)
class Row:
    """One row of features, and the index of the text that it was made from."""

    input_ids: list[int]
    token_type_ids: list[int]
    special_tokens_mask: list[int]
    offset_mapping: list[tuple[int, int]]
    sample: int


def special_count(is_pair: bool) -> int:
    """`[CLS]` and one `[SEP]` a text."""
    return 3 if is_pair else 2


def make_rows(
    first: Sequence[Pieces], second: Sequence[Pieces] | None, layout: Layout
) -> list[Row]:
    """The rows of all texts or pairs, in order."""
    rows: list[Row] = []
    for sample, a in enumerate(first):
        b = None if second is None else second[sample]
        rows.extend(
            make_row(*cut, layout.add_special_tokens, sample) for cut in _cuts(a, b, layout)
        )
    return rows


def make_row(first: Pieces, second: Pieces | None, add_special: bool, sample: int = 0) -> Row:
    """Puts the special tokens around the pieces; a row's types are 1 from the second text on."""
    edge = int(add_special)
    ids = [CLASSIFY_ID] * edge + first.ids + [SEPARATE_ID] * edge
    offsets = [NO_TEXT] * edge + first.offsets + [NO_TEXT] * edge
    mask = [1] * edge + [0] * len(first.ids) + [1] * edge
    types = [0] * len(ids)
    if second is not None:
        ids += second.ids + [SEPARATE_ID] * edge
        offsets += second.offsets + [NO_TEXT] * edge
        mask += [0] * len(second.ids) + [1] * edge
        types += [1] * (len(second.ids) + edge)
    return Row(ids, types, mask, offsets, sample)


def _cuts(
    first: Pieces, second: Pieces | None, layout: Layout
) -> Iterator[tuple[Pieces, Pieces | None]]:
    """What of a text or pair goes into each of its rows."""
    room = layout.room(second is not None)
    lengths = len(first.ids), len(second.ids) if second is not None else 0
    if layout.truncation == "do_not_truncate" or sum(lengths) <= room:
        yield first, second
        return
    if second is None and layout.truncation == "only_second":
        raise ValueError(
            "truncation='only_second' must be given pairs. Received: a text that is too long, "
            "without text_pair. Use truncation=True."
        )
    kept = kept_lengths(*lengths, room, layout.truncation)
    if not layout.overflow:
        yield first.part(0, kept[0]), second.part(0, kept[1]) if second is not None else None
    elif second is None or layout.truncation == "only_first":
        for span in windows(lengths[0], kept[0], layout.stride):
            yield first.part(*span), second
    elif layout.truncation == "only_second":
        for span in windows(lengths[1], kept[1], layout.stride):
            yield first, second.part(*span)
    else:
        raise ValueError(
            "return_overflowing_tokens must know which text of a pair to cut. "
            "Received: truncation='longest_first'. Use 'only_first' or 'only_second'."
        )
