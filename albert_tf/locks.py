"""Lets one run at a time write to an output."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from albert_tf.errors import UserError

LOCK: Final = ".lock"  # name of the file within the locked folder
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # from file systems without them


@contextlib.contextmanager
def locked(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    wait: bool = False,
) -> Iterator[None]:
    """Makes a folder and locks it; the lock ends with the process, even by `kill -9`.

    It is the system's lock of a file in the folder, which the next run after a killed one takes
    over. Where a file system has no locks, this does nothing. A folder that is empty at the end is
    removed.

    Args:
        output: name of the folder in errors, if another one.
        wait: wait until the other run ends.
    Raises:
        UserError: another run has the lock, or the folder is a file.
        OSError: the folder can't be written.
    """
    from filelock import FileLock, Timeout  # on demand: takes as long as a short command

    folder = Path(folder)
    output = folder if output is None else output
    if folder.is_file():
        raise UserError(f"The output must be a folder. Received: {output}, a file.")
    lock = FileLock(folder / LOCK, blocking=wait, fallback_to_soft=False)
    while not lock.is_locked:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except FileNotFoundError:  # The other run removed the folder at this moment.
            continue
        except Timeout:
            raise UserError(
                f"Only one run at a time may write to an output. Received: {output}, to which "
                "another run is writing. Wait for it, or choose another output."
            ) from None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                break
            error.filename = str(output)
            raise
    try:
        yield
    finally:
        # Before the lock ends, since afterwards it may be another's; Windows removes no open file.
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        with contextlib.suppress(OSError):
            folder.rmdir()
