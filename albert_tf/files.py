"""Reads whole files, within bounds; writes files and folders atomically; locks a run's folder."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from albert_tf.errors import UserError

# Bytes. In memory JSON takes some ten times as much; the largest tokenizer.json have 40 MB.
LONGEST: Final = 2**26


def user_path(path: str | os.PathLike[str]) -> Path:
    """Returns the path that a user means: `~` and `~user` become a home folder.

    Raises:
        UserError: there is no such user.
    """
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise UserError(
            f"There is no user {expanded.split('/')[0]}. Received: {expanded}. Check the path, or "
            f"write ./{expanded} if the name begins with ~."
        )
    result = Path(expanded)
    # Path drops "./", and the next call must not expand the rest.
    return result.absolute() if result.parts[:1] and result.parts[0][0] == "~" else result


@contextlib.contextmanager
def written_atomically(
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    nowait: bool = False,
    own: Sequence[str] = (),
) -> Iterator[Path]:
    """Yields a temporary path, which is renamed to `path` at the end.

    The caller creates a file or a folder at the yielded path. If the block raises (a full disk,
    Ctrl-C), it is removed, and `path` stays as it was. The next call removes what a killed process
    left next to `path`, and restores an older folder that it had moved away.

    Args:
        path: file or folder to write. Missing parent folders are created.
        force: replace an existing `path`.
        nowait: raise an error while another process writes `path`, instead of waiting for it.
        own: for a folder, the patterns of its files in `outputs.py`.
    Raises:
        UserError: another process writes `path`, or `check_free` rejects it.
        OSError: it can't be written; the message names `path`, not the temporary one.
    """
    path = user_path(path)
    workshop = path.parent / f".{path.name}.partial"
    new, old = workshop / path.name, workshop / f".{path.name}.replaced"

    def clear() -> None:
        if old.exists() and not path.exists():
            os.replace(old, path)
        for left in workshop.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            elif left.name != LOCK:
                left.unlink(missing_ok=True)

    with locked(workshop, output=path, wait=not nowait):
        clear()
        check_free(path, force, own)
        try:
            with _blame_final_path(path, new):
                yield new
                if new.is_file():
                    shutil.copymode(workshop / LOCK, new)  # safetensors' are the owner's alone
                if path.is_dir() or (new.is_dir() and path.exists()):
                    os.replace(path, old)
                os.replace(new, path)
        finally:
            clear()


def check_free(path: Path, force: bool, own: Sequence[str] = ()) -> None:
    """Rejects an output that exists, unless it is an empty folder or `force` may replace it.

    Args:
        own: for a folder, the patterns of its files in `outputs.py`.
    Raises:
        UserError: `path` exists and `force` is False; a file would replace a folder, or a folder a
            file; or the folder contains a file that isn't part of an output of this kind.
    """
    is_folder = path.is_dir()
    if not os.path.lexists(path) or (is_folder and not any(path.iterdir())):
        return
    if is_folder and not own:
        raise UserError(f"{path} is a directory; force=True only replaces files.")
    if own and not is_folder:
        raise UserError(f"The output must be a folder. Received: {path}, a file.")
    if not force:
        raise UserError(
            f"The output must not exist yet. Received: {path}. "
            "Choose another path, or replace it with force=True."
        )
    if is_folder:
        check_own(path, own)


def check_own(folder: Path, own: Sequence[str]) -> None:
    """Rejects a folder that isn't an earlier output, finished or interrupted.

    Args:
        own: the patterns of its files in `outputs.py`.
    Raises:
        UserError: a file matches no pattern, or none matches the first one, or there is a symbolic
            link; the message names the first such file.
        OSError: a folder can't be read.
    """

    def fail(error: OSError) -> None:
        raise error

    def matches(name: str, patterns: Sequence[str]) -> bool:
        return any(PurePosixPath("/", name).match(f"/{pattern}") for pattern in patterns)

    found = {}
    for root, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not _LEFT.fullmatch(name))
        for path in (Path(root, name) for name in [*sorted(files), *folders]):
            if path.name != LOCK and (path.is_symlink() or not path.is_dir()):
                found[path.relative_to(folder).as_posix()] = path.is_symlink()
    foreign = [name for name, is_link in found.items() if is_link or not matches(name, own)]
    if not any(matches(name, own[:1]) for name in found):
        foreign = foreign or list(found)
    if foreign:
        raise UserError(
            f"{folder} contains {foreign[0]}, which is not part of an earlier output of the same "
            "kind. Only such an output is replaced. Move the file, or choose another folder."
        )


_LEFT: Final = re.compile(r"\..+\.(partial|removed)")  # folders that a killed process leaves


def write_json(path: str | os.PathLike[str], content: Any, **options: Any) -> None:
    """Writes an object as JSON, atomically; replaces an existing file.

    Args:
        **options: arguments of `json.dumps`.
    """
    with written_atomically(path, force=True) as target:
        target.write_text(as_json(content, **options), encoding="utf-8", newline="\n")


def as_json(content: Any, **options: Any) -> str:
    """Returns the text of a JSON file."""
    return json.dumps(content, indent=2, **options) + "\n"


def is_exported(model: str | os.PathLike[str]) -> bool:
    """Returns whether a model's name is that of an exported file."""
    path = user_path(model)
    return path.suffix in (".tflite", ".onnx") and not path.is_dir()


