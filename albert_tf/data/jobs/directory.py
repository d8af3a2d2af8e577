"""The directory that a job writes: one run at a time, with the same settings, from where it was.

While it is made, all that is unfinished is in its folder `work`, which is removed at the end.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.data.jobs import manifest as manifests
from albert_tf.data.jobs import shards
from albert_tf.data.jobs.job import Job
from albert_tf.data.jobs.manifest import Manifest
from albert_tf.data.jobs.reports import read_json, write_json
from albert_tf.data.jobs.shards import ShardReport
from albert_tf.data.pretraining.records import MANIFEST
from albert_tf.errors import UserError
from albert_tf.files import written_atomically

WORK: Final = "work"
SETTINGS: Final = "settings.json"
_STARTING: Final = f".{WORK}."  # what `written_atomically` leaves of a folder `work` when killed
_SHOWN: Final = 3  # names in a message


class Directory:
    """A job's output, locked for this process.

    Attributes:
        manifest: of an earlier run that came to its end.
    """

    def __init__(self, job: Job):
        self.job = job
        self.manifest = manifests.read_manifest(job.folder)

    def claimed(self) -> list[ShardReport]:
        """The files that are said to be finished, whether they are right or not."""
        if self.manifest:
            return list(self.manifest.shards)
        reports = (self.job.folder / shards.REPORTS).glob("*.json")
        found = (shards.read_report(self.job, path.stem) for path in sorted(reports))
        return [report for report in found if report]

    def missing_buckets(self, right: Sequence[ShardReport]) -> list[int]:
        """The buckets that lack a file.

        Args:
            right: the claimed ones that are as reported.
        """
        job = self.job
        there = {report.file: report for report in right}
        missing = []
        for bucket in range(job.buckets):
            names = [shards.file_name(job, copy, bucket) for copy in range(job.examples.copies)]
            if not all(name in there for name in names):
                missing.append(bucket)
                if self.manifest:  # the reports were removed with `work`
                    for name in there.keys() & {*names}:
                        shards.write_report(job, there[name])
        return missing

    def finish(self, corpus: Mapping[str, int], made: Sequence[ShardReport]) -> Manifest:
        """Writes what stands beside the files of examples, and removes what was for the work alone.

        Args:
            corpus: what was counted while the documents were read; not needed to mend.
            made: the reports of all files; to mend, of those that were made again at least.
        Raises:
            UserError: no document, or a file that was made again is another than it was.
        """
        job = self.job
        if self.manifest is None and not corpus.get("documents"):
            for report in made:  # of no examples, and in the way of another corpus
                (job.folder / report.file).unlink(missing_ok=True)
            shutil.rmtree(job.folder / WORK, ignore_errors=True)
            raise UserError(
                "A corpus must have a document. Received: none in "
                f"{', '.join(file.path for file in job.inputs[:_SHOWN])}, {len(job.inputs)} in all."
            )
        for name, content in job.tokenizer:
            _ensure(job.folder / name, content)
        if self.manifest is None:
            self.manifest = manifests.make_manifest(job, corpus, made)
            manifests.write_manifest(job.folder, self.manifest, job.folder / WORK)
        shutil.rmtree(job.folder / WORK, ignore_errors=True)
        _require_equal(job, self.manifest, made)
        return self.manifest


@contextlib.contextmanager
def opened(job: Job, force: bool = False) -> Iterator[Directory]:
    """The output of a job, new or from where it was left.

    Args:
        force: start anew.
    Raises:
        UserError: it holds something else, was begun with other settings, or another run is there.
    """
    folder = job.folder
    _check_ours(folder, force)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        _check_ours(folder, force)
        _prepare(job, force)
        directory = Directory(job)
        if directory.manifest is None:
            _remove_strangers(directory)
        yield directory


def _prepare(job: Job, force: bool) -> None:
    """Brings about `work` with the settings, or checks those that are there.

    Whatever line a run is killed in, the folder is ours, and what it holds fits its settings.
    """
    folder, now = job.folder, job.settings()
    for leftover in folder.glob(f"{_STARTING}*"):
        shutil.rmtree(leftover)
    manifest, begun = manifests.read_manifest(folder), read_json(folder / WORK / SETTINGS)
    if not force and manifest:
        manifests.require_same(folder, manifest.settings, now)
    elif not force and begun:
        manifests.require_same(folder, _with_skipping(begun, now), now)
    if force and begun:
        for path in (folder / WORK).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != SETTINGS:
                path.unlink()
    if begun:
        write_json(folder / WORK / SETTINGS, now)
    else:
        with written_atomically(folder / WORK, force=True) as place:
            place.mkdir()
            write_json(place / SETTINGS, now)
    if force:
        (folder / MANIFEST).unlink(missing_ok=True)


def _with_skipping(then: dict[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that were to stop at a bad line: what was made since had none to skip."""
    if then.get("corpus", {}).get("bad_lines") != "stop":
        return then
    return {**then, "corpus": {**then["corpus"], "bad_lines": now["corpus"]["bad_lines"]}}


def _remove_strangers(directory: Directory) -> None:
    """Removes files of examples of which nothing is reported."""
    claimed = {report.file for report in directory.claimed()}
    for path in directory.job.folder.glob(shards.FILES):
        if path.name not in claimed:
            path.unlink()


def _check_ours(folder: Path, force: bool) -> None:
    """Refuses a folder that holds something else, and touches nothing."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"The output must be a folder. Received: {folder}, which is a file.")
    names = [path for path in folder.iterdir() if not path.name.startswith(_STARTING)]
    ours = manifests.read_manifest(folder) or read_json(folder / WORK / SETTINGS)
    remains = force and all(path.match(shards.FILES) for path in names)
    if names and not ours and not remains:
        raise UserError(
            "The output must be a new or an empty folder, or one that was begun here. "
            f"Received: {folder}, which holds {names[0].name} and no {MANIFEST} of ours. "
            "Choose another folder."
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the folder; the lock ends with the process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"One run at a time may write to a folder. Received: {folder}, where another run "
                "is at work. Wait for it, or choose another folder."
            ) from error
        except OSError:
            pass  # a network's file system that can't lock folders
        yield
    finally:
        os.close(descriptor)


def _ensure(path: Path, content: bytes) -> None:
    """Brings about a file, beside which nothing is left when killed."""
    if path.exists() and path.read_bytes() == content:
        return
    place = path.parent / WORK / path.name
    place.write_bytes(content)
    place.replace(path)


def _require_equal(job: Job, manifest: Manifest, made: Sequence[ShardReport]) -> None:
    expected = {shard.file: shard.content for shard in manifest.shards}
    others = [report.file for report in made if report.content != expected[report.file]]
    if others:
        raise UserError(
            f"The text of the corpus must be the same as when {job.folder} was made. Received: "
            f"another one, since {', '.join(others[:_SHOWN])} comes out otherwise. "
            "Start anew with --force."
        )
