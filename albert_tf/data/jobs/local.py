"""A job on one machine."""

import errno
import functools
import os
from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple

from albert_tf.data.jobs import scratch, shards
from albert_tf.data.jobs.directory import WORK, Directory, opened
from albert_tf.data.jobs.job import Job
from albert_tf.data.jobs.manifest import Manifest
from albert_tf.data.jobs.progress import Progress
from albert_tf.data.jobs.reports import is_right
from albert_tf.data.jobs.shards import ShardReport
from albert_tf.data.jobs.workers import Tell, Workers, started
from albert_tf.errors import UserError

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Outcome(NamedTuple):
    """A finished job: the manifest, and the names of the files that this run made."""

    manifest: Manifest
    made: tuple[str, ...]


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_local(
    job: Job, workers: int | None = None, progress: Progress | None = None, force: bool = False
) -> Outcome:
    """Makes the files of a job, those that aren't there yet.

    Args:
        workers: processes; all cores by default. The result doesn't depend on it.
        force: start anew.
    Raises:
        UserError: other settings than the folder was begun with, a bad line, no space left, …
    """
    try:
        with (
            opened(job, force) as directory,
            progress or Progress() as shown,
            started(job, job.folder / WORK, workers or cores(), shown.add) as processes,
        ):
            return _run(directory, processes, shown)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise UserError(
            "The output's disk must have room. Received: "
            f"{error.strerror}: {error.filename or job.output}. What is finished is kept: make "
            "room, and go on by the same command."
        ) from error


def _run(directory: Directory, processes: Workers, progress: Progress) -> Outcome:
    job, claimed = directory.job, directory.claimed()
    progress.phase("checking", sum(report.bytes for report in claimed))
    reports = {report.file: report for report in processes.map(_checked, claimed) if report}
    missing = directory.missing_buckets(list(reports.values()))
    if directory.manifest and not missing:
        return Outcome(directory.finish({}, []), ())
    corpus = _deal(job, missing, processes, progress)
    progress.phase("writing", corpus["bytes"] * job.examples.copies * len(missing) // job.buckets)
    made = {report.file: report for each in processes.map(_written, missing) for report in each}
    new = tuple(sorted(made.keys() - reports.keys()))
    return Outcome(directory.finish(corpus, list({**reports, **made}.values())), new)


def _checked(job: Job, report: ShardReport, tell: Tell) -> ShardReport | None:
    right = is_right(job.folder / report.file, report.content)
    tell({"advance": report.bytes, "files": 1})
    return report if right else None


def _deal(
    job: Job, missing: Collection[int], processes: Workers, progress: Progress
) -> Counter[str]:
    """Deals the documents of these buckets; what was counted in the whole corpus."""
    buckets = None if len(missing) == job.buckets else frozenset(missing)
    all_parts = scratch.parts(job)
    progress.phase("reading", sum(part.text_bytes for part in all_parts))
    reports = list(processes.map(functools.partial(_dealt, buckets=buckets), all_parts))
    scratch.tidy(job, reports)
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    return counts


def _dealt(
    job: Job, part: scratch.Part, tell: Tell, buckets: frozenset[int] | None
) -> scratch.PartReport:
    report = scratch.kept(job, part, buckets)
    if report is None:
        return scratch.deal(job, part, buckets, tell)
    tell({"advance": part.text_bytes, "documents": report.counts.get("documents", 0)})
    return report


def _written(job: Job, bucket: int, tell: Tell) -> list[ShardReport]:
    documents = scratch.bucket_documents(job, bucket, scratch.run_files(job))
    size = sum(len(document.text) for document in documents)
    written = 0

    def done(report: ShardReport) -> None:
        nonlocal written
        written += 1
        counts = {name: report.counts.get(name, 0) for name in ("tokens", "examples")}
        tell({"advance": size, "files": 1, **counts})

    reports = shards.write_bucket(job, bucket, documents, done)
    tell({"advance": size * (len(reports) - written), "files": len(reports) - written})
    return reports
