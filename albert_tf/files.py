"""Reads files up to a size limit, writes files and folders atomically, and locks run folders."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from albert_tf.errors import UserError

# In bytes. Parsed JSON takes about ten times as much memory; the largest tokenizer.json is 40 MB.
MAX_BYTES: Final = 2**26


def user_path(path: str | os.PathLike[str]) -> Path:
    """Expands `~` and `~user` at the beginning of a path to a home folder."""
    expanded = os.path.expanduser(path)
    try:
        os.fsencode(expanded)
    except UnicodeEncodeError as error:
        raise UserError(
            f"The file system can't store the name {expanded!r} ({error.reason}). Rename it."
        ) from error
    if expanded.startswith("~"):
        raise UserError(
            f"There is no user {expanded.split('/')[0]}. Received: {expanded}. Check the path; if "
            f"the file name begins with ~, write ./{expanded}."
        )
    result = Path(expanded)
    # Path turns "./~name" into "~name", which a second call would expand. An absolute path is safe.
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

    The caller creates a file or a folder at the yielded path. If the block raises an exception
    (for example, on a full disk or Ctrl-C), the temporary path is removed, and `path` is unchanged.
    If a process was killed, the next call removes its temporary files, and restores a folder that
    the process had moved.

    Args:
        path: file or folder to write, or a link to a folder. Missing parent folders are created.
        force: whether to replace an existing `path`.
        nowait: whether to raise an error if another process is writing `path`, instead of waiting.
        own: for a folder, patterns that match its files (see `outputs.py`).
    Raises:
        UserError: if `check_free` rejects `path`; if it is the current folder, contains it, or is a
            mount point; or, with `nowait`, if another process is writing it.
        OSError: if it can't be written; the message names `path`, not the temporary path.
    """
    path = user_path(path)
    # A link to a folder keeps pointing there, and "." gets its name.
    target = Path(os.path.realpath(path)) if path.is_dir() else path
    workshop = target.parent / f".{target.name}.partial"
    new, old = workshop / target.name, workshop / f".{target.name}.replaced"

    def clear() -> None:
        if old.exists() and not target.exists():
            os.replace(old, target)
        for left in workshop.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            elif left.name != LOCK:
                left.unlink(missing_ok=True)

    if path.is_dir():
        is_mount = os.path.ismount(target)
        if is_mount or Path.cwd().is_relative_to(target):
            kind = "a mount point" if is_mount else "the current folder or one that contains it"
            raise UserError(
                f"The output can't be {kind}, because a new folder takes its place. "
                f"Received: {path}. Choose a folder in it, such as {path / 'model'}."
            )
    with locked(workshop, output=path, wait=not nowait):
        clear()
        check_free(path, force, own)
        try:
            with _blame_final_path(path, new):
                yield new
                if new.is_file():
                    shutil.copymode(workshop / LOCK, new)  # safetensors creates private files
                if target.is_dir() or (new.is_dir() and target.exists()):
                    os.replace(target, old)
                os.replace(new, target)
        finally:
            clear()


def check_free(path: Path, force: bool, own: Sequence[str] = ()) -> None:
    """Rejects an output that exists, unless it is an empty folder or `force` allows replacing it.

    Args:
        own: for a folder, patterns that match its files (see `outputs.py`).
    Raises:
        UserError: if `path` exists and `force` is False, if a file would replace a folder (or vice
            versa), or if the folder contains a file that isn't part of this kind of output.
    """
    is_folder = path.is_dir()
    if not os.path.lexists(path) or (is_folder and not any(path.iterdir())):
        return
    if is_folder and not own:
        raise UserError(f"{path} is a directory; force=True replaces only files.")
    if own:
        check_folder(path)
    if not force:
        raise UserError(
            f"{path} already exists. Choose another path, or replace it with force=True."
        )
    if is_folder:
        check_own(path, own)


def check_folder(path: Path, name: Any = None) -> None:
    """Rejects an output folder if its path (called `name` in the error) is an existing file."""
    if os.path.lexists(path) and not path.is_dir():
        raise UserError(f"The output must be a folder. Received: {name or path}, a file.")


