"""A job on Apache Beam, on any of its runners.

    parts ─ deal ─> (bucket, document) ─ GroupByKey ─> write_bucket

The output and the corpus must be where all machines see them under the same path.
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.data.jobs import scratch, tasks
from albert_tf.data.jobs.cluster import run_on
from albert_tf.data.jobs.job import Job
from albert_tf.data.jobs.local import Outcome
from albert_tf.data.jobs.reports import read_json, write_json
from albert_tf.data.jobs.shards import ShardReport
from albert_tf.errors import UserError

RESULT: Final = "work/beam.json"  # in the output
QUIET: Final = "--default_sdk_harness_log_level=ERROR"  # each worker tells of each step otherwise


def run_beam(
    job: Job, runner: str | None = None, options: Sequence[str] = (), force: bool = False
) -> Outcome:
    """Makes the files of a job, those that aren't there yet: the same as `run_local`.

    Args:
        runner: Beam's name for what runs the job, such as `DirectRunner`.
        options: of the runner, as on a command line: `--direct_num_workers=2`.
        force: start anew.
    Raises:
        UserError: no apache_beam, or as `run_local`.
    """
    named = [f"--runner={runner}"] if runner else []
    arguments = [QUIET, *named, *options]
    return run_on(lambda job, missing: _run(arguments, job, missing), job, force)


def _run(
    arguments: Sequence[str], job: Job, missing: frozenset[int]
) -> tuple[Mapping[str, int], list[ShardReport]]:
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise UserError(
            "--engine beam needs the package apache-beam. Received an environment without it. "
            "Install it: pip install 'albert_tf[beam]'."
        ) from error
    path = job.folder / RESULT
    path.unlink(missing_ok=True)
    try:
        new = beam.Pipeline(options=PipelineOptions(list(arguments)))
    except ValueError as error:  # no such runner, or options that it can't do with
        raise UserError(f"Beam must know the runner and its options. Received: {error}") from error
    with _quiet(), new as pipeline:
        (
            pipeline
            | beam.Create(scratch.parts(job))
            | beam.Reshuffle()  # else all would be read where it was created
            | "deal" >> beam.FlatMap(tasks.deal, job, missing)
            | beam.GroupByKey()
            | "write" >> beam.Map(_write, job)
            | beam.combiners.ToList()
            | "save" >> beam.Map(_save, path)
        )
    result = read_json(path)
    if result is None:
        raise UserError(
            "Beam's workers and this machine must see the output's folder under the same path. "
            f"Received: {job.folder}, where nothing came of what the workers wrote."
        )
    return result["counts"], [ShardReport(**report) for report in result["reports"]]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps Beam from printing the error that it raises too."""
    logger = logging.getLogger("apache_beam")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _write(pair: tuple[int, Iterable[Any]], job: Job) -> tuple[str, Any]:
    bucket, dealt = pair
    if bucket == job.buckets:
        return "counts", tasks.total(dealt)
    return "reports", [report._asdict() for report in tasks.write(bucket, dealt, job)]


def _save(results: Iterable[tuple[str, Any]], path: Path) -> None:
    """Beam gives a driver nothing back but what is in a file."""
    counts: dict[str, int] = {}
    reports: list[dict[str, Any]] = []
    for kind, result in results:
        if kind == "counts":
            counts = result
        else:
            reports += result
    write_json(path, {"counts": counts, "reports": reports})
