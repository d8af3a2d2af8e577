"""A job on a cluster, whatever its engine: what the driver does before and after."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from albert_tf.data.jobs import tasks
from albert_tf.data.jobs.directory import opened
from albert_tf.data.jobs.job import Job
from albert_tf.data.jobs.local import Outcome
from albert_tf.data.jobs.reports import is_right
from albert_tf.data.jobs.shards import ShardReport, file_name, write_bucket

Engine = Callable[[Job, frozenset[int]], tuple[Mapping[str, int], list[ShardReport]]]


def run_on(engine: Engine, job: Job, force: bool = False) -> Outcome:
    """Makes the files of a job, those that aren't there yet: the same as `run_local`.

    Args:
        engine: reads the corpus and writes the files of these buckets; gives what was counted in
            the whole corpus, and the reports of the buckets that have a document.
        force: start anew.
    Raises:
        UserError: other settings than the folder was begun with, a bad line, no space left, …
    """
    job = dataclasses.replace(job, output=os.path.abspath(job.output))  # for workers elsewhere
    with opened(job, force) as directory:
        right = {report.file: report for report in _right(job, directory.claimed())}
        missing = directory.missing_buckets(list(right.values()))
        if directory.manifest and not missing:
            return Outcome(directory.finish({}, []), ())
        corpus, reports = _run(engine, job, frozenset(missing))
        made = {report.file: report for report in reports}
        new = tuple(sorted(made.keys() - right.keys()))
        return Outcome(directory.finish(corpus, list({**right, **made}.values())), new)


def _right(job: Job, claimed: list[ShardReport]) -> list[ShardReport]:
    """The reports of files that are as reported."""
    with ThreadPoolExecutor() as threads:  # hashing and reading hold no lock
        right = threads.map(
            lambda report: is_right(job.folder / report.file, report.content), claimed
        )
        return [report for report, holds in zip(claimed, right, strict=True) if holds]


def _run(
    engine: Engine, job: Job, missing: frozenset[int]
) -> tuple[Mapping[str, int], list[ShardReport]]:
    try:
        corpus, made = engine(job, missing)
    except Exception as error:
        mistake = tasks.told(error)
        if mistake is None:
            raise
        raise mistake from error
    written = {report.file for report in made}
    for bucket in sorted(missing):
        if file_name(job, 0, bucket) not in written:  # no document fell into it
            made += write_bucket(job, bucket, [])
    return corpus, made
