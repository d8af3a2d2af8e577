"""Lets one run at a time write to an output."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from albert_tf.errors import UserError

LOCK: Final = ".lock"  # name of the file within the locked folder
_MOST: Final = 300  # bytes that name the owner
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_OWNER_START: Final = 1  # Windows locks the first byte, which no other process can read


@contextlib.contextmanager
def locked(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    wait: bool = False,
) -> Iterator[None]:
    """Makes a folder and locks it; the lock ends with the process, even by `kill -9`.

    It is the system's lock (`flock`, on Windows `LockFileEx`) of a file in the folder that names
    its owner. Whoever finds the file of a killed process takes it over. A network's file system
    extends the lock to its other hosts; where a file system has no locks, this does nothing. A
    folder that is empty at the end is removed.

    Args:
        output: name of the folder in errors, if another one.
        wait: wait until the other run ends.
    Raises:
        UserError: another run has the lock, or the folder is a file.
        OSError: the folder can't be written.
    """
    folder = Path(folder)
    descriptor = _acquired(folder, Path(folder if output is None else output), wait)
    try:
        yield
    finally:
        is_removed = _remove(folder / LOCK)  # before the lock ends: afterwards it may be another's
        os.close(descriptor)
        if not is_removed:  # Windows removes no open file, another's neither.
            _remove(folder / LOCK)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _acquired(folder: Path, output: Path, wait: bool) -> int:
    """Returns a descriptor whose file is locked and still in its place."""
    if folder.is_file():
        raise UserError(f"The output must be a folder. Received: {output}, a file.")
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / LOCK, _FLAGS, 0o666)
        except FileNotFoundError:  # The owner removed the folder at this moment.
            continue
        except OSError as error:
            error.filename = str(output)
            raise
        try:
            if not _lock(descriptor, wait):
                os.lseek(descriptor, _OWNER_START, os.SEEK_SET)
                owner = os.read(descriptor, _MOST).decode(errors="replace") or "another run"
                raise UserError(
                    "Only one run at a time may write to an output. Received: "
                    f"{output}, locked by {owner}. Wait for it, or choose another output."
                )
            if os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK)):
                _write_owner(descriptor)
                return descriptor
        except FileNotFoundError:  # The owner removed the file at this moment.
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, wait: bool) -> bool:
    """Returns whether the file is locked now; True where a file system has no locks."""
    from filelock import lock_descriptor  # on demand: its import takes as long as a short command

    try:
        return lock_descriptor(descriptor, blocking=wait)
    except OSError:
        return True


def _write_owner(descriptor: int) -> None:
    """Writes the owner's name into the lock."""
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    with contextlib.suppress(OSError):  # A full disk doesn't matter.
        os.ftruncate(descriptor, 0)
        os.write(descriptor, (" " * _OWNER_START + owner).encode())


def _remove(path: Path) -> bool:
    """Returns whether there is no such file any more."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True
