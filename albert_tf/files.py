"""Writes files and folders atomically: beside their place, then renamed into it."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from albert_tf.errors import UserError


@contextlib.contextmanager
def written_atomically(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """Yields a temporary path, which is renamed to `path` at the end.

    The caller creates a file or a folder at the yielded path. If the block raises (a full disk,
    Ctrl-C), it is removed, and `path` stays as it was.

    Args:
        path: file or folder to write. Missing parent folders are made.
        force: replace an existing `path`.
    Raises:
        UserError: `path` exists (an empty folder doesn't count) and `force` is False, or a file
            would replace a folder.
        OSError: it can't be written; the message names `path`, not the temporary one.
    """
    path = Path(path)
    if not force and _occupied(path):
        raise UserError(
            f"The output must not exist yet. Received: {path}. "
            "Choose another path, or replace it with force=True (--force on the command line)."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with _named(path):
        workshop = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        with _named(path, workshop / path.name):
            yield workshop / path.name
            _open_to_readers(workshop / path.name)
            _swap(workshop / path.name, path, workshop)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def write_json(
    path: str | os.PathLike[str], content: Any, *, indent: int = 2, **options: Any
) -> None:
    """Writes an object as JSON, atomically; replaces an existing file.

    Args:
        **options: arguments of `json.dumps`.
    """
    text = json.dumps(content, indent=indent, **options)
    with written_atomically(path, force=True) as target:
        target.write_text(text + "\n", encoding="utf-8")


def check_apart(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Refuses an output that would replace the input: it, or a folder around it."""
    read = Path(source).resolve()
    if Path(output).resolve() in (read, *read.parents):
        raise UserError(
            "The output must not be the input's folder or one around it: it would be replaced. "
            f"Received: {source} and {output}. Choose another folder."
        )


def require_same(place: Any, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to resume a job with other settings than it began with.

    Args:
        place: of the job's output.
        then, now: settings; nested dicts are compared by their items.
    Raises:
        UserError: settings differ; each is named with both values, up to `_SHOWN`.
    """
    different = _differences(then, json.loads(json.dumps(now)))
    if different:
        more = f" and {len(different) - _SHOWN} more" * (len(different) > _SHOWN)
        raise UserError(
            "An interrupted job resumes with the settings that it began with. "
            f"Received for {place}: {'; '.join(different[:_SHOWN])}{more}. "
            "Give the same settings, choose another output, or start again with --force."
        )


def _differences(then: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[str]:
    found = []
    for name in sorted({*then, *now}):
        old, new = then.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{within}{name} ")
        elif old != new or (name in then) != (name in now):
            values = (repr(each[name]) if name in each else "nothing" for each in (then, now))
            found.append(f"{within}{name}: {next(values)} then, {next(values)} now")
    return found


_SHOWN = 5  # differences in a message


@contextlib.contextmanager
def _named(path: Path, stand_in: Path | None = None) -> Iterator[None]:
    """Makes errors name `path` instead of `stand_in`, or of any other file."""
    try:
        yield
    except OSError as error:
        named = error.filename
        if stand_in is None:
            error.filename = str(path)
        elif isinstance(named, str | os.PathLike) and os.fspath(named).startswith(str(stand_in)):
            error.filename = str(path) + os.fspath(named).removeprefix(str(stand_in))
        raise


def _open_to_readers(path: Path) -> None:
    """Gives a file the usual permissions, since some writers grant the owner alone."""
    if path.is_file():
        mask = os.umask(0)
        os.umask(mask)
        path.chmod(0o666 & ~mask)


def _occupied(path: Path) -> bool:
    if path.is_dir():
        return any(path.iterdir())
    return path.exists()


def _swap(new: Path, path: Path, workshop: Path) -> None:
    """Puts `new` at `path`; the old one is set aside first, and put back if the rename fails."""
    if new.is_file() and path.is_dir() and _occupied(path):
        raise UserError(
            f"What a file replaces must not be a folder. Received: {path} is a folder; --force "
            "replaces files alone. Choose another path."
        )
    if not path.exists() or not (path.is_dir() or new.is_dir()):
        os.replace(new, path)
        return
    old = workshop / "replaced"
    os.replace(path, old)
    try:
        os.replace(new, path)
    except BaseException:
        os.replace(old, path)
        raise