def read_bytes(path: str | os.PathLike[str], *, pipes: bool = False) -> bytes:
    """Returns the content of a file that is read whole; every such file is read here.

    A model's folder may be a stranger's: a pipe in it would never end, nor would a device.

    Args:
        path: a link may lead to the file.
        pipes: accept a pipe, for a path that the user typed: `<(…)`, `/dev/stdin`.
    Raises:
        UserError: it isn't a regular file, or is larger.
        OSError: there is no such file, it is a folder, or it can't be read.
    """
    # Without O_NONBLOCK, opening a pipe would wait for its writer.
    more = 0 if pipes else getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | more)) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
            raise UserError(
                f"A file to read must be a regular one. Received: {path}, which {fault(path)}. "
                "Put a file there."
            )
        content = b""
        while len(content) <= LONGEST and (block := file.read(2**20)):
            content += block
    if len(content) > LONGEST:
        raise UserError(f"{path} must have {LONGEST:,} bytes at most. Received more.")
    return content


def fault(path: str | os.PathLike[str]) -> str:
    """Returns why a path is not a regular file, for a message: "is a pipe", "doesn't exist"."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        return "doesn't exist"
    return _FAULTS.get(kind, "is a device")


_FAULTS: Final = {
    stat.S_IFDIR: "is a folder",
    stat.S_IFIFO: "is a pipe",
    stat.S_IFSOCK: "is a socket",
}


def read_text(path: str | os.PathLike[str], *, pipes: bool = False) -> str:
    """Returns the text of a file in UTF-8; see `read_bytes`.

    Raises:
        UnicodeDecodeError: it isn't UTF-8.
    """
    return read_bytes(path, pipes=pipes).decode("utf-8")


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the JSON object in a file; see `read_bytes`.

    Raises:
        UserError: the file holds something else, or is nested too deeply.
    """
    text = read_bytes(path)
    try:
        content = json.loads(text.decode("utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__}")
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} must be a JSON object. Received: {error}. Copy it again from its source."
        ) from error
    return content


def replace_files(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> None:
    """Writes files of a folder that belong together: all of them, before one replaces an older one.

    Args:
        folder: other files in it stay.
        writers: for each file's name, a function that writes it to a path.
    Raises:
        OSError: they can't be written; the older ones stay.
    """
    with contextlib.ExitStack() as stack:
        for name, write in writers.items():
            write(stack.enter_context(written_atomically(folder / name, force=True)))


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal, read a megabyte at a time."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(2**20):
            total.update(content)
    return total.hexdigest()


def masked_crc(content: bytes) -> int:
    """Returns the CRC-32C that TensorFlow writes beside bytes in its files."""
    import google_crc32c  # on demand: commands without records start sooner

    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def check_apart(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Refuses an output that would replace the input: it, or a folder around it."""
    read = Path(source).resolve()
    if Path(output).resolve() in (read, *read.parents):
        raise UserError(
            "The output must not be the input's folder or one around it: it would be replaced. "
            f"Received: {source} and {output}. Choose another folder."
        )


def require_same(
    output: Any,
    then: Mapping[str, Any],
    now: Mapping[str, Any],
    way_out: str = "Choose another output, or start again with force=True.",
) -> None:
    """Rejects resuming a job with settings different from those it was started with.

    Args:
        output: the job's output.
        then, now: settings; nested dicts are compared by their items.
        way_out: what else to do, for the message.
    Raises:
        UserError: settings differ; each is named with both values, up to `_SHOWN`.
    """
    before, after = dict(_flat(then)), dict(_flat(json.loads(json.dumps(now))))
    different = []
    for name in sorted({*before, *after}):
        old, new = ([values[name]] if name in values else [] for values in (before, after))
        if old != new:
            was, is_now = (repr(value[0]) if value else "nothing" for value in (old, new))
            different.append(f"{name} was {was}, is {is_now}")
    if different:
        more = f" and {len(different) - _SHOWN} more" * (len(different) > _SHOWN)
        raise UserError(
            f"{output} contains a run with different settings: "
            f"{'; '.join(different[:_SHOWN])}{more}. Resume with the same settings. {way_out}"
        )


def _flat(settings: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each setting, with the names of the dicts around it before its own."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{within}{name} ")
        else:
            yield f"{within}{name}", value


_SHOWN: Final = 5  # differences in a message


@contextlib.contextmanager
def _blame_final_path(path: Path, stand_in: Path) -> Iterator[None]:
    """Makes errors name `path` instead of `stand_in`, or of no file (as a full disk's do)."""
    try:
        yield
    except UserError as error:
        error.args = tuple(str(text).replace(str(stand_in), str(path)) for text in error.args)
        raise
    except OSError as error:
        if error.errno is not None:
            name = error.filename2 or error.filename or path  # the second one is the copy
            error.filename, error.filename2 = str(name).replace(str(stand_in), str(path)), None
        raise


# The system's errors behind those of TensorFlow, when a file can't be written.
_OF_TENSORFLOW: Final = {
    "ResourceExhaustedError": errno.ENOSPC,
    "OutOfRangeError": errno.EFBIG,
    "PermissionDeniedError": errno.EACCES,
    "NotFoundError": errno.ENOENT,
}


@contextlib.contextmanager
def tensorflow_errors(path: Path) -> Iterator[None]:
    """Turns TensorFlow's file errors into the OSError that Python would raise."""
    import tensorflow as tf  # on demand: most commands write their files without it

    try:
        yield
    except tf.errors.OpError as error:
        number = _OF_TENSORFLOW.get(type(error).__name__, 0)
        reason = re.sub(r"\{\{.*\}\} | \[Op:.*\]", "", error.message)
        raise OSError(number, os.strerror(number) if number else reason, str(path)) from error


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
        try:
            # Before the lock ends, since afterwards it may be another's.
            (folder / LOCK).unlink(missing_ok=True)
            lock.release()
        except OSError:  # Windows removes no open file, another's neither.
            lock.release()
            with contextlib.suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
