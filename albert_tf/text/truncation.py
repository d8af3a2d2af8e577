"""How many pieces of one or two texts stay when they must fit a length."""

from collections.abc import Iterator
from typing import Literal

Strategy = Literal["longest_first", "only_first", "only_second", "do_not_truncate"]


def truncation_strategy(truncation: bool | str | None, implied: bool) -> Strategy:
    """Hugging Face's `truncation` argument as one word; `implied` decides when it is None.

    Raises:
        ValueError: none of its values.
    """
    names: dict[bool | str, Strategy] = {
        True: "longest_first",
        False: "do_not_truncate",
        "longest_first": "longest_first",
        "only_first": "only_first",
        "only_second": "only_second",
        "do_not_truncate": "do_not_truncate",
    }
    chosen = implied if truncation is None else truncation
    if chosen not in names:
        raise ValueError(
            f"truncation must be one of {', '.join(map(repr, names))}. Received: {truncation!r}."
        )
    return names[chosen]


def kept_lengths(first: int, second: int, room: int, strategy: Strategy) -> tuple[int, int]:
    """Pieces kept of each text, from its start, so that both fit in `room` pieces.

    "longest_first" takes pieces from the end of the longer text one by one, from the second when
    both are equally long, as google-research/albert's `_truncate_seq_pair` does.

    Raises:
        ValueError: the text that the strategy names would have to lose more than it has.
    """
    if first + second <= room or strategy == "do_not_truncate":
        return first, second
    if strategy == "longest_first":
        kept = min(first, max(room - second, (room + 1) // 2))
        return kept, room - kept
    kept_first = room - second if strategy == "only_first" else first
    kept_second = room - first if strategy == "only_second" else second
    if kept_first < 0 or kept_second < 0:
        raise ValueError(
            f"truncation={strategy!r} must be able to make the texts fit. Received: texts of "
            f"{first} and {second} pieces for {room} places. "
            "Use truncation='longest_first', or a larger max_length."
        )
    return kept_first, kept_second


def windows(length: int, size: int, stride: int) -> Iterator[tuple[int, int]]:
    """Start and end of the spans of `size` that cover `length`; neighbours share `stride`.

    Raises:
        ValueError: `stride` leaves no progress.
    """
    if length > size and not 0 <= stride < size:
        raise ValueError(
            "stride must be at least 0 and smaller than the pieces of a window. "
            f"Received: stride={stride}, {size} pieces a window. Use a smaller stride."
        )
    start = 0
    while start + size < length:
        yield start, start + size
        start += size - stride
    yield start, length