def check_own(folder: Path, own: Sequence[str]) -> None:
    """Rejects a folder unless it is an earlier output, finished or interrupted.

    Args:
        own: patterns that match its files (see `outputs.py`).
    Raises:
        UserError: if a file matches no pattern, no file matches the first pattern, or there is a
            symbolic link.
        OSError: if a folder can't be read.
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
            f"{folder} contains {foreign[0]}, which is not part of an earlier output, so the "
            "folder is not replaced. Move the file, or choose another folder."
        )


_LEFT: Final = re.compile(r"\..+\.(partial|removed)")  # folders left by a killed process


def write_json(path: str | os.PathLike[str], content: Any, **options: Any) -> None:
    """Writes an object as JSON, atomically, and replaces an existing file.

    Args:
        **options: arguments of `json.dumps`.
    """
    with written_atomically(path, force=True) as target:
        target.write_text(as_json(content, **options), encoding="utf-8", newline="\n")


def as_json(content: Any, **options: Any) -> str:
    """Returns an object as the text of a JSON file."""
    return json.dumps(content, indent=2, **options) + "\n"


def is_exported(model: str | os.PathLike[str]) -> bool:
    """Returns whether a model is an exported file, judging by its suffix."""
    path = user_path(model)
    return path.suffix in (".tflite", ".onnx") and not path.is_dir()


def read_bytes(path: str | os.PathLike[str], *, pipes: bool = False) -> bytes:
    """Returns a file's content. All code that reads whole files calls this function.

    A model folder may be untrusted, and reading a pipe or a device in it might never end.

    Args:
        path: path of the file, or of a link to it.
        pipes: whether to accept a pipe (`<(…)` or `/dev/stdin`), for paths that the user typed.
    Raises:
        UserError: if it isn't a regular file, or is larger than `MAX_BYTES`.
        OSError: if the file doesn't exist, is a folder, or can't be read.
    """
    # Without O_NONBLOCK, opening a pipe would wait for its writer.
    more = 0 if pipes else getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | more)) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
            raise UserError(f"{path} {fault(path)}, not a regular file. Replace it with a file.")
        content = bytearray()  # appending to bytes would copy them each time
        while len(content) <= MAX_BYTES and (block := file.read(2**20)):
            content += block
    if len(content) > MAX_BYTES:
        raise UserError(f"{path} must not be larger than {MAX_BYTES:,} bytes.")
    return bytes(content)


def fault(path: str | os.PathLike[str]) -> str:
    """Returns why a path isn't a regular file, such as "is a pipe" or "doesn't exist"."""
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
    """Returns the text of a UTF-8 file, without a byte order mark; see `read_bytes`."""
    return read_bytes(path, pipes=pipes).decode("utf-8-sig")


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the JSON object in a file; see `read_bytes`."""
    text = read_bytes(path)
    try:
        content = json.loads(text.decode("utf-8-sig"))
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__}")
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} must contain a JSON object: {error}. Copy it again from its source."
        ) from error
    return content


def find_file(
    folder: Path, names: Sequence[str], kind: str, ignored: Collection[str] = ()
) -> Path | None:
    """Returns the first of these files that exists, or else the only one that matches a pattern.

    Args:
        folder: folder of the files.
        names: names and glob patterns, relative to the folder.
        kind: plural noun for the files, for use in the error message.
        ignored: names of files that match a pattern by coincidence.
    Raises:
        UserError: if several files match.
    """
    known = [folder / name for name in names if (folder / name).is_file()]
    matching = {path for name in names for path in folder.glob(name) if path.is_file()}
    found = known[:1] or sorted(path for path in matching if path.name not in ignored)
    if len(found) > 1:
        raise UserError(
            f"{folder} contains several {kind}: {', '.join(path.name for path in found)}. Rename "
            f"the right one to {names[0]}, or pass its path."
        )
    return found[0] if found else None


def replace_files(folder: Path, contents: Mapping[str, bytes | Callable[[Path], object]]) -> None:
    """Writes a set of files. No existing file is replaced until all have been written.

    Args:
        folder: folder to write to. Its other files are kept.
        contents: the content of each file, or a function that writes the file to a path.
    """
    with contextlib.ExitStack() as stack:
        for name, content in contents.items():
            path = stack.enter_context(written_atomically(folder / name, force=True))
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                content(path)


def sha256(path: Path) -> str:
    """Returns the hexadecimal SHA-256 digest of a file, reading a megabyte at a time."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(2**20):
            total.update(content)
    return total.hexdigest()


