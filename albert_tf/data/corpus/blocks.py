"""Reads a file a block at a time, in bounded memory."""

from typing import IO

BLOCK = 1 << 20  # bytes; a quarter or four times as much is no faster


class Blocks:
    """The current part of a file.

    Attributes:
        data: its bytes.
        offset: their place in the file.
        ended: whether the file ends behind them.
    """

    def __init__(self, file: IO[bytes], offset: int):
        self._file = file
        self.data = b""
        self.offset = offset
        self.ended = False
        self.read_on(0)

    def read_on(self, keep: int) -> None:
        """Drops the bytes before `keep`, and reads more behind the rest."""
        kept = self.data[keep:]
        block = self._file.read(max(BLOCK, len(kept)))  # so that all copying is linear
        self.data = kept + block
        self.offset += keep
        self.ended = not block
