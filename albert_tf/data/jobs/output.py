"""The files of a job's output, in a local folder or at a URL that fsspec knows."""

import contextlib
import errno
import json
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from albert_tf import files
from albert_tf.data.corpus.files import file_system
from albert_tf.errors import UserError
from albert_tf.locks import LOCK, locked

WORK: Final = ".build-data"  # folder of an unfinished run: its settings and its reports
SETTINGS: Final = f"{WORK}/settings.json"
ERROR: Final = f"{WORK}/error.json"
_AT_ONCE: Final = 16
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Output:
    """A folder or a prefix of an object store. A file is either whole or absent.

    Args:
        location: path or URL.
    """

    def __init__(self, location: str):
        self.location = location
        self._files, self._root = file_system(location)
        self.is_local = "file" in self._files.protocol

    def write(self, name: str, content: bytes) -> None:
        """Writes a file; replaces an existing one.

        Raises:
            UserError: no space left, or a store that refuses.
        """
        path = Path(self._path(name))
        temporary = Path(self._root, WORK, f"{path.name}.{uuid.uuid4().hex}")
        try:
            if not self.is_local:
                self._files.pipe_file(self._path(name), content)
                return
            for folder in (temporary.parent, path.parent):
                folder.mkdir(exist_ok=True)
            temporary.write_bytes(content)
            temporary.replace(path)
        except Exception as error:  # each protocol has its own
            if self.is_local and getattr(error, "errno", None) not in _NO_SPACE:
                raise
            raise UserError(
                f"The output must be writable, and have room. Received: {self.location}: "
                f"{type(error).__name__}: {str(error).rstrip('.')}. The same command resumes."
            ) from error
        finally:
            if self.is_local:
                temporary.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        """Returns the content of a file."""
        path = self._path(name)
        return files.read_bytes(path) if self.is_local else bytes(self._files.cat_file(path))

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes the same bytes for the same content."""
        self.write(name, (json.dumps(content, indent=1) + "\n").encode())

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Returns an object in JSON; None without a file, or if a power failure cut it short."""
        try:
            content = json.loads(self.read(name))
        except (FileNotFoundError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def read_all_json(self, names: Iterable[str]) -> list[dict[str, Any] | None]:
        """Reads several files at once, since an object store answers slowly."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(self.read_json, names))

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Returns the sizes of all files in a folder but the lock, by name; folders have size 0."""
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return {}
        sizes = {
            entry["name"].rstrip("/").rpartition("/")[2]: entry["size"] or 0 for entry in entries
        }
        sizes.pop(LOCK, None)
        return sizes

    def has_digest(self, name: str, sha256: str) -> bool:
        """Returns whether a file has this digest. An object store checks its uploads itself."""
        return not self.is_local or files.sha256(Path(self._path(name))) == sha256

    def remove(self, *names: str) -> None:
        """Removes files."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(self._path(name))

    def remove_work(self) -> None:
        """Removes everything that only an unfinished run needs."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm(self._path(WORK), recursive=True)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Returns a lock of the folder, see `locks.locked`; it makes the folder.

        An object store has no locks. Two runs with the same settings write the same bytes there.
        """
        return locked(self._root, self.location) if self.is_local else contextlib.nullcontext()

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")