def masked_crc(content: bytes) -> int:
    """Returns the masked CRC-32C that TensorFlow stores in its files."""
    import google_crc32c  # imported here, because few commands need it

    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def check_apart(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Rejects an output that would replace the input, or a folder that contains the input."""
    read = Path(source).resolve()
    if Path(output).resolve() in (read, *read.parents):
        raise UserError(
            f"The output {output} would replace the input {source}. Choose another output."
        )


def require_same(
    output: Any,
    then: Mapping[str, Any],
    now: Mapping[str, Any],
    way_out: str = "Choose another output, or start over with force=True.",
) -> None:
    """Raises UserError unless a job resumes with the settings it was started with.

    Args:
        output: the job's output.
        then, now: earlier and current settings; nested dicts are compared item by item.
        way_out: advice on what to do instead, for use in the error message.
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
            f"{'; '.join(different[:_SHOWN])}{more}. To resume, use the same settings. {way_out}"
        )


def _flat(settings: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each setting, with the names of its parent dicts as a prefix."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{within}{name} ")
        else:
            yield f"{within}{name}", value


_SHOWN: Final = 5  # differences in a message


@contextlib.contextmanager
def _blame_final_path(path: Path, stand_in: Path) -> Iterator[None]:
    """Replaces `stand_in` with `path` in errors. Also adds `path` to errors that name no file."""
    try:
        yield
    except UserError as error:
        error.args = tuple(str(text).replace(str(stand_in), str(path)) for text in error.args)
        raise
    except OSError as error:
        if error.errno is not None:
            name = error.filename2 or error.filename or path  # filename2 is the target of a copy
            error.filename, error.filename2 = str(name).replace(str(stand_in), str(path)), None
        raise


# The system error for each exception that TensorFlow raises if it can't write a file.
_OF_TENSORFLOW: Final = {
    "ResourceExhaustedError": errno.ENOSPC,
    "OutOfRangeError": errno.EFBIG,
    "PermissionDeniedError": errno.EACCES,
    "NotFoundError": errno.ENOENT,
}


@contextlib.contextmanager
def tensorflow_errors(path: Path) -> Iterator[None]:
    """Turns TensorFlow's file errors into the OSError that Python would raise."""
    import tensorflow as tf  # imported here because most commands write files without it

    try:
        yield
    except tf.errors.OpError as error:
        number = _OF_TENSORFLOW.get(type(error).__name__, 0)
        reason = re.sub(r"\{\{.*\}\} | \[Op:.*\]", "", error.message)
        raise OSError(number, os.strerror(number) if number else reason, str(path)) from error


LOCK: Final = ".lock"  # name of the file within the locked folder
_ATTEMPTS: Final = 100  # to create a folder that other runs may remove before it is locked
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # file systems without locks


@contextlib.contextmanager
def locked(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    wait: bool = False,
) -> Iterator[None]:
    """Creates a folder and locks it; the lock ends with the process, even after `kill -9`.

    The operating system locks a file in the folder. If a run is killed, the next run reuses that
    file. If the file system doesn't support locks, nothing is locked. If the folder is empty at
    the end, it is removed.

    Args:
        output: path to show in errors. Default: the folder.
        wait: whether to wait until the other run ends.
    Raises:
        UserError: if another run holds the lock, or the folder is a file.
        OSError: if writing to the folder fails.
    """
    from filelock import FileLock, Timeout  # imported here, because the import is slow

    folder = Path(folder)
    output = folder if output is None else output
    check_folder(folder, output)
    lock = FileLock(folder / LOCK, blocking=wait, fallback_to_soft=False)
    attempts = iter(range(_ATTEMPTS))
    while not lock.is_locked:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except FileNotFoundError as error:
            if next(attempts, None) is None:  # the drive or working directory doesn't exist
                error.filename = str(output)
                raise
        except Timeout:
            raise UserError(
                f"Another run is writing to {output}. Wait for it, or choose another output."
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
            # Delete it before the release, because another run may hold the lock afterwards.
            (folder / LOCK).unlink(missing_ok=True)
            lock.release()
        except OSError:  # Windows doesn't remove files that a process has open
            lock.release()
            with contextlib.suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
